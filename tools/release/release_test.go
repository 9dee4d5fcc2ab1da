package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"debug/macho"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/stretchr/testify/require"
)

func TestRelease(t *testing.T) {
	src, err := openCheckout()
	require.NoError(t, err)
	programs, err := src.buildAll(targets)
	require.NoError(t, err)
	dist := t.TempDir()
	require.NoError(t, fill(dist, src, programs))
	version := programs[0].plainVersion()

	t.Run("nothing is missing, nothing is too much", func(t *testing.T) {
		var names []string
		entries, err := os.ReadDir(dist)
		require.NoError(t, err)
		for _, entry := range entries {
			names = append(names, strings.ReplaceAll(entry.Name(), version, "V"))
		}
		debVersion, rpmVersion := packageVersions(t, dist)
		for i := range names {
			names[i] = strings.NewReplacer(debVersion, "DV", rpmVersion, "RV").Replace(names[i])
		}
		require.ElementsMatch(t, []string{
			"SHA256SUMS", "coordsvc-V.cdx.json", "coordsvc-V.tgz",
			"coordsvc-V-darwin-amd64.tar.gz", "coordsvc-V-darwin-arm64.tar.gz", "coordsvc-V-linux-amd64.tar.gz", "coordsvc-V-linux-arm64.tar.gz",
			"coordsvc_DV_amd64.deb", "coordsvc_DV_arm64.deb", "coordsvc-RV-1.x86_64.rpm", "coordsvc-RV-1.aarch64.rpm",
			"coordsvc-V-image.oci.tar", "coordsvc-V-image-amd64.docker.tar", "coordsvc-V-image-arm64.docker.tar",
		}, names)
	})

	t.Run("checksums", func(t *testing.T) {
		cmd := exec.Command("sha256sum", "-c", "--strict", "SHA256SUMS")
		cmd.Dir = dist
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, 13, strings.Count(string(out), ": OK"))
	})

	for _, p := range programs {
		t.Run("archive "+p.String(), func(t *testing.T) {
			requireArchive(t, filepath.Join(dist, "coordsvc-"+version+"-"+p.os+"-"+p.arch+".tar.gz"), src, p)
		})
	}

	t.Run("chart", func(t *testing.T) {
		requireChart(t, filepath.Join(dist, "coordsvc-"+version+".tgz"), src, version)
	})

	t.Run("SBOM", func(t *testing.T) {
		requireSBOM(t, filepath.Join(dist, "coordsvc-"+version+".cdx.json"), programs)
	})

	t.Run("deb", func(t *testing.T) {
		requireDeb(t, one(t, dist, "*_"+runtime.GOARCH+".deb"), src, find(programs, target{"linux", runtime.GOARCH}))
	})

	t.Run("rpm", func(t *testing.T) {
		requireRPM(t, one(t, dist, "*.x86_64.rpm"))
	})

	t.Run("what the packages tell systemd", func(t *testing.T) {
		requireScripts(t, filepath.Join(src.dir, "deploy", "packages"))
	})

	t.Run("completion in the shells themselves", func(t *testing.T) {
		requireCompletion(t, src)
	})

	t.Run("manual page", func(t *testing.T) {
		page := filepath.Join(t.TempDir(), "coordsvc.1")
		require.NoError(t, os.WriteFile(page, src.help.man, 0o644))
		cmd := exec.Command(tool(t, "man", "man-db"), "--warnings", "-E", "UTF-8", "-l", page)
		cmd.Env = append(os.Environ(), "MANPAGER=cat", "MANWIDTH=100")
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		text, err := cmd.Output()
		require.NoError(t, err)
		require.Empty(t, complaints.String(), "what groff says of the page")
		require.Contains(t, string(text), "--kafka-brokers")
	})

	t.Run("the same commit makes the same release", func(t *testing.T) {
		want, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
		require.NoError(t, err)
		other := sameCommit(t, src)
		programs, err := other.buildAll(targets)
		require.NoError(t, err)
		again := t.TempDir()
		require.NoError(t, fill(again, other, programs))
		got, err := os.ReadFile(filepath.Join(again, "SHA256SUMS"))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	})
}

// one is the only file of that pattern.
func one(t *testing.T, dist, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dist, pattern))
	require.NoError(t, err)
	require.Len(t, found, 1, pattern)
	return found[0]
}

// packageVersions are the version in the words of deb and rpm.
func packageVersions(t *testing.T, dist string) (forDeb, forRPM string) {
	t.Helper()
	forDeb = strings.TrimSpace(shell(t, tool(t, "dpkg-deb", "dpkg"), "-f", one(t, dist, "*_amd64.deb"), "Version"))
	forRPM = strings.TrimSpace(shell(t, tool(t, "rpm", "rpm"), "-qp", "--qf", "%{VERSION}", one(t, dist, "*.x86_64.rpm")))
	return forDeb, forRPM
}

func requireArchive(t *testing.T, path string, src *checkout, p *program) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	var names []string
	var binary []byte
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.Equal(t, src.time, header.ModTime.UTC(), header.Name)
		folder, name, _ := strings.Cut(header.Name, "/")
		require.Equal(t, strings.TrimSuffix(filepath.Base(path), ".tar.gz"), folder)
		names = append(names, name)
		data := readAll(t, r)
		if name == "coordsvc" {
			require.Equal(t, int64(0o755), header.Mode)
			binary = data
		}
	}
	require.Equal(t, []string{
		"", "CHANGELOG.md", "LICENSE", "README.md", "THIRD_PARTY_LICENSES", "completion/", "completion/_coordsvc",
		"completion/coordsvc.bash", "completion/coordsvc.fish", "coordsvc", "coordsvc.yaml", "man/", "man/coordsvc.1",
	}, names)

	if p.os == "darwin" {
		program, err := macho.NewFile(bytes.NewReader(binary))
		require.NoError(t, err)
		require.Equal(t, map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[p.arch], program.Cpu)
		require.Equal(t, macho.TypeExec, program.Type)
		return
	}
	program, err := elf.NewFile(bytes.NewReader(binary))
	require.NoError(t, err)
	require.Equal(t, map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[p.arch], program.Machine)
	imported, err := program.ImportedLibraries()
	require.NoError(t, err)
	require.Empty(t, imported, "the program is not static")
}

// requireChart has Helm render the chart out of the package and out of the checkout.
func requireChart(t *testing.T, path string, src *checkout, version string) {
	t.Helper()
	render := func(chart string) string {
		return shell(t, filepath.Join(src.dir, ".tools", "helm4"), "template", "release", chart, "--values",
			filepath.Join(src.dir, "deploy/helm/coordsvc/ci/plain-values.yaml"))
	}
	packaged := render(path)
	require.Contains(t, packaged, `image: "ghcr.io/coordsvc/coordsvc:`+tag(version)+`"`)
	own, err := os.ReadFile(filepath.Join(src.dir, "deploy/helm/coordsvc/Chart.yaml"))
	require.NoError(t, err)
	committed := regexp.MustCompile(`(?m)^appVersion: (.*)$`).FindSubmatch(own)
	require.NotNil(t, committed)
	require.Equal(t, withoutVersions(render(filepath.Join(src.dir, "deploy/helm/coordsvc")), string(committed[1])), withoutVersions(packaged, version))
}

// withoutVersions takes a version out of labels and the image's tag.
func withoutVersions(rendered, version string) string {
	return strings.NewReplacer(strings.ReplaceAll(version, "+", "_"), "V", tag(version), "V").Replace(rendered)
}

func requireSBOM(t *testing.T, path string, programs []*program) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var bom cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bom))
	require.Equal(t, programs[0].version(), bom.Metadata.Component.Version)
	listed := map[string]bool{}
	for _, c := range *bom.Components {
		require.False(t, listed[c.PackageURL], "%s is listed twice", c.PackageURL)
		listed[c.PackageURL] = true
	}
	for _, p := range programs {
		for _, m := range p.info.Deps {
			require.Contains(t, listed, "pkg:golang/"+m.Path+"@"+m.Version+"?type=module", p)
		}
		require.Contains(t, listed, "pkg:golang/std@"+strings.TrimPrefix(p.info.GoVersion, "go")+"?type=module")
	}
	require.Contains(t, listed, "pkg:golang/google.golang.org/grpc@"+moduleVersion(t, programs[0], "google.golang.org/grpc")+"?type=module")
}

func moduleVersion(t *testing.T, p *program, path string) string {
	t.Helper()
	for _, m := range p.info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	require.FailNow(t, "not linked in", path)
	return ""
}

// requireDeb installs the package into a folder, runs the unit's command line there,
// upgrades, removes and purges.
func requireDeb(t *testing.T, path string, src *checkout, p *program) {
	t.Helper()
	root := t.TempDir()
	dpkg := func(args ...string) string {
		return shell(t, append([]string{tool(t, "dpkg", "dpkg"), "--root=" + root, "--force-script-chrootless", "--force-confold", "--no-pager"}, args...)...)
	}
	for _, dir := range []string{"updates", "info"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755))
	}
	for _, name := range []string{"status", "available"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg", name), nil, 0o644))
	}
	settings := filepath.Join(root, "etc/coordsvc/coordsvc.yaml")

	require.Equal(t, "/etc/coordsvc/coordsvc.yaml\n", shell(t, "dpkg-deb", "-I", path, "conffiles"))
	dpkg("-i", path)
	installed := filesIn(t, root)
	require.Subset(t, installed, []string{
		"etc/coordsvc/coordsvc.yaml", "usr/bin/coordsvc", "usr/lib/systemd/system/coordsvc.service",
		"usr/share/bash-completion/completions/coordsvc", "usr/share/zsh/vendor-completions/_coordsvc", "usr/share/fish/vendor_completions.d/coordsvc.fish",
	})
	requireUnit(t, root)

	t.Run("an upgrade keeps the settings", func(t *testing.T) {
		require.NoError(t, os.WriteFile(settings, []byte("kafka: {brokers: mine.example:9092}\n"), 0o644))
		dir := t.TempDir()
		info := *p.info
		info.Main.Version = "v999.0.0"
		require.NoError(t, writePackage(dir, src, &program{p.target, p.data, &info, p.licenses}, deb.Default))
		newer := one(t, dir, "*.deb")
		require.Equal(t, "coordsvc_999.0.0_"+p.arch+".deb", filepath.Base(newer))
		shell(t, "dpkg", "--compare-versions", "999.0.0", "gt", strings.TrimSpace(shell(t, "dpkg-deb", "-f", path, "Version")))
		dpkg("-i", newer)
		text, err := os.ReadFile(settings)
		require.NoError(t, err)
		require.Equal(t, "kafka: {brokers: mine.example:9092}\n", string(text))
		require.Contains(t, dpkg("-s", "coordsvc"), "Version: 999.0.0\n")
	})

	t.Run("what is removed leaves the settings, what is purged leaves nothing", func(t *testing.T) {
		dpkg("-r", "coordsvc")
		require.Equal(t, []string{"etc/coordsvc/coordsvc.yaml"}, filesIn(t, root))
		dpkg("-P", "coordsvc")
		require.Empty(t, filesIn(t, root))
		require.NoDirExists(t, filepath.Join(root, "etc/coordsvc"))
	})
}

// filesIn are the files in root but for those of dpkg itself.
func filesIn(t *testing.T, root string) []string {
	t.Helper()
	var names []string
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if name == "var/lib/dpkg" || name == "var/log" {
			return filepath.SkipDir
		}
		if !entry.IsDir() {
			names = append(names, name)
		}
		return err
	}))
	return names
}

// requireUnit checks the unit as systemd does, and runs its command line as the user
// of nothing in the folder that the package was installed into.
func requireUnit(t *testing.T, root string) {
	t.Helper()
	const unit = "/usr/lib/systemd/system/coordsvc.service"
	text, err := os.ReadFile(filepath.Join(root, unit))
	require.NoError(t, err)
	command := strings.Fields(directive(t, string(text), "ExecStart"))
	require.Equal(t, "/usr/bin/coordsvc", command[0])

	t.Run("systemd understands the unit", func(t *testing.T) {
		analyze := tool(t, "systemd-analyze", "systemd")
		// The units that it waits for are the machine's, not the package's.
		out, err := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", "--root="+root, unit).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Empty(t, string(out))
		// In tenths of systemd's measure, from 0, nothing open, to 100.
		out, err = exec.Command(analyze, "security", "--offline=yes", "--no-pager", "--threshold=15", "--root="+root, "coordsvc.service").CombinedOutput()
		require.NoError(t, err, string(out))
		t.Log(regexp.MustCompile(`Overall exposure level.*`).FindString(string(out)))
	})

	t.Run("the unit waits for the drain", func(t *testing.T) {
		code, out := jailed(t, root, nil, command[0], "config", "-o", "json", "--kafka-brokers", "localhost:9092")
		require.Zero(t, code, out)
		var settings []struct{ Setting, Value string }
		require.NoError(t, json.Unmarshal([]byte(out), &settings))
		var drain time.Duration
		for _, s := range settings {
			if s.Setting == "shutdown.drain-delay" || s.Setting == "shutdown.drain-timeout" {
				d, err := time.ParseDuration(s.Value)
				require.NoError(t, err)
				drain += d
			}
		}
		require.Equal(t, 40*time.Second, drain)
		stop, err := time.ParseDuration(directive(t, string(text), "TimeoutStopSec"))
		require.NoError(t, err)
		require.Greater(t, stop, drain+3*time.Second, "three seconds are for the last traces")
	})

	t.Run("without brokers it ends for good", func(t *testing.T) {
		code, out := jailed(t, root, nil, command...)
		require.Equal(t, directive(t, string(text), "RestartPreventExitStatus"), strconv.Itoa(code), out)
		require.Contains(t, out, "kafka.brokers: must be set")
	})

	t.Run("with brokers it serves", func(t *testing.T) {
		settings := filepath.Join(root, "etc/coordsvc/coordsvc.yaml")
		packaged, err := os.ReadFile(settings)
		require.NoError(t, err)
		// As an administrator would: the line's # goes, the brokers come.
		line := regexp.MustCompile(`(?m)^  #brokers: .*$`)
		require.Len(t, line.FindAll(packaged, -1), 1)
		brokers := startDemo(t, root, command[0])
		require.NoError(t, os.WriteFile(settings, line.ReplaceAll(packaged, []byte(fmt.Sprintf("  brokers: %q", brokers))), 0o644))
		env, _ := ports(t)
		service := start(t, root, env, command...)
		ready(t, root, env, command[0])
		service.stop(t)
	})
}

// directive is the value of a directive that the unit has once.
func directive(t *testing.T, unit, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^`+name+`=(.*)$`).FindAllStringSubmatch(unit, -1)
	require.Len(t, found, 1, name)
	return found[0][1]
}

func requireRPM(t *testing.T, path string) {
	t.Helper()
	rpm := tool(t, "rpm", "rpm")
	require.Contains(t, shell(t, rpm, "-K", "--nosignature", path), "digests OK")
	require.Equal(t, "/etc/coordsvc/coordsvc.yaml\n", shell(t, rpm, "-qpc", path))
	listed := strings.Fields(shell(t, rpm, "-qpl", path))
	require.Subset(t, listed, []string{
		"/etc/coordsvc/coordsvc.yaml", "/usr/bin/coordsvc", "/usr/lib/systemd/system/coordsvc.service", "/usr/share/man/man1/coordsvc.1.gz",
		"/usr/share/licenses/coordsvc/LICENSE", "/usr/share/bash-completion/completions/coordsvc", "/usr/share/zsh/site-functions/_coordsvc",
	})
	require.Equal(t, "x86_64 Apache-2.0 localhost", shell(t, rpm, "-qp", "--qf", "%{ARCH} %{LICENSE} %{BUILDHOST}", path))
	scripts := shell(t, rpm, "-qp", "--scripts", path)
	require.Contains(t, scripts, "systemctl try-restart coordsvc.service")
	require.Contains(t, scripts, "systemctl disable --now coordsvc.service")

	root := t.TempDir()
	shell(t, rpm, "--root", root, "-i", "--noscripts", "--ignorearch", "--ignoreos", path)
	code, out := jailed(t, root, nil, "/usr/bin/coordsvc", "version")
	require.Zero(t, code, out)
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/coordsvc/coordsvc.yaml"), []byte("# mine\n"), 0o644))
	shell(t, rpm, "--root", root, "-e", "--noscripts", "coordsvc")
	require.NoFileExists(t, filepath.Join(root, "usr/bin/coordsvc"))
	require.FileExists(t, filepath.Join(root, "etc/coordsvc/coordsvc.yaml.rpmsave"))
}

// requireScripts runs the scripts as dpkg and rpm do, where a systemd seems to run.
func requireScripts(t *testing.T, scripts string) {
	t.Helper()
	fake := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(fake, "systemctl"), []byte("#!/bin/sh\necho \"$@\"\n"), 0o755))
	told := func(env, script, argument string) string {
		return shell(t, tool(t, "unshare", "util-linux"), "--mount", "sh", "-ec",
			`mount -t tmpfs none /run; mkdir -p /run/systemd/system; env PATH="$1:$PATH" $2 sh "$3" "$4"`,
			"-", fake, env, filepath.Join(scripts, script), argument)
	}
	for _, installed := range []string{"configure", "1", "2"} {
		require.Equal(t, "daemon-reload\ntry-restart coordsvc.service\n", told("", "postinstall.sh", installed), installed)
	}
	for _, removed := range []string{"remove", "0"} {
		require.Equal(t, "disable --now coordsvc.service\n", told("", "preremove.sh", removed), removed)
		require.Equal(t, "daemon-reload\n", told("", "postremove.sh", removed), removed)
	}
	for _, upgraded := range []string{"upgrade", "1"} {
		require.Empty(t, told("", "preremove.sh", upgraded), "an upgrade leaves the service alone until the new program is there")
	}
	for _, script := range []string{"postinstall.sh", "preremove.sh", "postremove.sh"} {
		require.Empty(t, told("DPKG_ROOT=/folder", script, "remove"), "the machine's own service is another one")
	}
}

// requireCompletion asks bash, zsh and fish what they make of the scripts.
func requireCompletion(t *testing.T, src *checkout) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range map[string][]byte{"coordsvc.bash": src.help.bash, "_coordsvc": src.help.zsh, "coordsvc.fish": src.help.fish} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), script, 0o644))
	}
	t.Chdir(dir)

	t.Run("bash", func(t *testing.T) {
		try := func(words ...string) []string {
			return strings.Fields(shell(t, append([]string{tool(t, "bash", "bash"), "-c",
				`source ./coordsvc.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _coordsvc; echo "${COMPREPLY[@]}"`, "-"}, words...)...))
		}
		require.Equal(t, []string{"serve"}, try("coordsvc", "s"))
		require.Equal(t, []string{"--kafka-sasl-mechanism"}, try("coordsvc", "serve", "--kafka-sasl-m"))
		require.Equal(t, []string{"debug"}, try("coordsvc", "serve", "--log-level", "=", "d"))
		require.Equal(t, []string{"table", "json", "yaml"}, try("coordsvc", "config", "-o", ""))
		require.Equal(t, []string{"coordsvc.bash"}, try("coordsvc", "serve", "--config", "coordsvc.b"))
	})
	t.Run("fish", func(t *testing.T) {
		try := func(line string) []string {
			words := []string{}
			out := shell(t, tool(t, "fish", "fish"), "--no-config", "-c", "source coordsvc.fish; complete -C '"+line+"'")
			for found := range strings.Lines(out) {
				word, _, _ := strings.Cut(strings.TrimSpace(found), "\t")
				words = append(words, word)
			}
			return words
		}
		require.Equal(t, []string{"serve"}, try("coordsvc s"))
		require.Equal(t, []string{"--kafka-sasl-mechanism"}, try("coordsvc serve --kafka-sasl-m"))
		require.Equal(t, []string{"--log-level=debug"}, try("coordsvc serve --log-level=d"))
		require.ElementsMatch(t, []string{"table", "json", "yaml"}, try("coordsvc config -o "))
		require.Equal(t, []string{"coordsvc.bash"}, try("coordsvc serve --config coordsvc.b"))
	})
	t.Run("zsh", func(t *testing.T) {
		escapes := regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]")
		completes := func(line, to string) {
			terminal := shell(t, tool(t, "zsh", "zsh"), "-f", "-c", zshTerminal, "-", line, to)
			require.Contains(t, escapes.ReplaceAllString(terminal, ""), to, "after %q and a tab", line)
		}
		completes("coordsvc s", "coordsvc serve")
		completes("coordsvc serve --kafka-sasl-m", "--kafka-sasl-mechanism=")
		completes("coordsvc serve --log-level=d", "--log-level=debug")
		completes("coordsvc completion f", "coordsvc completion fish")
	})
}

// zshTerminal plays a terminal to zsh, which completes only what somebody types: the
// line and a tab. It prints what stands on the terminal once that has the line
// completed, or after 20 seconds.
const zshTerminal = `
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "fpath=($PWD \$fpath); autoload -Uz compinit; compinit -u -D; bindkey '^I' complete-word; PS1=; print RE''ADY"
zpty -r -m z before '*READY*'
zpty -n -w z "$1"$'\t'
repeat 200; do
  sleep 0.1
  while zpty -r -t z more; do after+=$more; done
  [[ $after == *"$2"* ]] && break
done
print -r -- $after
`
