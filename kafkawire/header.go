package kafkawire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A RequestHeader stands before the body of every request.
//
//	request_api_key      int16
//	request_api_version  int16
//	correlation_id       int32
//	client_id            nullable string, with an int16 length in both versions
//	tagged fields        v2
//
// v2 goes with the flexible versions of a message, v1 with the others. Source:
// RequestHeader.json; KIP-482 for v2. (v0, without a client id, was only ever
// used for ControlledShutdown.)
type RequestHeader struct {
	// Version of the body that follows.
	Version Version
	// CorrelationID comes back in the response.
	CorrelationID int32
	// ClientID shows up in the broker's logs, metrics and quotas. A null one is
	// decoded as "".
	ClientID string
}

// A Request is the body of a request.
//
// Encode appends the body in version v to dst. On error it returns dst as it was
// given, with nothing written.
//
// Decode fills the message from src, which must hold exactly the body in version
// v, and replaces whatever it held; on error it is left empty. What it keeps of
// src it copies.
type Request interface {
	APIKey() APIKey
	Encode(dst []byte, v Version) ([]byte, error)
	Decode(src []byte, v Version) error
}

// A Response is the body of a response. Its methods are those of [Request].
type Response interface {
	APIKey() APIKey
	Encode(dst []byte, v Version) ([]byte, error)
	Decode(src []byte, v Version) error
}

// sizeLength is how many bytes the size before each frame takes.
const sizeLength = 4

// AppendRequest appends the whole frame of a request: size, header, body. On
// error it returns dst as it was given. It allocates nothing where dst has room.
func AppendRequest(dst []byte, h RequestHeader, r Request) ([]byte, error) {
	key := r.APIKey()
	c := checker{message: "RequestHeader", version: h.Version}
	c.spoken(key)
	c.string("ClientId", h.ClientID)
	if c.err != nil {
		return dst, c.err
	}
	w := writer{dst: dst}
	w.int32(0) // the size, set when it is known
	w.int16(int16(key))
	w.int16(int16(h.Version))
	w.int32(h.CorrelationID)
	w.string(h.ClientID)
	w.flexible = key.flexible(h.Version)
	w.tags()
	return appendBody(dst, w.dst, r, h.Version)
}

// AppendResponse appends the whole frame of a response: size, header, body. On
// error it returns dst as it was given.
//
// The header of a response is the correlation id (int32) and, as v1, tagged
// fields, with the flexible versions of a message. ApiVersions keeps to v0 in
// every version: its answer is read before the client knows what the broker
// speaks. Source: ResponseHeader.json, KIP-511.
func AppendResponse(dst []byte, correlationID int32, v Version, r Response) ([]byte, error) {
	key := r.APIKey()
	c := checker{message: "ResponseHeader", version: v}
	c.spoken(key)
	if c.err != nil {
		return dst, c.err
	}
	w := writer{dst: dst, flexible: flexibleResponseHeader(key, v)}
	w.int32(0) // the size, set when it is known
	w.int32(correlationID)
	w.tags()
	return appendBody(dst, w.dst, r, v)
}

func flexibleResponseHeader(key APIKey, v Version) bool {
	return key != APIKeyAPIVersions && key.flexible(v)
}

// appendBody ends a frame that starts at the end of dst and is filled up to its
// header in frame.
func appendBody(dst, frame []byte, r Request, v Version) ([]byte, error) {
	frame, err := r.Encode(frame, v)
	if err != nil {
		return dst, err
	}
	size, err := frameSize(len(frame) - len(dst) - sizeLength)
	if err != nil {
		return dst, err
	}
	binary.BigEndian.PutUint32(frame[len(dst):], size)
	return frame, nil
}

func frameSize(n int) (uint32, error) {
	if n > math.MaxInt32 {
		return 0, fmt.Errorf("kafkawire: frame of %d bytes: %w", n, ErrTooLong)
	}
	return uint32(n), nil
}

// DecodeRequestHeader splits a frame, given without its size, into the header and
// the body, which is a part of the frame. The version is not checked against
// [Supported]: a broker answers ApiVersions in versions that it does not know.
// For an API key that the package does not speak the error is [ErrUnknownAPI],
// and key and header are right but body is nil: where the header ends depends on
// the API.
func DecodeRequestHeader(frame []byte) (key APIKey, h RequestHeader, body []byte, err error) {
	r := reader{src: frame, message: "RequestHeader", version: 1}
	key = APIKey(r.int16("request_api_key"))
	h.Version = Version(r.int16("request_api_version"))
	h.CorrelationID = r.int32("correlation_id")
	h.ClientID = r.nullableString("client_id")
	if key.flexible(h.Version) {
		r.version, r.flexible = 2, true
		r.tags()
	}
	if r.err != nil {
		return 0, RequestHeader{}, nil, r.err
	}
	if key.api() == nil {
		r.off = 0
		r.fail("request_api_key", fmt.Errorf("%w: %d", ErrUnknownAPI, int16(key)))
		return key, h, nil, r.err
	}
	return key, h, frame[r.off:], nil
}

// DecodeResponseHeader splits a frame, given without its size, into the
// correlation id and the body, which is a part of the frame. Key and version are
// those of the request: the response does not repeat them.
func DecodeResponseHeader(frame []byte, key APIKey, v Version) (correlationID int32, body []byte, err error) {
	r := reader{src: frame, message: "ResponseHeader", version: -1, flexible: flexibleResponseHeader(key, v)}
	correlationID = r.int32("correlation_id")
	r.tags()
	if r.err != nil {
		return 0, nil, r.err
	}
	return correlationID, frame[r.off:], nil
}
