package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"path/filepath"
)

// writeArchives writes a tar.gz for each target, with one folder in it.
func writeArchives(dist string, src *checkout, programs []*program) error {
	for _, p := range programs {
		folder := fmt.Sprintf("coordsvc-%s-%s-%s", p.plainVersion(), p.os, p.arch)
		files, err := archived(src, p)
		if err != nil {
			return err
		}
		for i := range files {
			files[i].path = path.Join(folder, files[i].path)
		}
		data, err := tarballOf(files, src.time)
		if err != nil {
			return err
		}
		if data, err = gzipped(data); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dist, folder+".tar.gz"), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// archived is what an archive holds.
func archived(src *checkout, p *program) ([]file, error) {
	files := []file{
		{"coordsvc", 0o755, p.data},
		{"THIRD_PARTY_LICENSES", 0o644, p.licenses},
		{"man/coordsvc.1", 0o644, src.help.man},
		{"completion/coordsvc.bash", 0o644, src.help.bash},
		{"completion/_coordsvc", 0o644, src.help.zsh},
		{"completion/coordsvc.fish", 0o644, src.help.fish},
	}
	for name, source := range map[string]string{
		"LICENSE":       "LICENSE",
		"README.md":     "README.md",
		"CHANGELOG.md":  "CHANGELOG.md",
		"coordsvc.yaml": "deploy/packages/coordsvc.yaml",
	} {
		f, err := src.fromCheckout(name, source)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// writeChecksums writes SHA256SUMS of all that lies in dist.
func writeChecksums(dist string, _ *checkout, _ []*program) error {
	entries, err := os.ReadDir(dist) // sorted
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dist, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), entry.Name())
	}
	return os.WriteFile(filepath.Join(dist, "SHA256SUMS"), sums.Bytes(), 0o644)
}
