package server

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

// inFlight counts the calls that are inside the service, whatever protocol they
// came by. It lets no more in than most, and can be closed: nothing enters then,
// and the last to leave is waited for. (A sync.WaitGroup must not be entered while
// it is waited for.)
type inFlight struct {
	most int
	full error // what a call is told where most are inside

	mu     sync.Mutex
	calls  int
	closed bool
	empty  chan struct{} // closed when closed is set and calls is 0
}

func newInFlight(most int) *inFlight {
	return &inFlight{most: most, empty: make(chan struct{}), full: prepare(overloaded(LimitCallsInFlight, int64(most),
		fmt.Sprintf("%d calls are being answered, the limit of this instance (setting %s): "+
			"call again in a second; if it stays, see whether Kafka answers slowly, or add instances", most, LimitCallsInFlight)))}
}

var errStopped = newStatus(codes.Unavailable, "STOPPING", "this instance has stopped: call another one, or again").Err()

// enter lets a call in, which must leave then, or says why not.
func (f *inFlight) enter() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return errStopped
	case f.calls >= f.most:
		return f.full
	}
	f.calls++
	return nil
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
