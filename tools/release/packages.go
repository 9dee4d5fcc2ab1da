package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// writePackages writes a deb and an rpm for each kind of Linux.
func writePackages(dist string, src *checkout, programs []*program) error {
	for _, p := range programs {
		if p.os != "linux" {
			continue
		}
		for _, packager := range []nfpm.Packager{deb.Default, rpm.DefaultRPM} {
			if err := writePackage(dist, src, p, packager); err != nil {
				return err
			}
		}
	}
	return nil
}

func writePackage(dist string, src *checkout, p *program, packager nfpm.Packager) error {
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	isDeb := packager == deb.Default
	contents, err := packaged(src, p, dir, isDeb)
	if err != nil {
		return err
	}
	scripts := filepath.Join(src.dir, "deploy", "packages")
	info := nfpm.WithDefaults(&nfpm.Info{
		Name:        "coordsvc",
		Arch:        p.arch,
		Platform:    p.os,
		Version:     p.version(),
		Section:     "net",
		Priority:    "optional",
		Maintainer:  "The coordsvc maintainers <maintainers@coordsvc.example>",
		Vendor:      "coordsvc",
		Homepage:    "https://github.com/coordsvc/coordsvc",
		License:     "Apache-2.0",
		Description: "Tells which Kafka broker coordinates a consumer group\nAsked over REST, gRPC or at the terminal, it names the broker that coordinates\na consumer group, a transactional id or a share partition.",
		MTime:       src.time,
		Overridables: nfpm.Overridables{
			Contents: contents,
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(scripts, "postinstall.sh"),
				PreRemove:   filepath.Join(scripts, "preremove.sh"),
				PostRemove:  filepath.Join(scripts, "postremove.sh"),
			},
			RPM: nfpm.RPM{
				BuildHost: "localhost", // not that of the machine
				Group:     "Applications/Internet",
				Summary:   "Tells which Kafka broker coordinates a consumer group",
			},
		},
	})
	if err := nfpm.PrepareForPackager(info, packagerName(isDeb)); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := packager.Package(info, &b); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dist, packager.ConventionalFileName(info)), b.Bytes(), 0o644)
}

func packagerName(isDeb bool) string {
	if isDeb {
		return "deb"
	}
	return "rpm"
}

// packaged is what a package installs. nfpm reads files, so they are laid into dir.
func packaged(src *checkout, p *program, dir string, isDeb bool) (files.Contents, error) {
	man, err := gzipped(src.help.man)
	if err != nil {
		return nil, err
	}
	zsh, license := "usr/share/zsh/site-functions/_coordsvc", "usr/share/licenses/coordsvc/LICENSE"
	if isDeb {
		zsh, license = "usr/share/zsh/vendor-completions/_coordsvc", "usr/share/doc/coordsvc/copyright"
	}
	all := []file{
		{"usr/bin/coordsvc", 0o755, p.data},
		{"usr/share/man/man1/coordsvc.1.gz", 0o644, man},
		{"usr/share/bash-completion/completions/coordsvc", 0o644, src.help.bash},
		{zsh, 0o644, src.help.zsh},
		{"usr/share/fish/vendor_completions.d/coordsvc.fish", 0o644, src.help.fish},
		{"usr/share/doc/coordsvc/THIRD_PARTY_LICENSES", 0o644, p.licenses},
	}
	for name, source := range map[string]string{
		license:                                   "LICENSE",
		"usr/share/doc/coordsvc/README.md":        "README.md",
		"etc/coordsvc/coordsvc.yaml":              "deploy/packages/coordsvc.yaml",
		"usr/lib/systemd/system/coordsvc.service": "deploy/packages/coordsvc.service",
	} {
		f, err := src.fromCheckout(name, source)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	contents := files.Contents{{Destination: "/etc/coordsvc", Type: files.TypeDir, FileInfo: src.fileInfo(0o755)}}
	for _, f := range all {
		if err := f.write(dir); err != nil {
			return nil, err
		}
		content := &files.Content{Source: filepath.Join(dir, f.path), Destination: "/" + f.path, FileInfo: src.fileInfo(f.mode)}
		if f.path == "etc/coordsvc/coordsvc.yaml" {
			content.Type = files.TypeConfigNoReplace
		}
		contents = append(contents, content)
	}
	return contents, nil
}

func (c *checkout) fileInfo(mode fs.FileMode) *files.ContentFileInfo {
	return &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: c.time}
}
