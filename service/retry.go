package service

import (
	"math/rand/v2"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

const (
	// Retriable outcomes are asked again after retryBase, doubling to retryCap,
	// each moved by up to a fifth either way.
	retryBase = 100 * time.Millisecond
	retryCap  = time.Second
	// cappedAttempt is the first that has to wait for retryCap.
	cappedAttempt = 4
)

// land ends a flight: it hands over its outcomes.
func (q *queue) land(asks []*ask, results []Result, addr string, elsewhere bool) (retries []*ask) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flights--
	if elsewhere {
		q.late--
	}
	retries = q.handOver(asks, results, addr, elsewhere)
	q.dispatch()
	return retries
}

// handOver hands the outcomes of the broker at addr ("" where none was asked) to those who
// wait, and returns the asks to ask again, of another broker if there is one: none where
// all are asked elsewhere already. The mutex is held.
func (q *queue) handOver(asks []*ask, results []Result, addr string, elsewhere bool) (retries []*ask) {
	for i, a := range asks {
		r := results[i]
		further := r.Err != nil && !r.Err.Retriable && addr != "" && a.askedAnew < q.furtherAsks(r.Err)
		switch {
		case r.Err == nil, r.Err.Reason == ReasonShuttingDown, !r.Err.Retriable && !further:
			a.settle(r)
			continue
		case elsewhere: // what comes of that decides, but it may be silence
			if r.Err.Kafka {
				a.note(r)
			}
			continue
		case further:
			a.askedAnew++
		}
		a.note(r)
		retries = append(retries, a)
	}
	return retries
}

// furtherAsks is how many more brokers are asked where an outcome that is final says
// nothing of the key, but something of the broker or the connection that was asked;
// what the last of them says holds.
func (q *queue) furtherAsks(e *LookupError) int8 {
	switch {
	case fellIll(e) && q.f.cluster.Known() > 1:
		return 4 // the rotation may come back to the same broker, while others say that they are loading
	case fellIll(e):
		return 2
	case e.doubted:
		return 4 // the other connections of the broker may be as old
	case sessionLost(e):
		return 1
	default:
		return 0
	}
}

// fellIll recognises what befalls a broker that spoke Kafka when the connection was made.
func fellIll(e *LookupError) bool {
	return e.Reason == ReasonNotAKafkaBroker || e.Reason == ReasonTLSFailed || e.Reason == ReasonSASLFailed
}

// sessionLost recognises the answer of a broker for which the connection is not, or
// no longer, authenticated (seen on Amazon MSK).
func sessionLost(e *LookupError) bool {
	return e != nil && e.Kafka && e.Code == kafkawire.ErrIllegalSaslState
}

// retry brings asks that the brokers it avoids were asked in vain back into the open batch
// after a pause.
func (q *queue) retry(asks []*ask, avoids []string, again bool) {
	attempt := asks[0].attempt
	for _, a := range asks {
		attempt = min(attempt, a.attempt)
		a.attempt = min(a.attempt+1, cappedAttempt)
	}
	if !again || attempt > 0 {
		pause := time.NewTimer(backoff(attempt))
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-q.f.stop.Done():
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		for _, a := range asks {
			a.settle(Result{Err: failure(ReasonShuttingDown, "")})
		}
		return
	}
	q.f.retried(q.keyType, len(asks))
	q.reopen(asks, avoids)
}

// backoff is the pause before the retry after so many earlier ones.
func backoff(attempt int16) time.Duration {
	d := retryCap
	if attempt < cappedAttempt {
		d = min(retryCap, retryBase<<attempt)
	}
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
