package kafkawire

import (
	"encoding/binary"
	"fmt"
)

// A checker gathers what speaks against encoding a message, before the first
// byte is written. Like the reader it keeps the first objection.
type checker struct {
	message string
	version Version
	err     error
}

// spoken refuses a version that the package does not speak. Every check begins with it.
func (c *checker) spoken(key APIKey) {
	if !key.speaks(c.version) {
		c.refuse("", fmt.Errorf("%w: %v is written in versions %v", ErrVersion, key, Supported(key)))
	}
}

func (c *checker) refuse(field string, err error) {
	if c.err == nil {
		c.err = &EncodeError{Message: c.message, Version: c.version, Field: field, Err: err}
	}
}

func (c *checker) string(field, s string) {
	if len(s) > maxStringLength {
		c.refuse(field, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLong, len(s), maxStringLength))
	}
}

// A writer appends the fields of a message that was checked: it cannot fail.
type writer struct {
	dst      []byte
	flexible bool
}

func writeBody(dst []byte, key APIKey, v Version) writer {
	return writer{dst: dst, flexible: key.flexible(v)}
}

func (w *writer) int8(n int8)   { w.dst = append(w.dst, byte(n)) }
func (w *writer) int16(n int16) { w.dst = binary.BigEndian.AppendUint16(w.dst, uint16(n)) }
func (w *writer) int32(n int32) { w.dst = binary.BigEndian.AppendUint32(w.dst, uint32(n)) }
func (w *writer) int64(n int64) { w.dst = binary.BigEndian.AppendUint64(w.dst, uint64(n)) }

func (w *writer) uuid(id [16]byte) { w.dst = append(w.dst, id[:]...) }

func (w *writer) bool(b bool) {
	if b {
		w.int8(1)
		return
	}
	w.int8(0)
}

func (w *writer) uvarint(n int) { w.dst = binary.AppendUvarint(w.dst, uint64(n)) }

func (w *writer) string(s string) {
	if w.flexible {
		w.uvarint(len(s) + 1)
	} else {
		w.int16(int16(len(s)))
	}
	w.dst = append(w.dst, s...)
}

// nullString writes the string that is not there.
func (w *writer) nullString() {
	if w.flexible {
		w.uvarint(0)
		return
	}
	w.int16(null)
}

// stringOrNull writes null for "", as brokers do for what they were not told.
func (w *writer) stringOrNull(s string) {
	if s == "" {
		w.nullString()
		return
	}
	w.string(s)
}

func (w *writer) bytes(b []byte) {
	w.array(len(b))
	w.dst = append(w.dst, b...)
}

// array writes the length of an array, or of a byte array, which is the same.
func (w *writer) array(n int) {
	if w.flexible {
		w.uvarint(n + 1)
		return
	}
	w.int32(int32(n))
}

func (w *writer) nullArray() { w.array(null) }

func (w *writer) int32s(list []int32) {
	w.array(len(list))
	for _, n := range list {
		w.int32(n)
	}
}

// tags ends a struct: no tagged field is ever sent.
func (w *writer) tags() {
	if w.flexible {
		w.dst = append(w.dst, 0)
	}
}
