package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

var chartVersions = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// writeChart packages the Helm chart as helm package does. Its version, and that of the
// image it names, are those of the release.
func writeChart(dist string, src *checkout, programs []*program) error {
	const folder = "deploy/helm/coordsvc"
	version := programs[0].plainVersion()
	listed, err := output(src.dir, "git", "ls-files", folder)
	if err != nil {
		return err
	}
	var files []file
	for source := range strings.Lines(listed) {
		source = strings.TrimSpace(source)
		name := strings.TrimPrefix(source, folder+"/")
		if strings.HasPrefix(name, "ci/") {
			continue // .helmignore leaves them out
		}
		f, err := src.fromCheckout(path.Join("coordsvc", name), source)
		if err != nil {
			return err
		}
		if name == "Chart.yaml" {
			if n := len(chartVersions.FindAll(f.data, -1)); n != 2 {
				return fmt.Errorf("%s has %d lines with its version and appVersion, not two", source, n)
			}
			f.data = chartVersions.ReplaceAll(f.data, []byte("$1: "+version))
		}
		files = append(files, f)
	}
	data, err := tarballOf(files, src.time)
	if err != nil {
		return err
	}
	if data, err = gzipped(data); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dist, "coordsvc-"+version+".tgz"), data, 0o644)
}
