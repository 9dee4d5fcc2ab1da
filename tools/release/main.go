// Command release makes what coordsvc is released as, into the folder dist of the
// checkout:
//
//	go run -C tools/release . image      the container image, for amd64 and arm64
//	go run -C tools/release . all        that, the chart, archives, deb, rpm, an SBOM, checksums
//	go run -C tools/release . rootfs DIR what the image of this machine's kind holds
//
// One commit and one release of Go make the same bytes on every machine: no time but
// the commit's, no name of a user, a host or a folder gets in. No container engine is
// needed.
//
// It is a module of its own, so that what it needs is not needed to build coordsvc.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
)

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Println("release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("say what to make: image, all, or rootfs DIR")
	}
	src, err := openCheckout()
	if err != nil {
		return err
	}
	dist := filepath.Join(src.dir, "dist")
	switch {
	case args[0] == "image" && len(args) == 1:
		return makeImage(src, dist)
	case args[0] == "all" && len(args) == 1:
		return makeAll(src, dist)
	case args[0] == "rootfs" && len(args) == 2:
		return makeRootfs(src, args[1])
	default:
		return fmt.Errorf("%q: give image, all, or rootfs DIR", args)
	}
}

// makeImage writes the image alone.
func makeImage(src *checkout, dist string) error {
	return renewed(dist, func() error {
		programs, err := src.buildAll(imageTargets)
		if err != nil {
			return err
		}
		return writeImage(dist, src, programs)
	})
}

// makeAll writes everything that a release has.
func makeAll(src *checkout, dist string) error {
	return renewed(dist, func() error {
		programs, err := src.buildAll(targets)
		if err != nil {
			return err
		}
		return fill(dist, src, programs)
	})
}

func fill(dist string, src *checkout, programs []*program) error {
	if src.help.man == nil {
		return fmt.Errorf("no program was built that runs on %s/%s and prints its manual page: release on linux or darwin, amd64 or arm64", runtime.GOOS, runtime.GOARCH)
	}
	for _, write := range []func(string, *checkout, []*program) error{
		writeImage, writeChart, writeArchives, writePackages, writeSBOM, writeChecksums,
	} {
		if err := write(dist, src, programs); err != nil {
			return err
		}
	}
	return nil
}

// makeRootfs lays out the image's files, for a container file to copy.
func makeRootfs(src *checkout, dir string) error {
	program, err := src.build(target{"linux", runtime.GOARCH})
	if err != nil {
		return err
	}
	root, err := rootfs(src, program)
	if err != nil {
		return err
	}
	for _, f := range root {
		if err := f.write(dir); err != nil {
			return err
		}
	}
	return nil
}

// renewed fills the folder anew and says what it holds then. Old files would end up
// in the checksums.
func renewed(dist string, fill func() error) error {
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}
	if err := fill(); err != nil {
		return err
	}
	entries, err := os.ReadDir(dist)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			return err
		}
		log.Printf("%6.1f MiB  dist/%s", float64(info.Size())/(1<<20), entry.Name())
	}
	return nil
}
