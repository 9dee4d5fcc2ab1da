package main

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes what is linked into the programs, as the linker recorded it.
func writeSBOM(dist string, src *checkout, programs []*program) error {
	main := component(cdx.ComponentTypeApplication, &programs[0].info.Main)
	components := []cdx.Component{}
	seen := map[string]bool{}
	for _, p := range programs {
		modules := slices.Concat(p.info.Deps, []*debug.Module{{Path: "std", Version: strings.TrimPrefix(p.info.GoVersion, "go")}})
		for _, m := range modules {
			c := component(cdx.ComponentTypeLibrary, m)
			if !seen[c.BOMRef] {
				seen[c.BOMRef] = true
				components = append(components, c)
			}
		}
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: src.time.Format(time.RFC3339), Component: &main}
	bom.Components = &components

	f, err := os.Create(filepath.Join(dist, "coordsvc-"+programs[0].plainVersion()+".cdx.json"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return f.Close()
}

func component(kind cdx.ComponentType, m *debug.Module) cdx.Component {
	ref := fmt.Sprintf("pkg:golang/%s@%s?type=module", m.Path, m.Version)
	c := cdx.Component{BOMRef: ref, Type: kind, Name: m.Path, Version: m.Version, PackageURL: ref}
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return c
}
