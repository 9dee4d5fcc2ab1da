package kafkatest

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// This file is the oracle: bytes put together by hand, one key a request, one
// connection, in order. It shares no code with package kafkawire and knows no
// batching, so that a fault there cannot hide by standing on both sides of a
// comparison.

// RawCoordinator is one answer of FindCoordinator, comparable with ==.
type RawCoordinator struct {
	Node int32
	Host string
	Port int32
	Code int16
}

// rawTimeout covers a whole RawFind, and a RawFindAll whose context ends later or never.
const rawTimeout = 60 * time.Second

// RawFind asks one broker for the coordinator of one key. Version 0 carries the
// key type GROUP (0) only.
func RawFind(addr string, version int16, keyType int8, key string) (RawCoordinator, error) {
	answers, err := RawFindAll(context.Background(), addr, version, keyType, []string{key})
	if err != nil {
		return RawCoordinator{}, err
	}
	return answers[0], nil
}

// RawFindAll asks one broker for the coordinator of each key: one request a key,
// on one connection, written without waiting for the answers. Answers stand in
// the order of the keys. Of ctx only the deadline counts.
func RawFindAll(ctx context.Context, addr string, version int16, keyType int8, keys []string) ([]RawCoordinator, error) {
	if version == 0 && keyType != 0 {
		return nil, errors.New("raw find: version 0 has no key type")
	}
	ctx, cancel := context.WithTimeout(ctx, rawTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("raw find: %w", err)
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)

	var requests []byte
	for i, key := range keys {
		requests = appendRawFind(requests, version, int32(i), keyType, key)
	}
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(requests)
		written <- err
	}()
	in := bufio.NewReader(conn)
	answers := make([]RawCoordinator, len(keys))
	for i, key := range keys {
		if answers[i], err = readRawFind(in, version, int32(i), key); err != nil {
			conn.Close() // ends the writer
			return nil, errors.Join(fmt.Errorf("raw find of %q at %s, v%d: %w", key, addr, version, err), <-written)
		}
	}
	return answers, <-written
}

func appendRawFind(b []byte, version int16, correlation int32, keyType int8, key string) []byte {
	start := len(b)
	b = appendRawHeader(b, 10, version, correlation)
	switch {
	case version >= 4: // key type, compact array of one compact key, no tags
		b = append(b, byte(keyType), 2)
		b = append(appendRawCompact(b, key), 0)
	case version == 3: // compact key, key type, no tags
		b = append(appendRawCompact(b, key), byte(keyType), 0)
	case version >= 1: // key, key type
		b = append(appendRawString(b, key), byte(keyType))
	default: // key
		b = appendRawString(b, key)
	}
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// appendRawHeader appends room for the size, then request header v1, or v2 with
// no tags where FindCoordinator has it (from version 3).
func appendRawHeader(b []byte, api, version int16, correlation int32) []byte {
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(api))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = appendRawString(b, "raw")
	if api == 10 && version >= 3 {
		b = append(b, 0)
	}
	return b
}

func appendRawString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendRawCompact(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))+1), s...)
}

func readRawFind(r io.Reader, version int16, correlation int32, key string) (RawCoordinator, error) {
	in, err := readRawFrame(r, correlation)
	if err != nil {
		return RawCoordinator{}, err
	}
	var c RawCoordinator
	switch {
	case version >= 4:
		in.tags()
		in.int32() // throttle
		if n := in.uvarint(); n != 2 {
			return c, fmt.Errorf("%d coordinators for one key", int64(n)-1)
		}
		if got := in.compact(); got != key {
			return c, fmt.Errorf("the answer is for key %q", got)
		}
		c.Node, c.Host, c.Port, c.Code = in.int32(), in.compact(), in.int32(), in.int16()
		in.compact() // error message
		in.tags()
		in.tags()
	case version == 3:
		in.tags()
		in.int32()
		c.Code = in.int16()
		in.compact()
		c.Node, c.Host, c.Port = in.int32(), in.compact(), in.int32()
		in.tags()
	case version >= 1:
		in.int32()
		c.Code = in.int16()
		in.string()
		c.Node, c.Host, c.Port = in.int32(), in.string(), in.int32()
	default:
		c.Code, c.Node, c.Host, c.Port = in.int16(), in.int32(), in.string(), in.int32()
	}
	return c, in.end()
}

// rawBrokers asks a broker which brokers it knows (Metadata v0, which every
// release answers): node id to host:port.
func rawBrokers(addr string, timeout time.Duration) (map[int32]string, error) {
	conn, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(timeout))

	b := appendRawHeader(nil, 3, 0, 1)
	b = binary.BigEndian.AppendUint32(b, 0) // no topic named: all of them
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if _, err := conn.Write(b); err != nil {
		return nil, err
	}
	in, err := readRawFrame(conn, 1)
	if err != nil {
		return nil, err
	}
	brokers := make(map[int32]string)
	for range in.int32() {
		id, host, port := in.int32(), in.string(), in.int32()
		if in.err != nil {
			return nil, in.err
		}
		brokers[id] = fmt.Sprintf("%s:%d", host, port)
	}
	return brokers, in.err
}

// readRawFrame reads one answer and checks its correlation id.
func readRawFrame(r io.Reader, correlation int32) (*rawReader, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > 16<<20 {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	in := &rawReader{rest: frame}
	if got := in.int32(); got != correlation {
		return nil, fmt.Errorf("correlation id %d where %d is next", got, correlation)
	}
	return in, nil
}

// rawReader takes Kafka's primitive types off a frame. After the first fault it
// gives zero values; err tells.
type rawReader struct {
	rest []byte
	err  error
}

func (r *rawReader) take(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.rest)) {
		if r.err == nil {
			r.err = io.ErrUnexpectedEOF
		}
		return make([]byte, min(n, 8))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *rawReader) int16() int16 { return int16(binary.BigEndian.Uint16(r.take(2))) }
func (r *rawReader) int32() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) }

func (r *rawReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.err = errors.Join(r.err, io.ErrUnexpectedEOF)
		return 0
	}
	r.take(uint64(n))
	return v
}

// string and compact give "" for null.
func (r *rawReader) string() string  { return string(r.take(uint64(max(r.int16(), 0)))) }
func (r *rawReader) compact() string { return string(r.take(max(r.uvarint(), 1) - 1)) }

func (r *rawReader) tags() {
	for range r.uvarint() {
		if r.err != nil {
			return
		}
		r.uvarint()
		r.take(r.uvarint())
	}
}

func (r *rawReader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		return fmt.Errorf("%d bytes after the answer", len(r.rest))
	}
	return r.err
}
