package kafkawire

import (
	"errors"
	"fmt"
)

// What a decoder can strike, for errors.Is on a [DecodeError].
var (
	ErrTruncated     = errors.New("message is truncated")
	ErrTrailingBytes = errors.New("bytes are left after the message")
	ErrInvalidLength = errors.New("invalid length")
	ErrInvalidVarint = errors.New("varint does not fit 32 bits")
	ErrNull          = errors.New("null where the protocol allows none")
)

// What an encoder refuses, for errors.Is on an [EncodeError].
var (
	// ErrKeyTooLong: see [MaxKeyLength].
	ErrKeyTooLong = errors.New("key is too long")
	// ErrKeyCount: FindCoordinator below v4 carries exactly one key.
	ErrKeyCount = errors.New("wrong number of keys")
	// ErrKeyType: the version has no way to ask for this type of key.
	ErrKeyType = errors.New("key type cannot be asked for")
	// ErrTooLong: a string over 32,767 bytes, or a frame over 2 GiB.
	ErrTooLong = errors.New("too long")
	// ErrNotExpressible: the version has no way to say this, and leaving it out
	// would change what is asked.
	ErrNotExpressible = errors.New("cannot be expressed")
)

// What either can meet.
var (
	// ErrVersion: the version lies outside what [Supported] gives.
	ErrVersion = errors.New("version is not spoken here")
	// ErrUnknownAPI: the package has no messages for the API key.
	ErrUnknownAPI = errors.New("API is not spoken here")
	// ErrNoCommonVersion is the failure of [Negotiate].
	ErrNoCommonVersion = errors.New("no common version")
)

// A DecodeError says why bytes are not the message that they should be.
type DecodeError struct {
	Message string  // such as "FindCoordinatorResponse"
	Version Version // that the bytes were read as; -1 for a response header
	Field   string  // as in Kafka's schema, such as "Coordinators[3].Host"; empty at the end of the message
	Offset  int     // of the field's first byte in the slice that was decoded
	Err     error   // wraps one of the sentinel errors
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("kafkawire: cannot decode %s at byte %d: %v", located(e.Message, e.Version, e.Field), e.Offset, e.Err)
}

func (e *DecodeError) Unwrap() error { return e.Err }

// An EncodeError says why a message was refused; nothing of it was written.
type EncodeError struct {
	Message string  // such as "FindCoordinatorRequest"
	Version Version // that was asked for
	Field   string  // as in Kafka's schema; empty where it is the whole message
	Err     error   // wraps one of the sentinel errors
}

func (e *EncodeError) Error() string {
	return fmt.Sprintf("kafkawire: cannot encode %s: %v", located(e.Message, e.Version, e.Field), e.Err)
}

func (e *EncodeError) Unwrap() error { return e.Err }

// located gives "FindCoordinatorRequest v3, Key", leaving out what is not known.
func located(message string, v Version, field string) string {
	if v >= 0 {
		message = fmt.Sprintf("%s v%d", message, v)
	}
	if field != "" {
		message += ", " + field
	}
	return message
}
