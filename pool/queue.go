package pool

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/puddle/v2"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// This file is the queue of those who wait for a connection: who gets which, when
// another is dialled for, and who is turned away.

// wish is which broker's connection somebody wants.
type wish struct {
	least kafkawire.Version // of FindCoordinator
	but   []string          // addresses of those that are passed over for another as good
}

// waiter is a caller in the queue. granted has room for its one outcome.
type waiter struct {
	wish
	granted chan grant
	place   *list.Element
}

// grant is a connection, taken from its broker's pool, or the reason for none.
type grant struct {
	b    *broker
	res  *puddle.Resource[*conn]
	when int64 // by the cluster's clock
	err  error
}

// take takes an idle connection, or else joins the queue: at its end, or again at
// its front.
func (c *Cluster) take(wanted wish, maxWaiters int, again bool) (grant, *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return grant{err: errClosed()}, nil
	}
	// No waiter is overtaken: had one a use for an idle connection, it would have it.
	if c.idle > 0 {
		now := c.clock.now()
		if b := c.nextIdle(wanted, now); b != nil {
			return c.takeFrom(b, now), nil
		}
	}
	if !again && c.waiters.Len() >= maxWaiters {
		c.count.exhausted.Add(1)
		return grant{err: c.exhausted("too many wait for a connection")}, nil
	}
	w := &waiter{wish: wanted, granted: make(chan grant, 1)}
	if again {
		w.place = c.waiters.PushFront(w)
	} else {
		w.place = c.waiters.PushBack(w)
	}
	c.count.waited.Add(1)
	c.settle()
	return grant{}, w
}

// takeIdle takes an idle connection if there is one.
func (c *Cluster) takeIdle(least kafkawire.Version) (grant, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.idle == 0 {
		return grant{}, false
	}
	now := c.clock.now()
	b := c.nextIdle(wish{least: least}, now)
	if b == nil {
		return grant{}, false
	}
	g := c.takeFrom(b, now)
	return g, g.err == nil
}

// wait waits for the outcome. What comes in the moment of giving up is used.
func (c *Cluster) wait(ctx context.Context, w *waiter, until time.Time) grant {
	patience := time.NewTimer(time.Until(until))
	defer patience.Stop()
	select {
	case g := <-w.granted:
		return g
	case <-ctx.Done():
	case <-patience.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case g := <-w.granted:
		return g
	default:
	}
	c.waiters.Remove(w.place)
	if err := ctx.Err(); err != nil {
		return grant{err: leftQueue(err)}
	}
	for _, b := range c.brokers {
		if b.open() > 0 && b.carries(w.least) {
			c.count.exhausted.Add(1)
			return grant{err: c.exhausted(fmt.Sprintf("no connection came free within %s", c.cfg.AcquireTimeout))}
		}
	}
	return grant{err: c.noneReachable(w.least)}
}

// leftQueue is the error of a caller whose own context ended.
func leftQueue(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Kind: Timeout, Op: "acquire", Err: fmt.Errorf("no connection before the caller's deadline: %w", err)}
	}
	return fmt.Errorf("acquire: the caller left: %w", err)
}

func errClosed() error {
	return &Error{Kind: Closed, Op: "acquire", Err: errors.New("the pool is closed")}
}

// exhausted says how full the pool is. c.mu is held.
func (c *Cluster) exhausted(what string) error {
	inUse := 0
	for _, b := range c.brokers {
		inUse += b.inUse
	}
	return &Error{Kind: Exhausted, Op: "acquire", Err: fmt.Errorf("%s: %d connections in use, %d idle, %d being made, %d callers waiting",
		what, inUse, c.idle, c.dialing, c.waiters.Len())}
}

// The ranks of brokers. While one of a lower rank has an open connection, those of
// a higher are not used.
const (
	rankServing  = iota // discovered, or bootstrap while none is
	rankFallback        // bootstrap, while others are discovered
	rankSuspect
	rankNone
)

func (c *Cluster) rank(b *broker, now int64) int {
	switch {
	case b.suspect(now):
		return rankSuspect
	case c.discovered > 0 && !b.discovered:
		return rankFallback
	default:
		return rankServing
	}
}

// nextIdle is the broker to take an idle connection from, or nil. c.mu is held.
func (c *Cluster) nextIdle(wanted wish, now int64) *broker {
	c.turn++
	var next *broker
	best := rankNone
	for i := range c.brokers {
		b := c.brokers[(c.turn+i)%len(c.brokers)]
		if b.open() == 0 || !b.carries(wanted.least) {
			continue
		}
		rank := c.rank(b, now)
		if rank < best {
			best, next = rank, nil
		}
		if rank == best && b.idle > 0 && (next == nil || wanted.prefers(b, next)) {
			next = b
		}
	}
	return next
}

// prefers reports whether b serves the wish better than other, of the same rank.
func (w *wish) prefers(b, other *broker) bool {
	if len(w.but) > 0 {
		if over, otherOver := slices.Contains(w.but, b.addr), slices.Contains(w.but, other.addr); over != otherOver {
			return otherOver
		}
	}
	return b.inUse < other.inUse
}

// takeFrom takes an idle connection of b, which has one. c.mu is held.
func (c *Cluster) takeFrom(b *broker, now int64) grant {
	res, err := b.pool.Acquire(context.Background())
	if err != nil {
		return grant{err: errClosed()} // the only reason for puddle to refuse
	}
	b.idle--
	c.idle--
	b.inUse++
	return grant{b: b, res: res, when: now}
}

// takeAll takes all idle connections of b. Among them may be some whose dials have
// ended but are not counted, since runDial waits for c.mu; they are counted here.
// c.mu is held.
func (c *Cluster) takeAll(b *broker) []*puddle.Resource[*conn] {
	all := b.pool.AcquireAllIdle()
	early := len(all) - b.idle
	b.early += early
	c.idle -= b.idle
	b.idle = 0
	b.inUse += len(all)
	return all
}

// settle brings the queue in line with what has changed: it hands out what is idle,
// begins the dials that are wanted, and turns away those with nothing to wait for.
// c.mu is held.
func (c *Cluster) settle() {
	if c.closed || c.waiters.Len() == 0 {
		return
	}
	c.handOut()
	c.grow()
	c.turnAway()
}

// handOut gives idle connections to the first in the queue that they serve.
func (c *Cluster) handOut() {
	now := c.clock.now()
	for e := c.waiters.Front(); e != nil && c.idle > 0; {
		w, next := e.Value.(*waiter), e.Next()
		if b := c.nextIdle(w.wish, now); b != nil {
			c.waiters.Remove(e)
			w.granted <- c.takeFrom(b, now)
		}
		e = next
	}
}

// grow begins a dial for each waiter that none is under way for. Slow dials do not
// count: another broker may be quicker. Connections that authenticate anew come back.
func (c *Cluster) grow() {
	now := c.clock.now()
	wanted := c.waiters.Len() - (c.dialing - c.slow) - c.renewing
	none := kafkawire.Version(math.MaxInt16) // from here on there is none to dial
	for e := c.waiters.Front(); e != nil && wanted > 0; e = e.Next() {
		least := e.Value.(*waiter).least
		if least >= none {
			continue
		}
		b := c.nextDial(least, now)
		if b == nil {
			none = least
			continue
		}
		c.dial(b)
		wanted--
	}
}

// nextDial is the broker to dial for a waiter, or nil. c.mu is held.
func (c *Cluster) nextDial(least kafkawire.Version, now int64) *broker {
	live := rankNone // the best rank that has a connection already
	for _, b := range c.brokers {
		if b.open() > 0 && b.carries(least) {
			live = min(live, c.rank(b, now))
		}
	}
	var next *broker
	best := rankNone
	c.turn++
	for i := range c.brokers {
		b := c.brokers[(c.turn+i)%len(c.brokers)]
		if !b.carries(least) || !b.mayDial(now) {
			continue
		}
		rank := c.rank(b, now)
		if rank > live {
			continue
		}
		if rank < best || rank == best && b.open()+b.dialing < next.open()+next.dialing {
			best, next = rank, b
		}
	}
	return next
}

// turnAway fails the waiters for which no broker has a connection, nor a dial under
// way, nor may be dialled now.
func (c *Cluster) turnAway() {
	now := c.clock.now()
	for e := c.waiters.Front(); e != nil; {
		w, next := e.Value.(*waiter), e.Next()
		if !c.hopeFor(w.least, now) {
			c.waiters.Remove(e)
			w.granted <- grant{err: c.noneReachable(w.least)}
		}
		e = next
	}
}

func (c *Cluster) hopeFor(least kafkawire.Version, now int64) bool {
	for _, b := range c.brokers {
		if b.carries(least) && (b.open() > 0 || b.dialing > 0 || b.mayDial(now)) {
			return true
		}
	}
	return false
}

// noneReachable says why there is no connection for version least. c.mu is held.
func (c *Cluster) noneReachable(least kafkawire.Version) error {
	var tried causes
	var highest *broker
	capable := false // whether one that is not connected now may well offer least
	for _, b := range c.brokers {
		switch {
		case b.carries(least):
			tried = append(tried, b.trouble())
			capable = capable || b.dialing > 0 || b.negotiated && b.versions.findCoordinator >= least
		case highest == nil || b.versions.findCoordinator > highest.versions.findCoordinator:
			highest = b
		}
	}
	if highest != nil && !capable {
		return tooOld(highest.last.Load(), least)
	}
	e := &Error{Kind: tried.commonKind(), Op: "acquire", Err: fmt.Errorf("no broker is reachable: %w", tried)}
	var first *Error
	if e.Kind == Unsupported && errors.As(tried[0], &first) {
		e.Have, e.Want = first.Have, first.Want
	}
	return e
}

func tooOld(highest *conn, least kafkawire.Version) error {
	return &Error{Kind: Unsupported, Op: "acquire", Have: highest.versions.findCoordinatorRange,
		Want: kafkawire.VersionRange{Min: least, Max: kafkawire.Supported(kafkawire.APIKeyFindCoordinator).Max},
		Err: fmt.Errorf("FindCoordinator v%d or later is needed; the highest that a reachable broker offers is v%d (%s)",
			least, highest.versions.findCoordinator, highest.addr)}
}
