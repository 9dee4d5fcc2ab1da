package service

import (
	"context"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
)

// An Observer is told what the Finder does, as it happens, to make metrics of.
// Its methods are called from many goroutines, Retried under a lock of the Finder:
// they must be quick, and keep nothing that they are handed.
type Observer interface {
	// Acquired tells how long a batch waited for a connection, and whether it got one.
	Acquired(waited time.Duration, got bool)
	// Exchanged tells of requests that were sent to a broker, also where they failed.
	Exchanged(e Exchange)
	// Retried tells that so many keys are asked again.
	Retried(t kafkawire.KeyType, keys int)
	// Answered tells the outcomes of a call as its caller gets them.
	Answered(t kafkawire.KeyType, results []Result)
}

// A Tracer makes spans of what the Finder does for the calls that are traced.
type Tracer interface {
	// Traced reports whether the call with this context is traced. The Finder keeps
	// the context, for Batch, only if it is.
	Traced(ctx context.Context) bool
	// Batch begins a batch of keys that are asked of a broker together, on behalf of
	// the traced calls with these contexts, of which there is at least one. The
	// context that it returns comes from ctx; done ends the batch.
	Batch(ctx context.Context, calls []context.Context, t kafkawire.KeyType, keys int) (batch context.Context, done func([]Result))
	// Exchange begins an exchange with a broker in a batch, which done ends.
	Exchange(batch context.Context) (done func(Exchange))
}

// Exchange is what was sent to a broker in one go, and what came of it.
type Exchange struct {
	KeyType kafkawire.KeyType
	Version kafkawire.Version // of FindCoordinator
	Broker  string            // host:port
	Node    int32             // -1: not known
	// Keys were asked for in Requests: all in one, or each in one of its own.
	// Answered is how many of the requests were answered.
	Keys, Requests, Answered int
	Took                     time.Duration
	Err                      error
}

// tracedCallsAtMost bounds how many calls a batch is traced for.
const tracedCallsAtMost = 100

// traced is ctx if the call with it is traced, else nil.
func (f *Finder) traced(ctx context.Context) context.Context {
	if f.cfg.Tracer == nil || !f.cfg.Tracer.Traced(ctx) {
		return nil
	}
	return ctx
}

// tracedCalls are the contexts of the traced calls that wait for the asks. The
// queue's mutex is held.
func (f *Finder) tracedCalls(asks []*ask) []context.Context {
	if f.cfg.Tracer == nil {
		return nil
	}
	var traced []context.Context
	seen := map[*call]struct{}{}
	for _, a := range asks {
		for _, w := range a.waiters {
			if w.call.traced == nil {
				continue
			}
			if _, again := seen[w.call]; again {
				continue
			}
			seen[w.call] = struct{}{}
			if traced = append(traced, w.call.traced); len(traced) == tracedCallsAtMost {
				return traced
			}
		}
	}
	return traced
}

// batch begins a batch for the traced calls.
func (f *Finder) batch(calls []context.Context, t kafkawire.KeyType, keys int) (batch context.Context, done func([]Result)) {
	if len(calls) == 0 {
		return f.stop, func([]Result) {}
	}
	return f.cfg.Tracer.Batch(f.stop, calls, t, keys)
}

// acquire waits for a connection that can carry version least, to another broker than
// but if there is a choice.
func (f *Finder) acquire(least kafkawire.Version, but []string) (*pool.Lease, error) {
	if f.cfg.Observer == nil {
		return f.cluster.AcquireBut(f.stop, least, but...)
	}
	start := time.Now()
	lease, err := f.cluster.AcquireBut(f.stop, least, but...)
	f.cfg.Observer.Acquired(time.Since(start), err == nil)
	return lease, err
}

// tryAcquire is acquire where a connection is ready, else nil.
func (f *Finder) tryAcquire(least kafkawire.Version) *pool.Lease {
	lease := f.cluster.TryAcquire(least)
	if lease != nil && f.cfg.Observer != nil {
		f.cfg.Observer.Acquired(0, true)
	}
	return lease
}

// sends begins an exchange that asks for so many keys, in the batch with this context.
// What it returns ends it.
func (q *queue) sends(batch context.Context, lease *pool.Lease, keys, requests int, v kafkawire.Version) (told func(answered int, err error)) {
	observer, tracer := q.f.cfg.Observer, q.f.cfg.Tracer
	if observer == nil && tracer == nil {
		return func(int, error) {}
	}
	var trace func(Exchange)
	if tracer != nil && tracer.Traced(batch) {
		trace = tracer.Exchange(batch)
	}
	start := time.Now()
	return func(answered int, err error) {
		e := Exchange{
			KeyType: q.keyType, Version: v, Broker: lease.Addr(), Node: lease.Node(),
			Keys: keys, Requests: requests, Answered: answered, Took: time.Since(start), Err: err,
		}
		if observer != nil {
			observer.Exchanged(e)
		}
		if trace != nil {
			trace(e)
		}
	}
}

func (f *Finder) retried(t kafkawire.KeyType, keys int) {
	if f.cfg.Observer != nil {
		f.cfg.Observer.Retried(t, keys)
	}
}

func (f *Finder) answered(t kafkawire.KeyType, results []Result) {
	if f.cfg.Observer != nil {
		f.cfg.Observer.Answered(t, results)
	}
}

// FinderStats are of now.
type FinderStats struct {
	// WaitingKeys are the keys that callers wait for, of at most MaxWaitingKeys.
	// UnsentKeys are those of them that no batch has taken yet, each counted once.
	WaitingKeys, MaxWaitingKeys, UnsentKeys int
	// Batches wait for a connection or an answer.
	Batches int
}

// Stats is cheap enough for every scrape.
func (f *Finder) Stats() FinderStats {
	s := FinderStats{WaitingKeys: int(f.waiting.Load()), MaxWaitingKeys: f.cfg.MaxWaitingKeys}
	for _, q := range f.queues {
		q.mu.Lock()
		s.UnsentKeys += len(q.open)
		s.Batches += q.flights
		q.mu.Unlock()
	}
	return s
}
