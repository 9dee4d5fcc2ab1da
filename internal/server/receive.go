package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // callers may compress
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// This file reads the request of a gRPC call in grpc-go's stead, whose RecvMsg
// reads a message whole before anybody is asked, and answers one that is too large
// in words of its own, with no details. (docs/adr/0006-reading-grpc-requests.md)

// messageStream is what the stream of grpc-go's transport can do, beyond the
// interface that grpc.ServerTransportStreamFromContext promises. Nothing promises
// these methods: TestReceive fails with a grpc-go that lacks one.
type messageStream interface {
	// ReadMessageHeader fills header with the next bytes, io.EOF at the end of the stream.
	ReadMessageHeader(header []byte) error
	// Read is the next n bytes.
	Read(n int) (mem.BufferSlice, error)
	// RecvCompress names how messages of the stream are compressed, "" if they are not.
	RecvCompress() string
	// WriteStatus ends the stream, and with it a Read that waits.
	WriteStatus(s *status.Status) error
}

// receive reads the request of a gRPC call, if it is one. The share grows before
// anything is read or decoded that takes memory.
func (l *limiter) receive(ctx context.Context, memory *share) error {
	request, ok := recordOf(ctx).request.(proto.Message)
	if !ok { // REST: the front has read it
		return nil
	}
	stream, ok := grpc.ServerTransportStreamFromContext(ctx).(messageStream)
	if !ok {
		return errors.New("the stream of this grpc-go cannot be read message by message")
	}
	limit := l.limitBody(stream)
	err := l.receiveMessage(stream, request, memory)
	if !limit.timer.Stop() {
		return l.tooSlow().Err() // and the limit is not used again: its timer may still be at it
	}
	limit.stream = nil
	l.bodyLimits.Put(limit)
	return err
}

// bodyLimit ends a stream whose message is too slow.
type bodyLimit struct {
	stream messageStream
	timer  *time.Timer
}

// limitBody starts the time that the message of a stream may take.
func (l *limiter) limitBody(stream messageStream) *bodyLimit {
	limit, used := l.bodyLimits.Get().(*bodyLimit)
	if !used {
		limit = &bodyLimit{stream: stream}
		limit.timer = time.AfterFunc(l.bodyTimeout, func() { _ = limit.stream.WriteStatus(l.tooSlow()) })
		return limit
	}
	limit.stream = stream
	limit.timer.Reset(l.bodyTimeout)
	return limit
}

func (l *limiter) receiveMessage(stream messageStream, into proto.Message, memory *share) error {
	// A byte that is not 0 if the message is compressed, and its length.
	var header [5]byte
	if err := stream.ReadMessageHeader(header[:]); err != nil {
		return incomplete(err)
	}
	length := binary.BigEndian.Uint32(header[1:])
	if int64(length) > int64(l.maxMessageBytes) {
		return l.tooLarge(int64(length))
	}
	if err := memory.take(memoryPerByte * int64(length)); err != nil {
		return err
	}
	data, err := stream.Read(int(length))
	if err != nil {
		return incomplete(err)
	}
	defer func() { data.Free() }()
	if header[0] != 0 {
		if data, err = l.decompress(stream.RecvCompress(), data, memory); err != nil {
			return err
		}
	}
	if err := l.unmarshal(data, into, memory); err != nil {
		return err
	}
	switch err := stream.ReadMessageHeader(header[:]); {
	case err == nil:
		return malformed("there is more than one message: a call has one request")
	case errors.Is(err, io.EOF):
		return nil
	default:
		return incomplete(err)
	}
}

// decompress is data as it was before it was compressed. How large that is can only
// be seen by doing it.
func (l *limiter) decompress(name string, data mem.BufferSlice, memory *share) (mem.BufferSlice, error) {
	compressor := encoding.GetCompressor(name)
	if compressor == nil {
		return data, malformed(fmt.Sprintf("the message is compressed, and the header grpc-encoding is %q: send it as it is, or with gzip", clip(name)))
	}
	before := memory.taken
	if err := memory.take(memoryPerByte * int64(l.maxMessageBytes)); err != nil {
		return data, err
	}
	compressed := data.Reader()
	defer func() { _ = compressed.Close() }()
	plain, err := compressor.Decompress(compressed)
	if err != nil {
		return data, malformed("the message cannot be decompressed: " + err.Error())
	}
	if closer, ok := plain.(io.Closer); ok {
		defer closer.Close()
	}
	out, err := mem.ReadAll(io.LimitReader(plain, int64(l.maxMessageBytes)+1), mem.DefaultBufferPool())
	switch {
	case err != nil:
		out.Free()
		return data, malformed("the message cannot be decompressed: " + err.Error())
	case out.Len() > l.maxMessageBytes:
		out.Free()
		return data, l.tooLarge(-1)
	}
	memory.shrink(before + memoryPerByte*int64(out.Len()))
	data.Free()
	return out, nil
}

var keysField = (*coordsvcv1.FindCoordinatorsRequest)(nil).ProtoReflect().Descriptor().Fields().ByName("keys").Number()

// unmarshal counts the keys before it makes them: one takes two bytes of a message,
// and eight times that decoded.
func (l *limiter) unmarshal(data mem.BufferSlice, into proto.Message, memory *share) error {
	whole := data.MaterializeToBuffer(&messageBuffers)
	defer whole.Free()
	if _, ok := into.(*coordsvcv1.FindCoordinatorsRequest); ok {
		if err := l.keys(countField(whole.ReadOnlyData(), keysField), memory); err != nil {
			return err
		}
	}
	if err := proto.Unmarshal(whole.ReadOnlyData(), into); err != nil {
		return malformed("the message is no " + string(into.ProtoReflect().Descriptor().FullName()) + ": " +
			strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:")))
	}
	return nil
}

// countField is how often a field of that number stands in a message, up to where
// the message cannot be read.
func countField(message []byte, number protowire.Number) int {
	count := 0
	text := byte(protowire.EncodeTag(number, protowire.BytesType)) // one byte for the numbers up to 15
	for len(message) > 0 {
		if len(message) > 1 && message[0] == text && message[1] < 0x80 && len(message) >= 2+int(message[1]) {
			count++ // the usual key, below 128 bytes: a call that is refused for 10,001 must cost little
			message = message[2+int(message[1]):]
			continue
		}
		found, wireType, n := protowire.ConsumeTag(message)
		if n < 0 {
			break
		}
		m := protowire.ConsumeFieldValue(found, wireType, message[n:])
		if m < 0 {
			break
		}
		if found == number && wireType == protowire.BytesType { // of another type it is an unknown field
			count++
		}
		message = message[n+m:]
	}
	return count
}

func malformed(text string) error {
	return newStatus(codes.InvalidArgument, "MALFORMED_REQUEST", text).Err()
}

// incomplete is what a stream that ended too early is told; the end of the call's
// own context keeps its code.
func incomplete(err error) error {
	if code := status.Code(err); code == codes.Canceled || code == codes.DeadlineExceeded {
		return err
	}
	return newStatus(codes.InvalidArgument, "INCOMPLETE_BODY", "the request did not arrive whole: "+err.Error()).Err()
}
