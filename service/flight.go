package service

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
)

const (
	// minExchangeTime is the least that a broker gets to answer in. Apart from
	// it an exchange takes at most half of what the most patient of its callers has
	// left, so that another broker can be asked when this one is silent.
	minExchangeTime = time.Second
	// batchVersion is the lowest FindCoordinator version with many keys a request (KIP-699).
	batchVersion kafkawire.Version = 4
	// chunkBytes is how many bytes of keys begin the last key of a flight: group ids
	// have a few dozen bytes each, but may have 32,767.
	chunkBytes = 1 << 20
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
	q        *queue
	lease    *pool.Lease // nil: there was no connection
	asks     []*ask
	patience time.Duration // how long the exchange may take
	ends     time.Time     // when that is over
	batch    context.Context
	done     func([]Result) // ends the batch
	memory   *flightMemory

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
	f.leave = leave
	results, again := f.exchange(nil)
	f.leave = nil
	if f.left == nothingLeft {
		f.arrive(results, again)
		return
	}
	go func() {
		results, again := f.exchange(nil)
		f.arrive(results, again)
	}()
}

// depart takes the keys of a flight.
func (q *queue) depart(lease *pool.Lease) *flight {
	f := &flight{q: q, lease: lease, memory: flightMemories.Get().(*flightMemory)}
	q.mu.Lock()
	q.acquiring--
	q.company = len(q.turns) > 1
	keys, bytes := q.capacity(lease)
	f.asks = q.take(keys, bytes, f.addr())
	f.patience = q.patience(f.asks)
	calls := q.f.tracedCalls(f.asks)
	q.dispatch()
	q.mu.Unlock()
	f.ends = time.Now().Add(f.patience)
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

// arrive hands over the outcomes. What is to be asked again waits in another goroutine,
// so that this one may be a caller's.
func (f *flight) arrive(results []Result, again bool) {
	q := f.q
	f.done(results)
	if f.lease != nil {
		f.lease.Release()
	}
	addr := f.addr()
	retries := q.land(f.asks, results, addr)
	f.memory.giveBack()
	if len(retries) == 0 {
		q.f.flights.Done()
		return
	}
	go func() {
		defer q.f.flights.Done()
		q.retry(retries, addr, again)
	}()
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

// patience is how long the exchange of the asks may take. The mutex is held.
func (q *queue) patience(asks []*ask) time.Duration {
	var latest time.Time
	for _, a := range asks {
		d := a.deadline()
		if d.IsZero() {
			return q.f.cfg.RequestTimeout
		}
		if d.After(latest) {
			latest = d
		}
	}
	return min(q.f.cfg.RequestTimeout, max(minExchangeTime, time.Until(latest)/2))
}

// exchange asks the broker for the keys of the asks and returns an outcome for each;
// again says that nothing but the connection failed, which may have been idle for
// long, so that another should be tried at once. It returns nothing where f.left says
// what is to be done in another goroutine, by the same method.
func (f *flight) exchange(acquired error) (results []Result, again bool) {
	q, lease := f.q, f.lease
	if acquired != nil {
		return repeat(acquireFailure(acquired), len(f.asks)), false
	}
	if len(f.asks) == 0 {
		return nil, false
	}
	defer func() {
		if p := recover(); p != nil {
			q.f.cfg.Logger.Error("a batch panicked", "key_type", q.keyType.String(), "keys", len(f.asks),
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			if lease != nil {
				lease.Retire() // what is left in its stream is not known
			}
			f.left = nothingLeft
			results, again = repeat(Result{Err: failure(ReasonInternal, "a batch panicked")}, len(f.asks)), false
		}
	}()
	ctx := timeLimit{f.batch, f.ends}

	v := lease.FindCoordinatorVersion()
	var err error
	if v >= batchVersion && f.left != leftSingles {
		results, err = f.exchangeBatch(ctx, v)
		if errors.Is(err, pool.ErrLeft) {
			f.left = leftAnswer
			return nil, false
		}
		f.left = nothingLeft
		if err == nil && oneKeyMayHaveFailedAll(results) {
			f.left = leftSingles
			if f.leave != nil {
				return nil, false
			}
		}
	} else {
		f.left = leftSingles
	}
	if f.left == leftSingles {
		f.left = nothingLeft
		results, err = q.exchangeSingles(ctx, lease, f.asks, v, f.memory)
	}
	if err == nil {
		lost := dropLostSession(lease, results)
		return results, doubtRefusals(lease, results) || lost
	}
	lost := Result{Err: exchangeFailure(err, lease.Addr(), f.patience), AnsweredBy: ""}
	results = append(results, repeat(lost, len(f.asks)-len(results))...)
	return results, lost.Err.Reason == ReasonBrokerUnreachable || q.furtherAsks(lost.Err) > 0
}

// A timeLimit is a context whose deadline is only told, so that it needs no timer of its
// own: a connection gives it to the socket, and Find has timers that are used again.
type timeLimit struct {
	context.Context
	ends time.Time
}

// Deadline implements [context.Context].
func (l timeLimit) Deadline() (time.Time, bool) { return l.ends, true }

// dropLostSession has the connection closed if the broker does not take it for
// authenticated, and reports that.
func dropLostSession(lease *pool.Lease, results []Result) bool {
	for i := range results {
		if sessionLost(results[i].Err) {
			lease.Reject(results[i].Err.Code)
			return true
		}
	}
	return false
}

// exchangeBatch asks for all keys in one request, or goes on waiting for its answer.
func (f *flight) exchangeBatch(ctx context.Context, v kafkawire.Version) ([]Result, error) {
	q, m := f.q, f.memory
	var err error
	if f.left == leftAnswer {
		err = f.lease.Await(ctx, &m.answer, v)
	} else {
		m.keys = m.keys[:0]
		for _, a := range f.asks {
			m.keys = append(m.keys, a.key)
		}
		m.answer.keys, m.answer.hosts = m.keys, &m.hosts
		f.told = q.sends(ctx, f.lease, len(m.keys), 1, v)
		err = f.ask(ctx, &kafkawire.FindCoordinatorRequest{KeyType: q.keyType, Keys: m.keys}, v)
	}
	if errors.Is(err, pool.ErrLeft) {
		return nil, err
	}
	if err != nil {
		f.told(0, err)
		m.answer = answer{} // it may be half filled
		return nil, err
	}
	f.told(1, nil)
	m.results = match(m.results, m.keys, m.answer.Coordinators, v, f.lease)
	return m.results, nil
}

// ask sends the one request of a batch and reads its answer.
func (f *flight) ask(ctx context.Context, req kafkawire.Request, v kafkawire.Version) error {
	if f.leave != nil {
		return f.lease.Ask(ctx, f.leave, req, &f.memory.answer, v)
	}
	_, err := f.lease.Exchange(ctx, []kafkawire.Request{req}, []kafkawire.Response{&f.memory.answer}, v, 1)
	return err
}

// An answer is decoded with the question at hand: its rows share the strings of the
// keys that were asked for, and of the hosts that were named before.
type answer struct {
	kafkawire.FindCoordinatorResponse
	keys  []string
	hosts *kafkawire.Hosts
}

func (a *answer) Decode(src []byte, v kafkawire.Version) error {
	return a.DecodeSharing(src, v, a.keys, a.hosts)
}

// flightMemory is what a flight needs until its outcomes are handed over: none of it
// is seen by callers, so the next flight uses it again.
type flightMemory struct {
	keys    []string
	answer  answer
	hosts   kafkawire.Hosts
	results []Result
}

var flightMemories = sync.Pool{New: func() any { return new(flightMemory) }}

// keptRows bounds what is kept: chunks have 500 keys unless set otherwise, and a
// broker may answer more rows than it was asked for.
const keptRows = 1 << 10

// giveBack lets go of all keys and answers, not of the brokers' hosts.
func (m *flightMemory) giveBack() {
	if cap(m.keys) > keptRows || cap(m.answer.Coordinators) > keptRows {
		return
	}
	clear(m.keys)
	clear(m.answer.Coordinators)
	clear(m.results)
	flightMemories.Put(m)
}

// exchangeSingles asks for each key in a request of its own, pipelined. On an
// error it returns the outcomes that came before it.
func (q *queue) exchangeSingles(ctx context.Context, lease *pool.Lease, asks []*ask, v kafkawire.Version, m *flightMemory) ([]Result, error) {
	n := len(asks)
	keys := make([]string, n)
	reqs, resps := make([]kafkawire.Request, n), make([]kafkawire.Response, n)
	questions, answers := make([]kafkawire.FindCoordinatorRequest, n), make([]answer, n)
	rows := make([]kafkawire.Coordinator, n)
	for i, a := range asks {
		keys[i] = a.key
		questions[i] = kafkawire.FindCoordinatorRequest{KeyType: q.keyType, Keys: keys[i : i+1]}
		answers[i] = answer{keys: keys[i : i+1], hosts: &m.hosts}
		answers[i].Coordinators = rows[i : i : i+1] // the room for its one row
		reqs[i], resps[i] = &questions[i], &answers[i]
	}
	told := q.sends(ctx, lease, n, n, v)
	done, err := lease.Exchange(ctx, reqs, resps, v, q.f.cfg.PipelineWindow)
	told(done, err)
	results := make([]Result, n)
	for i := range done {
		match(results[i:i:i+1], keys[i:i+1], answers[i].Coordinators, v, lease)
	}
	return results[:done], err
}
