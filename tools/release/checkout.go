package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// target is a kind of machine to build for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

var (
	imageTargets = []target{{"linux", "amd64"}, {"linux", "arm64"}}
	targets      = slices.Concat(imageTargets, []target{{"darwin", "amd64"}, {"darwin", "arm64"}})
)

// checkout is the source that is released.
type checkout struct {
	dir    string
	commit string
	time   time.Time // of the commit; everything that is made has it

	help helpFiles // told by the program that this machine can run, once it is built
}

// program is the built coordsvc.
type program struct {
	target
	data     []byte
	info     *buildinfo.BuildInfo
	licenses []byte // of all that is linked in
}

// version is the one that `coordsvc version` prints: Go makes it from the tag.
func (p *program) version() string { return p.info.Main.Version }

// plainVersion is the version without the v, as file names and packages have it.
func (p *program) plainVersion() string { return strings.TrimPrefix(p.version(), "v") }

// openCheckout finds the checkout that the working directory is in.
func openCheckout() (*checkout, error) {
	dir, err := output("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	head, err := output(dir, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return nil, err
	}
	commit, seconds, _ := strings.Cut(head, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("git log gave %q: %w", head, err)
	}
	return &checkout{dir: dir, commit: commit, time: time.Unix(unix, 0).UTC()}, nil
}

// buildAll builds for each target.
func (c *checkout) buildAll(targets []target) ([]*program, error) {
	programs := make([]*program, 0, len(targets))
	for _, t := range targets {
		p, err := c.build(t)
		if err != nil {
			return nil, err
		}
		programs = append(programs, p)
	}
	return programs, nil
}

func (c *checkout) build(t target) (*program, error) {
	log.Println("building for", t)
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "coordsvc")
	// No symbols for debuggers, which are a third of the size; profiles and stack
	// traces need none.
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", path, "./cmd/coordsvc")
	cmd.Dir = c.dir
	// Whatever the machine sets of these would change the program.
	cmd.Env = append(os.Environ(), "GOOS="+t.os, "GOARCH="+t.arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=-mod=readonly", "GOEXPERIMENT=", "GODEBUG=", "GOWORK=off", "GOFIPS140=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building for %s: %w\n%s", t, err, out)
	}
	p := &program{target: t}
	if p.data, err = os.ReadFile(path); err != nil {
		return nil, err
	}
	if p.info, err = buildinfo.Read(bytes.NewReader(p.data)); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(p.version(), "v") {
		return nil, fmt.Errorf("the program has the version %q: Go stamps one only in a clone of the repository that has its .git folder, not in a linked worktree or a copy", p.version())
	}
	if t.os == runtime.GOOS && t.arch == runtime.GOARCH {
		if err := c.help.ask(path); err != nil {
			return nil, err
		}
	}
	p.licenses, err = thirdPartyLicenses(c, p)
	return p, err
}

// helpFiles are what the program says of itself.
type helpFiles struct{ man, bash, zsh, fish []byte }

func (h *helpFiles) ask(program string) error {
	for _, question := range []struct {
		answer *[]byte
		args   []string
	}{
		{&h.man, []string{"man"}},
		{&h.bash, []string{"completion", "bash"}},
		{&h.zsh, []string{"completion", "zsh"}},
		{&h.fish, []string{"completion", "fish"}},
	} {
		out, err := exec.Command(program, question.args...).Output()
		if err != nil {
			return fmt.Errorf("coordsvc %s: %w", strings.Join(question.args, " "), err)
		}
		*question.answer = out
	}
	return nil
}

// output runs a command and returns what it prints.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}
