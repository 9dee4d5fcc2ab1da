package server

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// codec is gRPC's own, but for two costs that make up a quarter of a call of a thousand
// keys: the long answer is written without reflection, and its buffer is not cleared
// before it is filled (gRPC's pool clears a megabyte for an answer of 33 KB).
//
// See docs/adr/0008-long-answers-by-hand.md.
type codec struct{}

// Name implements [encoding.CodecV2].
func (codec) Name() string { return "proto" }

// Marshal implements [encoding.CodecV2].
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *coordsvcv1.FindCoordinatorsResponse:
		b := messageBuffers.Get(encodedSize(m))
		w := protoWriter{buf: (*b)[:0]}
		w.findResponse(m)
		*b = w.buf
		if w.notUTF8 {
			messageBuffers.Put(b)
			return nil, errors.New("server: an answer has text that is not UTF-8, which protobuf cannot carry")
		}
		return mem.BufferSlice{mem.NewBuffer(b, &messageBuffers)}, nil
	case proto.Message:
		b, err := proto.Marshal(m)
		if err != nil {
			return nil, err
		}
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	default:
		return nil, fmt.Errorf("server: %T is no protobuf message", v)
	}
}

// Unmarshal implements [encoding.CodecV2].
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("server: %T is no protobuf message", v)
	}
	b := data.MaterializeToBuffer(&messageBuffers)
	defer b.Free()
	return proto.Unmarshal(b.ReadOnlyData(), m) // which copies what it keeps
}

// rowSize is about what a result takes as protobuf, next to its key.
const rowSize = 80

// encodedSize estimates how long the answer becomes. A buffer that is too small grows,
// and does not go back to the pool.
func encodedSize(m *coordsvcv1.FindCoordinatorsResponse) int {
	size := rowSize
	for _, row := range m.GetResults() {
		size += rowSize + len(row.GetKey()) + len(row.GetError().GetMessage())
	}
	return size
}

// protoWriter appends protobuf to buf, byte for byte as protobuf-go would. A test
// fails for a field that is in coordinators.proto and not here.
type protoWriter struct {
	buf     []byte
	notUTF8 bool
}

// The first byte of a field, and the only one below field 16: its number, and how it
// is written.
const (
	varint = 0
	sized  = 2 // with a length in front: strings and messages
)

func (w *protoWriter) findResponse(m *coordsvcv1.FindCoordinatorsResponse) {
	for _, row := range m.GetResults() {
		w.result(row)
	}
	w.varint(2<<3|varint, uint64(m.GetFailed()))
}

func (w *protoWriter) result(row *coordsvcv1.CoordinatorResult) {
	begin := w.begin(1<<3 | sized)
	w.string(1<<3|sized, row.GetKey())
	w.int32(4<<3|varint, row.GetApiVersion())
	w.string(5<<3|sized, row.GetAnsweredBy())
	switch outcome := row.GetOutcome().(type) { // at the end, where protobuf-go has it
	case *coordsvcv1.CoordinatorResult_Coordinator:
		w.coordinator(outcome.Coordinator)
	case *coordsvcv1.CoordinatorResult_Error:
		w.lookupError(outcome.Error)
	}
	w.end(begin)
}

func (w *protoWriter) coordinator(c *coordsvcv1.Coordinator) {
	begin := w.begin(2<<3 | sized)
	w.int32(1<<3|varint, c.GetNodeId())
	w.string(2<<3|sized, c.GetHost())
	w.int32(3<<3|varint, c.GetPort())
	w.end(begin)
}

func (w *protoWriter) lookupError(e *coordsvcv1.LookupError) {
	begin := w.begin(3<<3 | sized)
	w.string(1<<3|sized, e.GetReason())
	w.int32(2<<3|varint, e.GetKafkaCode())
	w.string(3<<3|sized, e.GetMessage())
	w.varint(4<<3|varint, protowire.EncodeBool(e.GetRetriable()))
	w.end(begin)
}

// begin begins a message, with a byte for its length; end writes that, and moves the
// message where one byte is too short.
func (w *protoWriter) begin(tag byte) (begin int) {
	w.buf = append(w.buf, tag, 0)
	return len(w.buf)
}

func (w *protoWriter) end(begin int) {
	size := len(w.buf) - begin
	if size < 0x80 {
		w.buf[begin-1] = byte(size)
		return
	}
	message := w.buf[begin:]
	more := protowire.SizeVarint(uint64(size)) - 1
	w.buf = append(w.buf, make([]byte, more)...)
	copy(w.buf[begin+more:], message)
	protowire.AppendVarint(w.buf[:begin-1], uint64(size))
}

// string writes nothing for one that is empty, as the others do for zero.
func (w *protoWriter) string(tag byte, s string) {
	if s == "" {
		return
	}
	w.notUTF8 = w.notUTF8 || !utf8.ValidString(s)
	w.buf = append(w.buf, tag)
	w.buf = append(protowire.AppendVarint(w.buf, uint64(len(s))), s...)
}

// int32 writes one that is negative as an int64, in ten bytes.
func (w *protoWriter) int32(tag byte, v int32) {
	w.varint(tag, uint64(int64(v))) //nolint:gosec // two's complement is what is meant
}

func (w *protoWriter) varint(tag byte, v uint64) {
	if v == 0 {
		return
	}
	w.buf = append(w.buf, tag)
	w.buf = protowire.AppendVarint(w.buf, v)
}

// bufferPool keeps buffers of 2^i bytes for messages.
type bufferPool struct{ bySize [21]sync.Pool }

var messageBuffers bufferPool

// Get implements [mem.BufferPool]. What the buffer holds is left from before.
func (p *bufferPool) Get(length int) *[]byte {
	i := bits.Len(uint(max(length, 1) - 1))
	if i >= len(p.bySize) {
		b := make([]byte, length)
		return &b
	}
	if b, ok := p.bySize[i].Get().(*[]byte); ok {
		*b = (*b)[:length]
		return b
	}
	b := make([]byte, length, 1<<i)
	return &b
}

// Put implements [mem.BufferPool].
func (p *bufferPool) Put(b *[]byte) {
	size := cap(*b)
	if i := bits.Len(uint(size)) - 1; size > 0 && i < len(p.bySize) && size == 1<<i {
		p.bySize[i].Put(b)
	}
}
