package reload

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxFileSize bounds what a wrong path costs. A bundle of every public
// certificate authority is 200 KiB.
const maxFileSize = 1 << 20

// File is a file that a setting names.
type File struct {
	Setting string // the path of the setting, for messages: tls.cert-file
	Path    string
}

// Error says which file cannot be used, and which setting names it.
type Error struct {
	File
	Err error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %s", e.Setting, e.Path, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Value is a T made from files. Get may be called from anywhere at any time.
type Value[T any] struct {
	files   []File
	parse   func(contents [][]byte) (*T, error)
	current atomic.Pointer[T]

	mu     sync.Mutex
	inUse  digest // of the contents that current was made from
	tried  digest // of what the last reading gave, right or wrong
	status Status
}

// Status is how the last reading went.
type Status struct {
	// Loaded is when the value in use was made.
	Loaded time.Time
	// Err is why the files as they are now cannot be used; nil while the value in
	// use is that of the files.
	Err error
}

type digest [sha256.Size]byte

// Load reads the files and makes the first value. parse gets the contents in the
// order of the files; its error should be an *Error where one file is at fault.
func Load[T any](files []File, parse func(contents [][]byte) (*T, error)) (*Value[T], error) {
	v := &Value[T]{files: files, parse: parse}
	if _, err := v.Check(); err != nil {
		return nil, err
	}
	return v, nil
}

// Get is the value in use. It must not be changed.
func (v *Value[T]) Get() *T { return v.current.Load() }

// Status says how the last reading went.
func (v *Value[T]) Status() Status {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.status
}

// Files are the files that the value is made from.
func (v *Value[T]) Files() []File { return v.files }

// readings is how often Check reads files that cannot be used: they may have been
// read in the middle of their being replaced, one old and one new.
const readings = 3

// Check reads the files again and puts what they hold into use if it is new and
// right. changed is false, and err nil, where the last Check has seen the same, so
// that nothing is said twice.
func (v *Value[T]) Check() (changed bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.tried
	for range readings {
		contents, seen, err := readAll(v.files)
		if seen == v.tried {
			break
		}
		v.tried = seen
		v.status.Err = v.take(contents, seen, err)
		if v.status.Err == nil {
			break
		}
	}
	if v.tried == before {
		return false, nil
	}
	return true, v.status.Err
}

// take puts the contents into use; mu is held.
func (v *Value[T]) take(contents [][]byte, seen digest, err error) error {
	if err != nil || seen == v.inUse { // the latter: back to what they were
		return err
	}
	made, err := v.parse(contents)
	if err != nil {
		return err
	}
	v.current.Store(made)
	v.inUse, v.status.Loaded = seen, time.Now()
	return nil
}

// readAll reads the files; the digest is of their contents, or of the error.
func readAll(files []File) ([][]byte, digest, error) {
	hash := sha256.New()
	contents := make([][]byte, 0, len(files))
	for _, file := range files {
		content, err := read(file.Path)
		if err != nil {
			err = &Error{file, err}
			return nil, sha256.Sum256([]byte(err.Error())), err
		}
		_ = binary.Write(hash, binary.BigEndian, int64(len(content))) // a hash takes everything
		hash.Write(content)
		contents = append(contents, content)
	}
	return contents, digest(hash.Sum(nil)), nil
}

func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	if !info.Mode().IsRegular() { // opening a pipe could wait for ever
		return nil, errors.New("is not a file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	switch {
	case err != nil:
		return nil, withoutPath(err)
	case len(content) > maxFileSize:
		return nil, fmt.Errorf("is larger than %d MiB", maxFileSize>>20)
	}
	return content, nil
}

// withoutPath is err without the path, which Error has already.
func withoutPath(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return fmt.Errorf("cannot be read: %w", pathError.Err)
	}
	return err
}

// ReadableByAll reports whether every user of the machine may read the file.
func ReadableByAll(path string) bool {
	const othersRead = 0o004
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&othersRead != 0
}

// IsEncryptedKey reports whether a PEM file holds a private key that needs a password: as
// PKCS #8 has it (RFC 5958), or in the older way (RFC 1421).
func IsEncryptedKey(content []byte) bool {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return true
		}
	}
	return false
}
