package pool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// ErrorKind says what went wrong, for those who must decide what to do.
type ErrorKind uint8

// The kinds of [Error].
const (
	// Unreachable: no connection, or it was closed or reset. Another broker, or the
	// same one later, may answer.
	Unreachable ErrorKind = iota + 1
	// TLSFailed: the TLS handshake failed; a matter of configuration.
	TLSFailed
	// SASLFailed: the broker refused the credentials or the mechanism.
	SASLFailed
	// NotKafka: what answers does not speak Kafka's protocol.
	NotKafka
	// Timeout: no answer within the request timeout or the caller's deadline.
	Timeout
	// Unsupported: the broker does not offer what is asked for. Have says what it offers.
	Unsupported
	// Exhausted: all connections are busy and the wait was too long, or too many wait.
	Exhausted
	// Closed: the pool is closed.
	Closed
	// InvalidAnswer: an answer that does not belong to the request or cannot be
	// decoded, from a peer that spoke Kafka before.
	InvalidAnswer
)

var kindNames = [...]string{"unknown", "unreachable", "tls_failed", "sasl_failed", "not_kafka", "timeout",
	"unsupported", "exhausted", "closed", "invalid_answer"}

// String returns the kind in the form of a metric's label.
func (k ErrorKind) String() string {
	if int(k) >= len(kindNames) {
		k = 0
	}
	return kindNames[k]
}

// Error is what this package's methods fail with, but for a context that was
// cancelled: then errors.Is(err, context.Canceled) holds and there is no *Error.
type Error struct {
	Kind ErrorKind
	// Addr is the broker as host:port; empty where it concerns more than one.
	Addr string
	// Op is what was being done: "dial", "ApiVersions v3", "acquire".
	Op string
	// Have and Want are, for Unsupported, the versions that the broker offers of the
	// API and those that would do; Have is {-1, -1} where it offers none.
	Have, Want kafkawire.VersionRange
	Err        error
}

func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	for _, s := range []string{e.Addr, e.Op} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(append(parts, e.Err.Error()), ": ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the [Error] in err's chain, or 0.
func KindOf(err error) ErrorKind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

// causes are the errors of several brokers.
type causes []error

// causesNamed is how many of them a sentence names: each key of an answer may carry it.
const causesNamed = 10

func (c causes) Error() string {
	texts := make([]string, 0, causesNamed+1)
	for _, err := range c[:min(len(c), causesNamed)] {
		texts = append(texts, err.Error())
	}
	if more := len(c) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

func (c causes) Unwrap() []error { return c }

// commonKind is the kind that all errors share, or Unreachable.
func (c causes) commonKind() ErrorKind {
	common := KindOf(c[0])
	for _, err := range c[1:] {
		if KindOf(err) != common {
			return Unreachable
		}
	}
	return common
}

// told is an error of a library that repeats what the peer has sent, which may be long, no
// UTF-8, or made to move a terminal's cursor.
type told struct {
	error
	text string
}

func (t *told) Error() string { return t.text }

func (t *told) Unwrap() error { return t.error }

// asTold makes the text of such an error fit to be shown.
func asTold(err error) error {
	const shown = 1000
	text := err.Error()
	if fit := printable(text, shown); fit != text {
		return &told{err, fit}
	}
	return err
}

// printable is at most so many bytes of a text, and a few to say so. If there is anything
// in it that is not printable it is as within quotes, with escapes.
func printable(text string, shown int) string {
	text = clip(text, shown)
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// Excerpt is as much of what a broker says as is worth showing: valid UTF-8, of 300
// bytes at most and three dots where it was longer.
func Excerpt(message string) string {
	const shown = 300
	return clip(message, shown)
}

func clip(message string, shown int) string {
	message = strings.ToValidUTF8(message, "?")
	if len(message) > shown {
		message = strings.ToValidUTF8(message[:shown], "") + "..."
	}
	return message
}

// ioCause strips what [Error] says already: the address and the operation.
func ioCause(addr string, err error) error {
	var op *net.OpError
	if !errors.As(err, &op) {
		return err
	}
	if op.Addr != nil && op.Addr.String() != addr { // the address that the name stands for
		return fmt.Errorf("%s: %w", op.Addr, op.Err)
	}
	return op.Err
}

func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}
