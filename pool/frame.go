package pool

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

const (
	// sizeLength is how many bytes the size before each frame takes.
	sizeLength = 4
	// minFrame is a correlation id, which every answer begins with.
	minFrame = 4
	// Frames are capped, see [conn.largest]. Until a peer has shown that it speaks
	// Kafka it gets less.
	maxFrame          = 16 << 20
	maxFrameUnproven  = 1 << 20
	firstBuffer       = 4 << 10
	keptBuffer        = 256 << 10 // what a connection keeps of a buffer that grew
	shownOfWrongBytes = 80
)

// frameReader cuts what is read into frames. The buffer is used again for the
// next frame, so nothing may alias a frame for longer.
type frameReader struct {
	src    io.Reader
	secret string // that the peer was sent last: it is not to be shown
	buf    []byte
	r      int // buf[r:w] is read and not yet used
	w      int
}

func (f *frameReader) buffered() int { return f.w - f.r }

// next returns the next frame without its size. The size is not trusted: the
// buffer grows with the bytes that come, not with what the size promises.
func (f *frameReader) next(limit int) ([]byte, error) { return f.sized(minFrame, limit) }

// sized is next for frames of at least so many bytes.
func (f *frameReader) sized(least, limit int) ([]byte, error) {
	if err := f.want(sizeLength); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(f.buf[f.r:])))
	if size < least || size > limit {
		return nil, f.noFrame(size, limit)
	}
	if err := f.want(sizeLength + size); err != nil {
		return nil, err
	}
	frame := f.buf[f.r+sizeLength : f.r+sizeLength+size]
	f.r += sizeLength + size
	return frame, nil
}

// want reads until n bytes are there.
func (f *frameReader) want(n int) error {
	for f.buffered() < n {
		f.makeRoom(n)
		got, err := f.src.Read(f.buf[f.w:])
		f.w += got
		if err != nil && f.buffered() < n {
			return err
		}
	}
	return nil
}

// makeRoom leaves at least one byte of room: by moving what is there to the
// front, else by doubling.
func (f *frameReader) makeRoom(n int) {
	if f.r == f.w {
		f.r, f.w = 0, 0
	}
	if f.r > 0 && f.r+n > len(f.buf) {
		f.w = copy(f.buf, f.buf[f.r:f.w])
		f.r = 0
	}
	if f.w == len(f.buf) {
		grown := make([]byte, max(firstBuffer, min(2*len(f.buf), max(n, firstBuffer))))
		f.w = copy(grown, f.buf[f.r:f.w])
		f.r, f.buf = 0, grown
	}
}

// shrink gives back a large buffer once it is empty.
func (f *frameReader) shrink() {
	if len(f.buf) > keptBuffer && f.buffered() == 0 {
		f.buf, f.r, f.w = nil, 0, 0
	}
}

// A frameError is what stands where the size of a frame should, in words.
type frameError string

func (s frameError) Error() string { return string(s) }

func (f *frameReader) noFrame(size, limit int) frameError {
	got := f.buf[f.r:f.w]
	switch {
	case got[0] == 0x15 && got[1] == 0x03:
		return frameErrorf("answers with a TLS alert%s: the listener wants TLS, and this connection is plain text; set kafka.tls.enabled", alertName(got))
	case strings.HasPrefix(string(got), "HTTP"):
		return frameErrorf("answers with HTTP (%q): this is a web server's port, or a proxy's", f.firstLine(got))
	case isText(got):
		return frameErrorf("answers with text (%q) where Kafka sends the size of a frame", f.firstLine(got))
	case size < minFrame:
		return frameErrorf("announces a frame of %d bytes; the least is %d", size, minFrame)
	default:
		return frameErrorf("announces a frame of %d bytes; more than %d are not taken", size, limit)
	}
}

func frameErrorf(format string, args ...any) frameError {
	return frameError(fmt.Sprintf(format, args...))
}

// alertName is the description of a TLS alert (RFC 8446, section 6), where the
// bytes got so far have it.
func alertName(record []byte) string {
	const description = 6 // after type, version (2), length (2), level
	if len(record) <= description {
		return ""
	}
	names := map[byte]string{0: "close_notify", 10: "unexpected_message", 20: "bad_record_mac", 22: "record_overflow", 40: "handshake_failure",
		47: "illegal_parameter", 50: "decode_error", 70: "protocol_version", 80: "internal_error", 90: "user_canceled"}
	if name, ok := names[record[description]]; ok {
		return " (" + name + ")"
	}
	return fmt.Sprintf(" (%d)", record[description])
}

func (f *frameReader) firstLine(b []byte) string {
	line, _, _ := strings.Cut(without(f.secret, string(b)), "\n")
	line = line[:min(len(line), shownOfWrongBytes)]
	return strings.TrimRight(line, "\r")
}

func isText(b []byte) bool {
	for _, c := range b[:sizeLength] {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
