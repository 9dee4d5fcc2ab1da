package service

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
)

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
	ctx := timeLimit{f.batch, f.times.ends}
	results, err := f.ask(ctx)
	for f.left == leftAnswer && f.leave == nil {
		f.tire(results)
		results, err = f.ask(ctx)
	}
	if f.left != nothingLeft {
		return nil, false
	}
	if err == nil {
		lost := dropLostSession(lease, results)
		return results, doubtRefusals(lease, results) || lost
	}
	lost := Result{Err: exchangeFailure(err, lease.Addr(), time.Since(f.times.began)), AnsweredBy: ""}
	results = append(results, repeat(lost, len(f.asks)-len(results))...)
	return results, lost.Err.Reason == ReasonBrokerUnreachable || q.furtherAsks(lost.Err) > 0
}

// ask asks for the keys, or goes on where f.left says. Where that says more then, the
// results are those so far.
func (f *flight) ask(ctx context.Context) (results []Result, err error) {
	v := f.lease.FindCoordinatorVersion()
	if v >= batchVersion && f.left != leftSingles && f.singles == nil {
		if results, err = f.askBatch(ctx, v); err != nil || !oneKeyMayHaveFailedAll(results) {
			return results, err
		}
		f.left = leftSingles
		if f.leave != nil {
			return nil, nil
		}
	}
	return f.askSingles(ctx, v)
}

// send sends the requests and reads their answers, or goes on with it. Where it is left
// for now f.left says so.
func (f *flight) send(ctx context.Context, reqs []kafkawire.Request, resps []kafkawire.Response, v kafkawire.Version) (done int, err error) {
	if f.left == leftAnswer {
		done, err = f.lease.Await(ctx, f.stay())
	} else {
		f.told = f.q.sends(ctx, f.lease, len(f.asks), len(reqs), v)
		done, err = f.lease.Ask(ctx, f.stay(), reqs, resps, v, f.q.f.cfg.PipelineWindow)
	}
	if errors.Is(err, pool.ErrLeft) {
		f.left = leftAnswer
		return done, err
	}
	f.left = nothingLeft
	f.told(done, err)
	return done, err
}

// askBatch asks for all keys in one request.
func (f *flight) askBatch(ctx context.Context, v kafkawire.Version) ([]Result, error) {
	m := f.memory
	if f.left == nothingLeft {
		m.keys = m.keys[:0]
		for _, a := range f.asks {
			m.keys = append(m.keys, a.key)
		}
		m.answer.keys, m.answer.hosts = m.keys, &m.hosts
		m.question = kafkawire.FindCoordinatorRequest{KeyType: f.q.keyType, Keys: m.keys}
		m.reqs[0], m.resps[0] = &m.question, &m.answer
	}
	_, err := f.send(ctx, m.reqs[:], m.resps[:], v)
	if err != nil {
		if f.left == nothingLeft {
			m.answer = answer{} // it may be half filled
		}
		return nil, err
	}
	m.results = match(m.results, m.keys, m.answer.Coordinators, v, f.lease)
	return m.results, nil
}

// singles are the requests of a flight that asks for each key in one of its own.
type singles struct {
	keys    []string
	answers []answer
	reqs    []kafkawire.Request
	resps   []kafkawire.Response
}

func (s *singles) prepare(t kafkawire.KeyType, asks []*ask, hosts *kafkawire.Hosts) {
	n := len(asks)
	s.keys, s.answers = make([]string, n), make([]answer, n)
	s.reqs, s.resps = make([]kafkawire.Request, n), make([]kafkawire.Response, n)
	questions := make([]kafkawire.FindCoordinatorRequest, n)
	rows := make([]kafkawire.Coordinator, n)
	for i, a := range asks {
		key := s.keys[i : i+1]
		key[0] = a.key
		questions[i] = kafkawire.FindCoordinatorRequest{KeyType: t, Keys: key}
		s.answers[i] = answer{keys: key, hosts: hosts}
		s.answers[i].Coordinators = rows[i : i : i+1] // the room for its one row
		s.reqs[i], s.resps[i] = &questions[i], &s.answers[i]
	}
}

// askSingles asks for each key in a request of its own, pipelined. On an error it
// returns the outcomes that came before it.
func (f *flight) askSingles(ctx context.Context, v kafkawire.Version) ([]Result, error) {
	if f.left != leftAnswer {
		f.singles = new(singles)
		f.singles.prepare(f.q.keyType, f.asks, &f.memory.hosts)
	}
	s := f.singles
	done, err := f.send(ctx, s.reqs, s.resps, v)
	results := make([]Result, done, len(f.asks))
	for i := range results {
		match(results[i:i:i+1], s.keys[i:i+1], s.answers[i].Coordinators, v, f.lease)
	}
	return results, err
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
	keys     []string
	question kafkawire.FindCoordinatorRequest
	answer   answer
	reqs     [1]kafkawire.Request  // question
	resps    [1]kafkawire.Response // answer
	hosts    kafkawire.Hosts
	results  []Result
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

// A timeLimit is a context whose deadline is only told, so that it needs no timer of its
// own: a connection gives it to the socket, and Find has timers that are used again.
type timeLimit struct {
	context.Context
	ends time.Time
}

// Deadline implements [context.Context].
func (l timeLimit) Deadline() (time.Time, bool) { return l.ends, true }
