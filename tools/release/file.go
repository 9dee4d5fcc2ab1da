package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one that something released holds.
type file struct {
	path string // slash-separated, without one at the beginning
	mode fs.FileMode
	data []byte
}

// fromCheckout reads a file of the checkout to be released as path.
func (c *checkout) fromCheckout(path, name string) (file, error) {
	data, err := os.ReadFile(filepath.Join(c.dir, name))
	return file{path, 0o644, data}, err
}

func (f file) write(dir string) error {
	name := filepath.Join(dir, f.path)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, f.data, f.mode)
}

// tarballOf holds the files and the folders that they are in, sorted, all of root and of
// one time.
func tarballOf(files []file, when time.Time) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range withFolders(files) {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.path, Mode: int64(f.mode), Size: int64(len(f.data)),
			ModTime: when, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(f.path, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

// withFolders adds the folders, whose paths end in a slash, and sorts.
func withFolders(files []file) []file {
	all := slices.Clone(files)
	for _, f := range files {
		for dir := path.Dir(f.path); dir != "."; dir = path.Dir(dir) {
			all = append(all, file{path: dir + "/", mode: 0o755})
		}
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return slices.CompactFunc(all, func(a, b file) bool { return a.path == b.path })
}

// gzipped compresses. The header gets neither a name nor a time.
func gzipped(data []byte) ([]byte, error) {
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return buf.Bytes(), err
}
