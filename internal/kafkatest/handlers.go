package kafkatest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// Handlers for what tests need most. They nest: First(2, After(time.Second,
// Hangup)).

// Silent never answers; the connection stays open.
func Silent(*Request) {}

// Hangup closes the connection in place of an answer.
func Hangup(r *Request) { r.Conn.Close() }

// Reset resets the connection in place of an answer.
func Reset(r *Request) { r.Conn.Reset() }

// Raw sends bytes in place of an answer.
func Raw(b []byte) Handler {
	return func(r *Request) { r.Conn.Write(b) }
}

// After has h answer when d is over.
func After(d time.Duration, h Handler) Handler {
	return func(r *Request) {
		if r.Conn.Sleep(d) {
			h(r)
		}
	}
}

// InPieces has the answer of h arrive in pieces of n bytes.
func InPieces(n int, h Handler) Handler {
	return func(r *Request) {
		r.Conn.Split(n)
		defer r.Conn.Split(0)
		h(r)
	}
}

// First has h answer the first n requests, whatever connection they come by, and
// then lets the stub behave well.
func First(n int, h Handler) Handler {
	var seen atomic.Int64
	return func(r *Request) {
		if seen.Add(1) <= int64(n) {
			h(r)
			return
		}
		Default(r)
	}
}

// Fail answers every key of a FindCoordinator request with one error.
func Fail(code kafkawire.ErrorCode) Handler {
	return Alter(func(row *kafkawire.Coordinator) {
		key := row.Key
		*row = NoCoordinator(code)
		row.Key = key
	})
}

// Alter sends what Default would answer to a FindCoordinator request, with each
// row changed by f.
func Alter(f func(row *kafkawire.Coordinator)) Handler {
	return func(r *Request) {
		answer, ok := r.DefaultAnswer().(*kafkawire.FindCoordinatorResponse)
		if !ok {
			Default(r)
			return
		}
		for i := range answer.Coordinators {
			f(&answer.Coordinators[i])
		}
		r.Reply(answer)
	}
}

// Gate holds answers back until it is opened.
type Gate struct {
	once sync.Once
	open chan struct{}
}

// NewGate returns a closed gate.
func NewGate() *Gate { return &Gate{open: make(chan struct{})} }

// Hold lets h answer once the gate is open, or never if the connection ends
// before. Stub.Await tells when requests have arrived at it.
func (g *Gate) Hold(h Handler) Handler {
	return func(r *Request) {
		select {
		case <-g.open:
			h(r)
		case <-r.Conn.Done():
		}
	}
}

// Open lets everything through from now on.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }
