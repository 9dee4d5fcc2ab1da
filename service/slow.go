package service

import (
	"context"
	"time"
)

// This file is what is done about brokers that take long to answer. They may be paused, or
// cut off, so that another must be asked in time; or all may be slow, so that the first
// answer must not be thrown away. So both are asked, and the first outcome of each key holds.

const (
	// minExchangeTime is the least that a broker gets to answer in.
	minExchangeTime = time.Second
	// A broker that says nothing to anybody is waited for half of the time that the least
	// patient of the callers has, within these bounds; then another is asked too.
	leastStay, mostStay = 250 * time.Millisecond, time.Second
)

// times are those of an exchange.
type times struct {
	began time.Time
	// stays is until when the answer is waited for before the keys are asked of another
	// broker too, where this one has said nothing to anybody for half of that; late is the
	// same for one that answers others; at ends it is given up.
	stays, late, ends time.Time
}

// timesFor are the times for an exchange of the asks that begins now. The mutex is held.
func (q *queue) timesFor(asks []*ask) times {
	now := time.Now()
	least, most := q.f.cfg.RequestTimeout, time.Duration(0)
	for _, a := range asks {
		for _, w := range a.waiters {
			patience := q.f.cfg.RequestTimeout
			if d := w.call.deadline; !d.IsZero() {
				patience = d.Sub(now)
			}
			least, most = min(least, patience), max(most, patience)
		}
	}
	within := func(d time.Duration) time.Time {
		return now.Add(min(q.f.cfg.RequestTimeout, max(minExchangeTime, d)))
	}
	t := times{began: now, late: within(most / 2), ends: within(most)}
	t.stays = t.late
	if q.f.cluster.Known() > 1 {
		t.stays = now.Add(min(mostStay, max(leastStay, least/2)))
	}
	return t
}

// tire is for a broker that takes long to answer: the keys without an answer are asked
// of another one too. What the first says still holds for those who have asked before it
// was asked, if it comes first: a broker may be slow, and the others too.
func (f *flight) tire(results []Result) {
	now := time.Now()
	if !f.elsewhere && now.Before(f.times.late) && f.lease.SilentFor() < now.Sub(f.times.began)/2 {
		f.times.stays = f.times.late
		return
	}
	f.handOver(results)
	if !f.elsewhere {
		f.elsewhere = true
		f.q.double(f.asks[f.landed:], f.elsewhereThan())
	}
	f.times.stays = now.Add(max(leastStay, f.times.ends.Sub(now)/2))
}

// handOver hands over the outcomes so far.
func (f *flight) handOver(results []Result) {
	results = results[f.landed:]
	doubtRefusals(f.lease, results)
	f.q.mu.Lock()
	retries := f.q.handOver(f.asks[f.landed:f.landed+len(results)], results, f.addr(), f.elsewhere)
	f.q.mu.Unlock()
	f.landed += len(results)
	f.retry(retries, false)
}

// stay is the context of those who wait for an answer: it ends when the caller leaves in
// whose goroutine the flight is, and tells the time at which to look what else is to be done.
func (f *flight) stay() context.Context {
	if f.leave == nil {
		return timeLimit{context.Background(), f.times.stays}
	}
	by := f.times.stays
	if d, has := f.leave.Deadline(); has && d.Before(by) {
		by = d
	}
	return timeLimit{f.leave, by}
}

// double has asks that a broker is slow to answer asked of another than avoids too, for
// those who wait for them now: the first outcome holds. Who joins them from here on
// waits for the second alone, since the first was asked before they came.
func (q *queue) double(asks []*ask, avoids []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.late++
	if q.closed {
		return
	}
	twins := make([]ask, len(asks))
	group := make([]*ask, 0, len(asks))
	for i, a := range asks {
		if !a.live() {
			continue
		}
		twin := &twins[i]
		twin.key, twin.attempt, twin.askedAnew = a.key, a.attempt, a.askedAnew
		twin.waiters = append(twin.one[:0], a.waiters...)
		for _, w := range a.waiters {
			w.call.doubles()
		}
		group = append(group, twin)
	}
	q.f.retried(q.keyType, len(group))
	q.reopen(group, avoids)
}
