package service

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// A queue gathers the keys of one type that wait to be written: the open batch.
//
// When does it fly? With nothing in the air, at once: a lone caller waits for
// nobody. While a request is in the air, keys gather until it lands, or a whole
// chunk is there, or the first of them has waited for hold. That makes batches
// grow with the load alone, and a broker that is slow to answer cost others no
// more than hold.
//
// What flies? A flight first waits for a connection and only then takes keys, so
// while all connections are busy keys go on gathering. Calls take turns: each
// puts an equal share into a chunk, so one key beside a call of 10,000 is in the
// next chunk.
type queue struct {
	f       *Finder
	keyType kafkawire.KeyType
	// minVersion is the lowest FindCoordinator version that can carry keyType.
	minVersion kafkawire.Version

	mu sync.Mutex
	// open has the asks that are not written yet, by key; turns the groups they
	// were asked in, in the order they take turns.
	open  map[string]*ask
	turns []turn
	// flights is how many flights are under way, acquiring how many of them have not
	// taken their keys yet, and late how many have had theirs asked elsewhere too:
	// nobody waits for those to land.
	flights   int
	acquiring int
	late      int
	// company says that the last flight took keys of several calls: then the next
	// will find company too, if it does not hurry.
	company   bool
	holding   *time.Timer
	holdArmed bool
	closed    bool
}

const (
	// hold is the longest that a key waits for others' requests to land.
	hold = 5 * time.Millisecond
	// maxFlights bounds the flights of a key type, but for those that are late: they would
	// leave no room for the flights that ask another broker. The pool bounds them all.
	maxFlights = 64
	// mostAvoided bounds how many flights to the broker that it avoids a turn lets go.
	mostAvoided = 3
	// maxAcquiring bounds how many flights hold starts while none gets a connection.
	maxAcquiring = 8
)

// An ask is one key that is to be asked of Kafka, for all who wait for it.
type ask struct {
	key     string
	waiters []waiter
	// one is where the first waiter lives: most asks have no second.
	one [1]waiter
	// left is at least how many of the waiters of an open ask have left.
	left int32
	// attempt counts the answers that were retriable, up to cappedAttempt.
	attempt int16
	// askedAnew counts the further brokers asked, see furtherAsks.
	askedAnew int8
	// open says that the ask is in queue.open, waiting to be written.
	open bool
}

// A waiter is a place in a caller's results.
type waiter struct {
	call  *call
	index int
}

// A call is one Find. Its fields belong to the queue's mutex, until done is
// closed or the call has left.
type call struct {
	results  []Result
	unknown  int // results without a final outcome
	deadline time.Time
	done     chan struct{}
	gone     bool
	settled  []bool          // which of the results are final; nil as long as no ask of the call has a twin, see double
	traced   context.Context //nolint:containedctx // of the caller, nil if it is not traced: spans refer to it
}

// doubles has the call keep account of its results, since one may come twice.
func (c *call) doubles() {
	if c.settled == nil {
		c.settled = make([]bool, len(c.results))
	}
}

// waits reports whether the call still waits for this result.
func (w waiter) waits() bool {
	return !w.call.gone && (w.call.settled == nil || !w.call.settled[w.index])
}

// A turn is a group of asks that takes turns as one: a call's, or what a
// flight brings back for a retry.
type turn struct {
	asks []*ask
	// avoids are the addresses of the brokers that were asked in vain, and avoided
	// how many flights to it have left the turn for another.
	avoids  []string
	avoided int
}

func newQueue(f *Finder, t kafkawire.KeyType, least kafkawire.Version) *queue {
	q := &queue{f: f, keyType: t, minVersion: least, open: map[string]*ask{}}
	q.holding = time.AfterFunc(time.Hour, q.holdEnded)
	q.holding.Stop()
	return q
}

// ask adds the keys to the open batch. leads says that the caller must fly it, in its
// own goroutine: for one who is alone that is the shortest way.
func (q *queue) ask(ctx context.Context, keys []string) (c *call, leads bool, err error) {
	c = &call{results: make([]Result, len(keys)), unknown: len(keys), done: make(chan struct{})}
	c.deadline, _ = ctx.Deadline()
	c.traced = q.f.traced(ctx)
	fresh := make([]ask, len(keys)) // one allocation, also for keys that join another ask
	asks := make([]*ask, 0, len(keys))

	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, false, ErrFinderClosed
	}
	for i, key := range keys {
		c.results[i].Key = key
		a, joins := q.open[key]
		if !joins {
			a = &fresh[i]
			a.key, a.open, a.waiters = key, true, a.one[:0]
			q.open[key] = a
		}
		a.askedAnew = 0 // a caller who joins has spent none of its chances
		// A joined ask takes this call's turn too: it must not wait for the
		// far end of a longer call.
		a.waiters = append(a.waiters, waiter{c, i})
		asks = append(asks, a)
	}
	q.turns = append(q.turns, turn{asks: asks})
	if q.flights == q.late && !q.company && len(q.open) <= q.f.cfg.ChunkKeys {
		q.prepare()
		return c, true, nil
	}
	q.dispatch()
	return c, false, nil
}

// leave ends a call whose context has ended, and returns its results as they are then.
func (q *queue) leave(c *call) []Result {
	q.mu.Lock()
	defer q.mu.Unlock()
	results := c.results
	select {
	case <-c.done: // it was answered meanwhile
		return results
	default:
	}
	c.gone, c.results, c.traced = true, nil, nil // asks may keep the call for a while
	var unheard *LookupError
	for i := range results {
		r := &results[i]
		if a, ok := q.open[r.Key]; ok && a.leave() {
			q.shut(a) // nobody is left to ask it for
		}
		if r.Err == nil && r.Coordinator == (Coordinator{}) {
			if unheard == nil {
				unheard = failure(ReasonDeadlineExceeded, q.f.unheard())
			}
			r.Err = unheard
		}
	}
	q.forgetTurns()
	return results
}

// leave counts one who has left an open ask, and reports whether nobody is left. It
// looks at the waiters only once half of them may be gone: a key may have a million.
func (a *ask) leave() (empty bool) {
	a.left++
	return 2*int(a.left) >= len(a.waiters) && !a.live()
}

// forgetTurns lets go of what was taken or left behind, once nothing else is open: a
// turn keeps its asks, and their keys, until a flight has come to it.
func (q *queue) forgetTurns() {
	if len(q.open) == 0 {
		q.turns = nil
	}
}

// live reports whether somebody still waits for the ask, and forgets who does not.
func (a *ask) live() bool {
	a.left = 0
	for i := 0; i < len(a.waiters); {
		if a.waiters[i].waits() {
			i++
			continue
		}
		last := len(a.waiters) - 1
		a.waiters[i] = a.waiters[last]
		a.waiters[last] = waiter{}
		a.waiters = a.waiters[:last]
	}
	return len(a.waiters) > 0
}

// dispatch starts the flights that the open batch asks for now. The mutex is held.
func (q *queue) dispatch() {
	chunk := q.f.cfg.ChunkKeys
	for !q.closed && q.flights-q.late < maxFlights {
		unclaimed := len(q.open) - q.acquiring*chunk
		if unclaimed <= 0 {
			return
		}
		if q.flights > q.late && q.acquiring == 0 && unclaimed < chunk {
			q.armHold()
			return
		}
		q.launch()
	}
}

func (q *queue) launch() {
	q.prepare()
	go q.fly()
}

// prepare counts a flight that is about to begin.
func (q *queue) prepare() {
	q.flights++
	q.acquiring++
	q.f.flights.Add(1)
}

func (q *queue) armHold() {
	if !q.holdArmed {
		q.holdArmed = true
		q.holding.Reset(hold)
	}
}

// holdEnded sends off what waits although others' requests have not landed, also
// past flights that wait for a connection: theirs may be one that never comes.
func (q *queue) holdEnded() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.holdArmed = false
	if q.closed || len(q.open) == 0 {
		return
	}
	if q.acquiring < maxAcquiring && q.flights-q.late < maxFlights {
		q.launch()
	}
	q.armHold()
}

// taking is what a flight takes along.
type taking struct {
	most, bytes int // asks, and bytes of keys before the last of them
	asks        []*ask
	avoids      []string // all that the turns they are from avoid
}

func (t *taking) full() bool { return len(t.asks) == t.most || t.bytes <= 0 }

// take moves up to n asks from the open batch to the flight that calls it, fewer
// where their keys are long. Every group with asks left gives the same share, and
// goes to the back if it has more. What the broker at addr was asked in vain is left
// for a flight to another, unless there is nothing else. The mutex is held.
func (q *queue) take(n, bytes int, addr string) taking {
	t := taking{most: n, bytes: bytes, asks: make([]*ask, 0, min(n, len(q.open)))}
	var left []turn
	for !t.full() && len(q.turns) > 0 {
		share := max(1, (n-len(t.asks))/len(q.turns))
		for range len(q.turns) {
			if t.full() {
				break
			}
			group := q.turns[0]
			q.turns = q.turns[1:]
			if addr != "" && slices.Contains(group.avoids, addr) && group.avoided < mostAvoided {
				left = append(left, group)
				continue
			}
			t.takeShare(q, &group, share)
			if len(group.asks) > 0 {
				q.turns = append(q.turns, group)
			}
		}
	}
	if len(left) > 0 {
		if len(t.asks) == 0 {
			q.turns = append(q.turns, left...)
			return q.take(n, bytes, "")
		}
		for i := range left {
			left[i].avoided++
		}
		q.turns = append(q.turns, left...)
	}
	q.forgetTurns()
	return t
}

// takeShare takes up to share asks of a group.
func (t *taking) takeShare(q *queue, group *turn, share int) {
	limit := min(t.most, len(t.asks)+share)
	t.avoids = join(t.avoids, group.avoids...)
	for len(group.asks) > 0 && len(t.asks) < limit && !t.full() {
		a := group.asks[0]
		group.asks = group.asks[1:]
		if !a.open { // another group's turn took it
			continue
		}
		q.shut(a)
		if a.live() {
			t.asks = append(t.asks, a)
			t.bytes -= len(a.key)
		}
	}
}

// avoids are the brokers that the next flight should not go to, if there is a choice: those
// that the first in turn was asked of in vain.
func (q *queue) avoids() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) == 0 {
		return nil
	}
	return q.turns[0].avoids
}

// mostAvoids bounds how many brokers a turn avoids.
const mostAvoids = 8

// join adds the addresses that the list lacks. It never writes to the list.
func join(list []string, addrs ...string) []string {
	for _, addr := range addrs {
		if addr != "" && !slices.Contains(list, addr) && len(list) < mostAvoids {
			list = append(list[:len(list):len(list)], addr)
		}
	}
	return list
}

// shut takes an ask out of the open batch: nobody can join it any more.
func (q *queue) shut(a *ask) {
	a.open = false
	delete(q.open, a.key)
}

// reopen puts asks back to be asked again, of another broker than those that they avoid,
// joining those that are open already. The mutex is held.
func (q *queue) reopen(asks []*ask, avoids []string) {
	group := asks[:0]
	for _, a := range asks {
		if !a.live() {
			continue
		}
		if same, ok := q.open[a.key]; ok {
			same.waiters = append(same.waiters, a.waiters...)
			a = same
		} else {
			a.open = true
			q.open[a.key] = a
		}
		group = append(group, a)
	}
	if len(group) > 0 {
		q.turns = append(q.turns, turn{asks: group, avoids: avoids})
	}
	q.dispatch()
}

// settle gives the final outcome of an ask to all who wait for it; note what a
// broker said of it so far, for the time that their deadline ends the retries.
// The mutex is held.
func (a *ask) settle(r Result) {
	for _, w := range a.waiters {
		if !w.waits() {
			continue
		}
		w.put(r)
		if w.call.settled != nil {
			w.call.settled[w.index] = true
		}
		w.call.unknown--
		if w.call.unknown == 0 {
			close(w.call.done)
		}
	}
	a.waiters = nil
}

func (a *ask) note(r Result) {
	for _, w := range a.waiters {
		if !w.waits() || r.Err.Reason == ReasonDeadlineExceeded && w.heard() {
			continue
		}
		w.put(r)
	}
}

// heard reports whether a broker has said something of the key: that tells more than
// that another was silent.
func (w waiter) heard() bool {
	e := w.call.results[w.index].Err
	return e != nil && e.Kafka
}

func (w waiter) put(r Result) {
	r.Key = w.call.results[w.index].Key
	w.call.results[w.index] = r
}

// close refuses new asks and settles those that wait.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.holding.Stop()
	for _, a := range q.open {
		q.shut(a)
		a.settle(Result{Err: failure(ReasonShuttingDown, "")})
	}
	q.turns = nil
}
