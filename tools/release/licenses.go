package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

// licenseFile is what a module's licence, and what it wants passed on with it, is called.
var licenseFile = regexp.MustCompile(`^(?i:licen[cs]e|copying|notice)(\.(txt|md))?$`)

// thirdPartyLicenses are the licences of all that is linked into the program, which
// must go with it.
func thirdPartyLicenses(src *checkout, p *program) ([]byte, error) {
	folders, err := moduleFolders(src, p.info.Deps)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "coordsvc %s is linked with the following.\n", p.plainVersion())
	goroot, err := output(src.dir, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	if err := writeLicenses(&b, "Go "+p.info.GoVersion, goroot); err != nil {
		return nil, err
	}
	for _, module := range p.info.Deps {
		if err := writeLicenses(&b, module.Path+" "+module.Version, folders[module.Path]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

func writeLicenses(b *bytes.Buffer, name, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	found := false
	for _, entry := range entries {
		if entry.IsDir() || !licenseFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "\n==== %s: %s\n\n%s\n", name, entry.Name(), bytes.TrimSpace(text))
		found = true
	}
	if !found {
		return fmt.Errorf("%s has no licence in %s", name, folder)
	}
	return nil
}

// moduleFolders are where the modules' sources lie, by path.
func moduleFolders(src *checkout, modules []*debug.Module) (map[string]string, error) {
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		args = append(args, m.Path+"@"+m.Version)
	}
	out, err := output(src.dir, "go", args...)
	if err != nil {
		return nil, err
	}
	folders := make(map[string]string, len(modules))
	decoder := json.NewDecoder(strings.NewReader(out))
	for {
		var m struct{ Path, Dir string }
		switch err := decoder.Decode(&m); err {
		case nil:
			folders[m.Path] = m.Dir
		case io.EOF:
			return folders, nil
		default:
			return nil, err
		}
	}
}
