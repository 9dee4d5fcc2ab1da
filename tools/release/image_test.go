package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

func TestImage(t *testing.T) {
	src, err := openCheckout()
	require.NoError(t, err)
	programs, err := src.buildAll(imageTargets)
	require.NoError(t, err)
	dist := t.TempDir()
	require.NoError(t, writeImage(dist, src, programs))
	version := programs[0].plainVersion()
	index := readLayout(t, filepath.Join(dist, "coordsvc-"+version+"-image.oci.tar"))

	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, len(imageTargets))
	for i, target := range imageTargets {
		t.Run(target.arch, func(t *testing.T) {
			require.Equal(t, target.String(), manifest.Manifests[i].Platform.String())
			img, err := index.Image(manifest.Manifests[i].Digest)
			require.NoError(t, err)
			requireConfig(t, img, src, target, version)
			requireFiles(t, img, src, target)

			archive, err := tarball.ImageFromPath(filepath.Join(dist, "coordsvc-"+version+"-image-"+target.arch+".docker.tar"), nil)
			require.NoError(t, err)
			want, err := img.ConfigName()
			require.NoError(t, err)
			got, err := archive.ConfigName()
			require.NoError(t, err)
			require.Equal(t, want, got, "docker load would make another image")
		})
	}

	t.Run("the same commit makes the same image", func(t *testing.T) {
		other := sameCommit(t, src)
		programs, err := other.buildAll(imageTargets)
		require.NoError(t, err)
		again := t.TempDir()
		require.NoError(t, writeImage(again, other, programs))
		want, err := index.Digest()
		require.NoError(t, err)
		got, err := readLayout(t, filepath.Join(again, "coordsvc-"+version+"-image.oci.tar")).Digest()
		require.NoError(t, err)
		require.Equal(t, want, got)
	})

	t.Run("it runs as its user with nothing else", func(t *testing.T) {
		for i, target := range imageTargets {
			if target.arch == runtime.GOARCH {
				img, err := index.Image(manifest.Manifests[i].Digest)
				require.NoError(t, err)
				requireRuns(t, img)
				return
			}
		}
		require.FailNow(t, "no image of this machine's kind")
	})
}

func requireConfig(t *testing.T, img v1.Image, src *checkout, target target, version string) {
	t.Helper()
	config, err := img.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, target.String(), config.Platform().String())
	require.Equal(t, src.time, config.Created.UTC())
	require.Equal(t, "65532:65532", config.Config.User)
	require.Equal(t, []string{"/coordsvc"}, config.Config.Entrypoint)
	require.Equal(t, []string{"serve"}, config.Config.Cmd)
	require.Equal(t, []string{"CMD", "/coordsvc", "healthcheck"}, config.Config.Healthcheck.Test)
	require.Equal(t, version, config.Config.Labels["org.opencontainers.image.version"])
	require.Equal(t, src.commit, config.Config.Labels["org.opencontainers.image.revision"])
	require.Equal(t, src.time.Format(time.RFC3339), config.Config.Labels["org.opencontainers.image.created"])
	require.Equal(t, "Apache-2.0", config.Config.Labels["org.opencontainers.image.licenses"])

	layers, err := img.Layers()
	require.NoError(t, err)
	var size int64
	for _, layer := range layers {
		n, err := layer.Size()
		require.NoError(t, err)
		size += n
	}
	t.Logf("%s: %.1f MiB compressed", target, float64(size)/(1<<20))
	require.Less(t, size, int64(25<<20))
}

// requireFiles: the program and what it needs, all of root, nothing to run beside it.
func requireFiles(t *testing.T, img v1.Image, src *checkout, target target) {
	t.Helper()
	content := map[string][]byte{}
	var names []string
	layers, err := img.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	layer, err := layers[0].Uncompressed()
	require.NoError(t, err)
	defer layer.Close()
	for r := tar.NewReader(layer); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.Zero(t, header.Uid+header.Gid, header.Name)
		require.Empty(t, header.Uname+header.Gname, header.Name)
		require.Equal(t, src.time, header.ModTime.UTC(), header.Name)
		require.Zero(t, header.Mode&0o022, "%s: others can write it", header.Name)
		names = append(names, header.Name)
		content[header.Name] = readAll(t, r)
	}
	require.Equal(t, []string{
		"coordsvc", "etc/", "etc/group", "etc/passwd", "etc/ssl/", "etc/ssl/certs/", "etc/ssl/certs/ca-certificates.crt",
		"licenses/", "licenses/LICENSE", "licenses/THIRD_PARTY_LICENSES",
	}, names)

	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(content["etc/ssl/certs/ca-certificates.crt"]))
	require.Greater(t, bytes.Count(content["etc/ssl/certs/ca-certificates.crt"], []byte("BEGIN CERTIFICATE")), 100)

	program, err := elf.NewFile(bytes.NewReader(content["coordsvc"]))
	require.NoError(t, err)
	require.Equal(t, map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[target.arch], program.Machine)
	for _, part := range program.Progs {
		require.NotEqual(t, elf.PT_INTERP, part.Type, "the program is not static")
	}
	for _, notice := range []string{"==== Go go1.", "==== google.golang.org/grpc ", "==== github.com/alecthomas/kong "} {
		require.Contains(t, string(content["licenses/THIRD_PARTY_LICENSES"]), notice)
	}
}

// requireRuns runs what the image says in an empty folder, as an engine would.
func requireRuns(t *testing.T, img v1.Image) {
	t.Helper()
	root := t.TempDir()
	files := mutate.Extract(img)
	defer files.Close()
	for r := tar.NewReader(files); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if header.Typeflag == tar.TypeDir {
			continue
		}
		f := file{header.Name, header.FileInfo().Mode(), readAll(t, r)}
		require.NoError(t, f.write(root))
	}
	config, err := img.ConfigFile()
	require.NoError(t, err)
	entrypoint, check := config.Config.Entrypoint, config.Config.Healthcheck.Test[1:]

	env, rest := ports(t)
	env = append(env, "COORDSVC_KAFKA_BROKERS="+startDemo(t, root, entrypoint[0]))
	code, out := jailed(t, root, env, check...)
	require.Equal(t, 1, code, "nothing runs yet: %s", out)

	service := start(t, root, env, append(entrypoint, config.Config.Cmd...)...)
	ready(t, root, env, entrypoint[0])
	code, out = jailed(t, root, env, check...)
	require.Zero(t, code, out)

	answer, err := http.Get("http://" + rest + "/v1/coordinators/GROUP/orders")
	require.NoError(t, err)
	defer answer.Body.Close()
	body := readAll(t, answer.Body)
	require.Equal(t, http.StatusOK, answer.StatusCode, string(body))
	require.Contains(t, string(body), `"coordinator":{"nodeId":`)

	status, err := os.ReadFile("/proc/" + strconv.Itoa(service.cmd.Process.Pid) + "/status")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^Uid:\s+65532\s+65532\s+65532\s+65532$`, string(status))
	service.stop(t)
	code, _ = jailed(t, root, env, check...)
	require.Equal(t, 1, code, "the service has ended")
}

// readLayout is the one index of an OCI layout in a tar file.
func readLayout(t *testing.T, path string) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	shell(t, "tar", "-xf", path, "-C", dir)
	outer, err := layout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	manifest, err := outer.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1)
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	return index
}
