package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// uid is nobody's on any distribution: that of distroless' "nonroot".
const uid = "65532"

// rootfs is all that the image holds.
func rootfs(src *checkout, program *program) ([]file, error) {
	license, err := src.fromCheckout("licenses/LICENSE", "LICENSE")
	if err != nil {
		return nil, err
	}
	return []file{
		{"coordsvc", 0o755, program.data},
		{"etc/group", 0o644, []byte("root:x:0:\nnonroot:x:" + uid + ":\n")},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:" + uid + ":" + uid + ":nonroot:/:/sbin/nologin\n")},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
		license,
		{"licenses/THIRD_PARTY_LICENSES", 0o644, program.licenses},
	}, nil
}

// authorities are those that Mozilla trusts, of the Go project's copy: the build
// machine's own would differ from machine to machine. A PEM file cannot say what
// Mozilla trusts in part only, so those are left out.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.Bytes()
}

// writeImage writes the image twice: as one OCI layout of all architectures, for
// registries, and as one archive an architecture that `docker load` and `podman load`
// take.
func writeImage(dist string, src *checkout, programs []*program) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range imageTargets {
		program := find(programs, t)
		img, err := image(src, program)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: t.os, Architecture: t.arch}},
		})
		if err := writeDockerArchive(dist, program, img); err != nil {
			return err
		}
	}
	version := find(programs, imageTargets[0]).plainVersion()
	index = mutate.Annotations(index, labels(src, version)).(v1.ImageIndex)
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	log.Println("image", digest)
	return writeLayout(filepath.Join(dist, "coordsvc-"+version+"-image.oci.tar"), src, index, tag(version))
}

func find(programs []*program, t target) *program {
	for _, p := range programs {
		if p.target == t {
			return p
		}
	}
	panic("release: nothing was built for " + t.String())
}

// tag is the version as tags may have it: they have no plus sign.
func tag(version string) string { return strings.ReplaceAll(version, "+", "-") }

func labels(src *checkout, version string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":         "coordsvc",
		"org.opencontainers.image.description":   "Tells which Kafka broker coordinates a consumer group, a transactional id or a share partition",
		"org.opencontainers.image.version":       version,
		"org.opencontainers.image.revision":      src.commit,
		"org.opencontainers.image.created":       src.time.Format(time.RFC3339),
		"org.opencontainers.image.source":        "https://github.com/coordsvc/coordsvc",
		"org.opencontainers.image.documentation": "https://github.com/coordsvc/coordsvc/blob/main/docs/install.md",
		"org.opencontainers.image.licenses":      "Apache-2.0",
	}
}

// image is that of one architecture. deploy/image/Containerfile says the same for
// engines that build it themselves.
func image(src *checkout, program *program) (v1.Image, error) {
	files, err := rootfs(src, program)
	if err != nil {
		return nil, err
	}
	layer, err := layer(files, src.time)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		OS: program.os, Architecture: program.arch, Created: v1.Time{Time: src.time},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:         uid + ":" + uid,
			Entrypoint:   []string{"/coordsvc"},
			Cmd:          []string{"serve"},
			WorkingDir:   "/",
			ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}, "9090/tcp": {}},
			Labels:       labels(src, program.plainVersion()),
			StopSignal:   "SIGTERM",
			// The OCI has no such field; docker and podman have.
			Healthcheck: &v1.HealthConfig{
				Test:        []string{"CMD", "/coordsvc", "healthcheck"},
				Interval:    10 * time.Second,
				Timeout:     5 * time.Second,
				StartPeriod: 5 * time.Second,
				Retries:     3,
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: src.time}, CreatedBy: "coordsvc, commit " + src.commit},
	})
}

func layer(files []file, when time.Time) (v1.Layer, error) {
	data, err := tarballOf(files, when)
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching,
	)
}

func writeDockerArchive(dist string, program *program, img v1.Image) error {
	version := program.plainVersion()
	ref, err := name.NewTag("coordsvc:" + tag(version))
	if err != nil {
		return err
	}
	return tarball.WriteToFile(filepath.Join(dist, "coordsvc-"+version+"-image-"+program.arch+".docker.tar"), ref, img)
}

// writeLayout writes an OCI image layout as one tar file.
func writeLayout(path string, src *checkout, index v1.ImageIndex, tag string) error {
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = l.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag,
		"io.containerd.image.name":          "docker.io/library/coordsvc:" + tag,
	}))
	if err != nil {
		return err
	}
	var files []file
	err = filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		name, err = filepath.Rel(dir, name)
		files = append(files, file{filepath.ToSlash(name), 0o644, data})
		return err
	})
	if err != nil {
		return err
	}
	data, err := tarballOf(files, src.time)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
