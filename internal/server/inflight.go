package server

import (
	"sync"
	"time"
)

// inFlight counts the calls that are inside the service, whatever protocol they
// came by, and can be closed: nothing enters then, and the last to leave is waited for.
// (A sync.WaitGroup must not be entered while it is waited for.)
type inFlight struct {
	mu     sync.Mutex
	calls  int
	closed bool
	empty  chan struct{} // closed when closed is set and calls is 0
}

func newInFlight() *inFlight { return &inFlight{empty: make(chan struct{})} }

// enter reports whether the call may go on; it must leave if so.
func (f *inFlight) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.calls++
	return true
}

func (f *inFlight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls--
	if f.closed && f.calls == 0 {
		close(f.empty)
	}
}

func (f *inFlight) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// closeAndWait lets nobody in any more and waits until everybody has left, but
// no longer than timeout. It returns how many are left, and is called once.
func (f *inFlight) closeAndWait(timeout time.Duration) int {
	f.mu.Lock()
	f.closed = true
	if f.calls == 0 {
		close(f.empty)
	}
	f.mu.Unlock()

	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-f.empty:
	case <-timer.C:
	}
	return f.count()
}
