package service

import (
	"context"
	"math"
	"runtime"

	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
)

const (
	// batchVersion is the lowest FindCoordinator version with many keys a request (KIP-699).
	batchVersion kafkawire.Version = 4
	// chunkBytes is how many bytes of keys begin the last key of a flight: group ids
	// have a few dozen bytes each, but may have 32,767.
	chunkBytes = 1 << 20
	// socketBytes is how many bytes of keys are written without waiting for the broker:
	// less than a new socket's send buffer has room for.
	socketBytes = 16 << 10
	// yields is how often a flight lets others run before it takes its keys. Under load
	// it is woken together with callers who are about to ask; first those whom the last
	// answer woke, then those whom the network did.
	yields = 2
	// singleWindows is how many pipeline windows of one-key requests a flight carries.
	singleWindows = 4
)

// A flight waits for a connection, takes a chunk of the open batch, exchanges it, and
// hands every ask its outcome.
type flight struct {
	q      *queue
	lease  *pool.Lease // nil: there was no connection
	asks   []*ask
	avoids []string // brokers that were asked for any of them before
	times  times
	batch  context.Context
	done   func([]Result) // ends the batch
	memory *flightMemory

	// landed is how many of the asks have been handed their outcomes; elsewhere says
	// that those without one are asked of another broker too.
	landed    int
	elsewhere bool
	singles   *singles // nil: the keys are in one request

	// leave ends when the caller leaves in whose goroutine it is under way; nil where
	// it has one of its own.
	leave context.Context //nolint:containedctx // as above
	// left says what is still to be done of an exchange that was left.
	left leftOver
	// told tells how many requests of the exchange were answered, and of its error.
	told func(answered int, err error)
}

type leftOver int

const (
	nothingLeft leftOver = iota
	leftAnswer           // the answer is to be waited for
	leftSingles          // it came, and the keys are to be asked one by one
)

// fly is a flight in a goroutine of its own.
func (q *queue) fly() {
	lease, err := q.f.acquire(q.minVersion, q.avoids())
	for range yields {
		runtime.Gosched()
	}
	q.flyWith(lease, err)
}

func (q *queue) flyWith(lease *pool.Lease, err error) {
	f := q.depart(lease)
	results, again := f.exchange(err)
	f.arrive(results, again)
}

// flyAlong is a flight in the goroutine of a caller, which waits for it anyway: there
// is nothing in the air, and what is open is the caller's own, or came just now. Where
// the caller leaves first, or would have to wait for anything but the one answer, the
// flight goes on in a goroutine.
func (q *queue) flyAlong(leave context.Context) {
	lease := q.f.tryAcquire(q.minVersion)
	switch {
	case lease == nil:
		go q.fly()
		return
	case lease.FindCoordinatorVersion() < batchVersion:
		go q.flyWith(lease, nil)
		return
	}
	f := q.depart(lease)
	if f.writesAtOnce() {
		f.leave = leave
		results, again := f.exchange(nil)
		f.leave = nil
		if f.left == nothingLeft {
			f.arrive(results, again)
			return
		}
	}
	go func() {
		results, again := f.exchange(nil)
		f.arrive(results, again)
	}()
}

// writesAtOnce reports whether the socket takes the request even if the broker reads
// nothing: a caller cannot leave while it is written.
func (f *flight) writesAtOnce() bool {
	bytes := 0
	for _, a := range f.asks {
		bytes += len(a.key)
	}
	return bytes <= socketBytes
}

// depart takes the keys of a flight.
func (q *queue) depart(lease *pool.Lease) *flight {
	f := &flight{q: q, lease: lease, memory: flightMemories.Get().(*flightMemory)}
	q.mu.Lock()
	q.acquiring--
	q.company = len(q.turns) > 1
	keys, bytes := q.capacity(lease)
	taken := q.take(keys, bytes, f.addr())
	f.asks, f.avoids = taken.asks, taken.avoids
	f.times = q.timesFor(f.asks)
	calls := q.f.tracedCalls(f.asks)
	q.dispatch()
	q.mu.Unlock()
	if lease == nil || len(f.asks) == 0 {
		calls = nil // nothing will be asked
	}
	f.batch, f.done = q.f.batch(calls, q.keyType, len(f.asks))
	return f
}

// addr is the broker's, "" where there was no connection.
func (f *flight) addr() string {
	if f.lease == nil {
		return ""
	}
	return f.lease.Addr()
}

// elsewhereThan are the brokers to avoid where the keys are asked again: this one, and those
// before it as long as they are not all there are.
func (f *flight) elsewhereThan() []string {
	avoids := join([]string{f.addr()}, f.avoids...)
	if len(avoids) >= f.q.f.cluster.Known() {
		return avoids[:1]
	}
	return avoids
}

// arrive hands over the outcomes.
func (f *flight) arrive(results []Result, again bool) {
	q := f.q
	f.done(results)
	if f.lease != nil {
		f.lease.Release()
	}
	retries := q.land(f.asks[f.landed:], results[f.landed:], f.addr(), f.elsewhere)
	f.memory.giveBack()
	f.retry(retries, again)
	q.f.flights.Done()
}

// retry has the asks asked again, if there are any: in another goroutine, since it waits
// and this one may be a caller's.
func (f *flight) retry(asks []*ask, again bool) {
	if len(asks) > 0 {
		f.q.f.flights.Go(func() { f.q.retry(asks, f.elsewhereThan(), again) })
	}
}

// capacity is how many keys a flight takes: a chunk, or so many one-key requests
// that single keys of others do not wait long behind them. A flight without a
// connection takes all, to tell them so.
func (q *queue) capacity(lease *pool.Lease) (keys, bytes int) {
	switch {
	case lease == nil:
		return len(q.open), math.MaxInt
	case lease.FindCoordinatorVersion() < batchVersion:
		return min(q.f.cfg.ChunkKeys, singleWindows*q.f.cfg.PipelineWindow), chunkBytes
	default:
		return q.f.cfg.ChunkKeys, chunkBytes
	}
}
