package kafkawire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// maxStringLength is the longest string, in bytes, that Kafka reads or writes in
// any version: the compact strings of flexible versions could be longer, but its
// generated code refuses that.
const maxStringLength = math.MaxInt16

// A reader walks over the bytes of one message. The first thing that is wrong is
// kept in err, and from then on nothing is left to read: every further call
// returns a zero value at once, so that callers check once, at the end.
type reader struct {
	src      []byte
	text     string // a copy of src, made for the first string; all strings are parts of it
	off      int
	flexible bool

	message string
	version Version
	path    [2]element // the array elements being read, outermost first
	depth   int
	err     error
}

// An element is one place in an array of structs.
type element struct {
	array string
	index int
}

// body prepares for the body of a message. Every decoder begins with it.
func (r *reader) body(key APIKey) {
	r.flexible = key.flexible(r.version)
	if !key.speaks(r.version) {
		r.fail("", fmt.Errorf("%w: %v is read in versions %v", ErrVersion, key, Supported(key)))
	}
}

func (r *reader) left() int { return len(r.src) - r.off }

// fail keeps the first error and leaves nothing to read.
func (r *reader) fail(field string, err error) {
	if r.err != nil {
		return
	}
	for i := r.depth - 1; i >= 0; i-- {
		field = fmt.Sprintf("%s[%d].%s", r.path[i].array, r.path[i].index, field)
	}
	r.err = &DecodeError{Message: r.message, Version: r.version, Field: field, Offset: r.off, Err: err}
	r.src = r.src[:r.off]
}

func (r *reader) truncated(field string, need int) {
	r.fail(field, fmt.Errorf("%w: %d bytes needed, %d left", ErrTruncated, need, r.left()))
}

// end checks that the message was read to its last byte.
func (r *reader) end() error {
	if r.err == nil && r.left() > 0 {
		r.fail("", fmt.Errorf("%w: %d", ErrTrailingBytes, r.left()))
	}
	return r.err
}

func (r *reader) int8(field string) int8 {
	if r.left() < 1 {
		r.truncated(field, 1)
		return 0
	}
	n := r.src[r.off]
	r.off++
	return int8(n)
}

// bool takes any byte but 0 for true, as Kafka does.
func (r *reader) bool(field string) bool { return r.int8(field) != 0 }

func (r *reader) int16(field string) int16 {
	if r.left() < 2 {
		r.truncated(field, 2)
		return 0
	}
	n := binary.BigEndian.Uint16(r.src[r.off:])
	r.off += 2
	return int16(n)
}

func (r *reader) int32(field string) int32 {
	if r.left() < 4 {
		r.truncated(field, 4)
		return 0
	}
	n := binary.BigEndian.Uint32(r.src[r.off:])
	r.off += 4
	return int32(n)
}

func (r *reader) int64(field string) int64 {
	if r.left() < 8 {
		r.truncated(field, 8)
		return 0
	}
	n := binary.BigEndian.Uint64(r.src[r.off:])
	r.off += 8
	return int64(n)
}

func (r *reader) uuid(field string) (id [16]byte) {
	if r.left() < len(id) {
		r.truncated(field, len(id))
		return id
	}
	r.off += copy(id[:], r.src[r.off:])
	return id
}

// uvarint reads at most five bytes, which hold 32 bits and no more.
func (r *reader) uvarint(field string) uint32 {
	if r.off < len(r.src) && r.src[r.off] < 0x80 {
		r.off++
		return uint32(r.src[r.off-1])
	}
	return r.longUvarint(field)
}

func (r *reader) longUvarint(field string) uint32 {
	var n uint64
	for i := range 5 {
		if i == r.left() {
			r.truncated(field, i+1)
			return 0
		}
		b := r.src[r.off+i]
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			if n > math.MaxUint32 {
				break
			}
			r.off += i + 1
			return uint32(n)
		}
	}
	r.fail(field, ErrInvalidVarint)
	return 0
}

// null is what the lengths of null strings, bytes and arrays are read as.
const null = -1

// compactLength reads the n+1 of flexible versions; 0 is null.
func (r *reader) compactLength(field string) int64 { return int64(r.uvarint(field)) - 1 }

// span checks a length against what may be and what is left, and returns it.
// start is where the length itself stood, for the error.
func (r *reader) span(field string, start int, n, limit int64) int {
	switch {
	case n < null || n > limit:
		r.off = start
		r.fail(field, fmt.Errorf("%w %d", ErrInvalidLength, n))
	case n > int64(r.left()):
		left := r.left()
		r.off = start
		r.fail(field, fmt.Errorf("%w: length is %d, %d bytes left", ErrTruncated, n, left))
	default:
		return int(n)
	}
	return 0
}

// stringLength reads the length of a string, which is null or fits the bytes left.
func (r *reader) stringLength(field string) int {
	start := r.off
	if !r.flexible {
		return r.span(field, start, int64(r.int16(field)), maxStringLength)
	}
	return r.span(field, start, r.compactLength(field), maxStringLength)
}

// all returns the one copy of the message.
func (r *reader) all() string {
	if r.text == "" {
		r.text = string(r.src)
	}
	return r.text
}

// substring returns the next n bytes, as a part of the one copy of the message.
func (r *reader) substring(n int) string {
	if n <= 0 {
		return ""
	}
	r.off += n
	return r.all()[r.off-n : r.off]
}

// nullableString reads null as "".
func (r *reader) nullableString(field string) string { return r.substring(r.stringLength(field)) }

func (r *reader) string(field string) string {
	n := r.stringLength(field)
	if n == null {
		r.fail(field, ErrNull)
	}
	return r.substring(n)
}

// optionalString keeps null and "" apart.
func (r *reader) optionalString(field string) *string {
	n := r.stringLength(field)
	if n == null || r.err != nil {
		return nil
	}
	s := r.substring(n)
	return &s
}

// bytesLength reads the length of a byte array, which is null or fits the bytes left.
func (r *reader) bytesLength(field string) int {
	start := r.off
	if !r.flexible {
		return r.span(field, start, int64(r.int32(field)), math.MaxInt32)
	}
	return r.span(field, start, r.compactLength(field), math.MaxInt32)
}

// nullableBytes returns a copy, and nil for null or nothing.
func (r *reader) nullableBytes(field string) []byte { return r.copied(r.bytesLength(field)) }

// bytes returns a copy, and nil for nothing.
func (r *reader) bytes(field string) []byte {
	n := r.bytesLength(field)
	if n == null {
		r.fail(field, ErrNull)
	}
	return r.copied(n)
}

func (r *reader) copied(n int) []byte {
	if n <= 0 {
		return nil
	}
	r.off += n
	return append([]byte(nil), r.src[r.off-n:r.off]...)
}

// nullableArray reads how many elements an array has, or null. An element takes
// at least size bytes: a count that cannot fit what is left is refused here, so
// that callers may allocate by it.
func (r *reader) nullableArray(field string, size int) int {
	start := r.off
	var n int64
	if r.flexible {
		n = r.compactLength(field)
	} else {
		n = int64(r.int32(field))
	}
	if n > 0 && n > int64(r.left()/size) {
		left := r.left()
		r.off = start
		r.fail(field, fmt.Errorf("%w: %d elements of at least %d bytes, %d bytes left", ErrTruncated, n, size, left))
		return 0
	}
	return r.span(field, start, n, math.MaxInt32)
}

// array is nullableArray where null is not allowed.
func (r *reader) array(field string, size int) int {
	n := r.nullableArray(field, size)
	if n == null {
		r.fail(field, ErrNull)
		return 0
	}
	return n
}

// enter and leave bracket the elements of an array of structs, at sets which one
// is being read. It only serves the field names in errors.
func (r *reader) enter(array string) {
	r.path[r.depth] = element{array: array}
	r.depth++
}

func (r *reader) at(index int) { r.path[r.depth-1].index = index }

func (r *reader) leave() { r.depth-- }

// int32s reads an array of numbers; none is nil.
func (r *reader) int32s(field string) []int32 {
	n := r.array(field, 4)
	if n == 0 {
		return nil
	}
	list := make([]int32, n)
	for i := range list {
		list[i] = r.int32(field)
	}
	return list
}

// strings reads n strings; none is nil.
func (r *reader) strings(field string, n int) []string {
	if n <= 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = r.string(field)
	}
	return list
}

// minString is the fewest bytes a string takes: its length.
func (r *reader) minString() int {
	if r.flexible {
		return 1
	}
	return 2
}

// tags skips the tagged fields that end every struct of a flexible version:
// none of those known today says anything that the project needs.
func (r *reader) tags() {
	if !r.flexible {
		return
	}
	for n := r.uvarint("tagged fields"); n > 0 && r.err == nil; n-- {
		r.uvarint("tag")
		start := r.off
		size := int64(r.uvarint("tagged field"))
		r.off += r.span("tagged field", start, size, math.MaxInt32)
	}
}

// decoded stores what was read where all of it was right, and nothing otherwise:
// a message half filled from bad bytes is not worth having.
func decoded[T any](dst *T, message T, err error) error {
	if err != nil {
		var zero T
		*dst = zero
		return err
	}
	*dst = message
	return nil
}
