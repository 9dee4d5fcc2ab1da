package pool

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/puddle/v2"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// hedgeAfter is how long callers wait for a dial before another broker is dialled
// too (a host that swallows packets costs a whole dial timeout).
const hedgeAfter = 250 * time.Millisecond

// Cluster is the brokers of one Kafka cluster and the connections to them. It is
// safe for concurrent use.
type Cluster struct {
	cfg   Config
	clock clock
	heard atomic.Int64 // when any broker's last answer came; 0: none has
	count counters
	sasl  *authenticator // nil: connections do not authenticate

	base   context.Context // of dials, pings and refreshes; ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // the goroutines of the pool
	kick   chan struct{}  // wakes the background
	start  sync.Once

	socketsMu sync.Mutex
	sockets   map[*conn]struct{} // all that are open, whoever holds them

	// mu guards what follows and the marked part of each broker. It is held for
	// moments only; nothing waits under it.
	mu         sync.Mutex
	closed     bool
	brokers    []*broker
	byAddr     map[string]*broker // by endpointKey
	discovered int                // brokers that Metadata names
	turn       int                // where the rotation stands
	idle       int                // idle connections, of all brokers
	dialing    int                // dials under way, and
	slow       int                // how many of them are slow
	renewing   int                // connections that authenticate anew
	renewalAt  int64              // when a session is due, or 0
	waiters    list.List
	discovery  discovery
}

// waiter is a caller in the queue. granted has room for its one outcome.
type waiter struct {
	least   kafkawire.Version
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

// NewCluster checks cfg and returns a cluster that has dialled nothing yet.
func NewCluster(cfg Config) (*Cluster, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Cluster{
		cfg:     cfg.withDefaults(),
		clock:   clock{time.Now()},
		kick:    make(chan struct{}, 1),
		sockets: make(map[*conn]struct{}),
		byAddr:  make(map[string]*broker),
	}
	if c.cfg.SASL != nil {
		c.sasl = &authenticator{cfg: &c.cfg}
	}
	c.base, c.cancel = context.WithCancel(context.Background())
	for _, i := range rand.Perm(len(cfg.Bootstrap)) { // or all instances would begin with the same broker
		host, port, _ := splitAddr(cfg.Bootstrap[i])
		if c.byAddr[endpointKey(host, port)] == nil {
			c.add(host, port).bootstrap = true
		}
	}
	return c, nil
}

// Acquire lends a ready connection to a healthy broker whose FindCoordinator version
// is min or higher. The caller must Release it.
//
//   - Among the brokers that can serve, the one with the fewest connections in use is
//     taken, in rotation. A broker that failed, or that owes an answer for half a
//     second, is used only while there is no other.
//   - While all connections are busy it waits, first come first served, up to
//     AcquireTimeout ([Exhausted]) or ctx. Beyond MaxWaiters it does not wait at all.
//   - Where none is connected it dials, one broker after the other, and fails with
//     [Unreachable] (or with what all of them failed with, such as [NotKafka]) once
//     all were tried. A broker that has just failed is not dialled again at once.
//   - Where no reachable broker offers least it fails with [Unsupported], unless one
//     that did offer it, or that is being dialled, is not connected now: [Unreachable].
//
// It works before Start, with the bootstrap addresses only.
func (c *Cluster) Acquire(ctx context.Context, least kafkawire.Version) (*Lease, error) {
	return c.acquire(ctx, least, c.cfg.MaxWaiters)
}

func (c *Cluster) acquire(ctx context.Context, least kafkawire.Version, maxWaiters int) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, leftQueue(err)
	}
	var until time.Time // of the wait, over all rounds
	for again := false; ; again = true {
		g, w := c.take(least, maxWaiters, again)
		if w != nil {
			if until.IsZero() {
				until = time.Now().Add(c.cfg.AcquireTimeout)
			}
			g = c.wait(ctx, w, until)
		}
		if g.err != nil {
			return nil, g.err
		}
		cn := g.res.Value()
		if why := cn.worn(g.when, &c.cfg); why != kept {
			c.retire(g.b, g.res, why)
			continue
		}
		if cn.session.Load().due(g.when) {
			c.giveBack(g.b, g.res, false) // to be renewed
			continue
		}
		if cn.versions.findCoordinator < least { // an address that stands for several brokers
			c.giveBack(g.b, g.res, false)
			return nil, tooOld(cn, least)
		}
		c.count.acquired.Add(1)
		return &Lease{cluster: c, broker: g.b, res: g.res, conn: cn, node: g.b.node.Load()}, nil
	}
}

// take takes an idle connection, or else joins the queue: at its end, or again at
// its front.
func (c *Cluster) take(least kafkawire.Version, maxWaiters int, again bool) (grant, *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return grant{err: errClosed()}, nil
	}
	// No waiter is overtaken: had one a use for an idle connection, it would have it.
	if c.idle > 0 {
		now := c.clock.now()
		if b := c.nextIdle(least, now); b != nil {
			return c.takeFrom(b, now), nil
		}
	}
	if !again && c.waiters.Len() >= maxWaiters {
		c.count.exhausted.Add(1)
		return grant{err: c.exhausted("too many wait for a connection")}, nil
	}
	w := &waiter{least: least, granted: make(chan grant, 1)}
	if again {
		w.place = c.waiters.PushFront(w)
	} else {
		w.place = c.waiters.PushBack(w)
	}
	c.count.waited.Add(1)
	c.settle()
	return grant{}, w
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
func (c *Cluster) nextIdle(least kafkawire.Version, now int64) *broker {
	c.turn++
	var next *broker
	best := rankNone
	for i := range c.brokers {
		b := c.brokers[(c.turn+i)%len(c.brokers)]
		if b.open() == 0 || !b.carries(least) {
			continue
		}
		rank := c.rank(b, now)
		if rank < best {
			best, next = rank, nil
		}
		if rank == best && b.idle > 0 && (next == nil || b.inUse < next.inUse) {
			next = b
		}
	}
	return next
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
		if b := c.nextIdle(w.least, now); b != nil {
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

// dial begins a dial in the background; its connection goes to the first in the
// queue. c.mu is held, and the cluster is not closed.
func (c *Cluster) dial(b *broker) {
	b.dialing++
	c.dialing++
	c.work.Add(1)
	go c.runDial(b)
}

func (c *Cluster) runDial(b *broker) {
	defer c.work.Done()
	slow, done := false, false // under c.mu
	hedge := time.AfterFunc(hedgeAfter, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !done {
			slow = true
			b.slow++
			c.slow++
			c.settle()
		}
	})
	err := b.pool.CreateResource(c.base)
	hedge.Stop()
	c.count.dial(err)

	c.mu.Lock()
	defer c.mu.Unlock()
	done = true
	if slow {
		b.slow--
		c.slow--
	}
	b.dialing--
	c.dialing--
	switch {
	case err == nil && (b.removed || c.closed): // its pool is being closed, and the connection with it
	case err == nil:
		b.idle++
		c.idle++
		b.dialSucceeded()
		c.expectRenewal(b.last.Load())
		if c.discovery.starved {
			c.discovery.starved, c.discovery.due = false, 0
		}
	case c.closed || b.removed:
	default:
		now := c.clock.now()
		b.dialFailed(err, now)
		if b.failures == 1 {
			c.discovery.hurry(now)
		}
		if wantsRebootstrap(err) {
			c.rebootstrap("a broker says so: " + err.Error())
		}
	}
	c.settle()
	c.wake()
}

// giveBack returns a connection to its pool, or retires it if it must not be used
// again. used says whether its idle time begins anew.
func (c *Cluster) giveBack(b *broker, res *puddle.Resource[*conn], used bool) {
	cn := res.Value()
	now := c.clock.now()
	if used {
		cn.idle = now
	}
	c.mu.Lock()
	if why := c.mustRetire(b, cn, now); why != kept {
		c.mu.Unlock()
		c.retire(b, res, why)
		return
	}
	defer c.mu.Unlock()
	if cn.session.Load().due(now) {
		c.beginRenewal(b, res)
		return
	}
	c.expectRenewal(cn)
	b.inUse--
	b.idle++
	c.idle++
	if used {
		res.Release()
	} else {
		res.ReleaseUnused()
	}
	if c.waiters.Len() > 0 {
		c.handOut()
	}
}

func (c *Cluster) mustRetire(b *broker, cn *conn, now int64) retirement {
	switch {
	case cn.broken != nil, cn.in.buffered() > 0:
		return retiredBroken
	case c.closed:
		return retiredClosed
	case b.removed:
		return retiredRemoved
	case cn.epoch != b.epoch.Load():
		return retiredReset
	case cn.doubted:
		return retiredSession
	case now > cn.expires:
		return retiredLifetime
	default:
		return kept
	}
}

// retire closes a connection that is in use and frees its place.
func (c *Cluster) retire(b *broker, res *puddle.Resource[*conn], why retirement) {
	cn := res.Value()
	cn.close()
	c.count.retired[why].Add(1)

	c.mu.Lock()
	defer c.mu.Unlock()
	res.Hijack() // unlike Destroy it frees the place in puddle at once
	b.inUse--
	if b.open() == 0 {
		c.wake()
	}
	c.settle()
}

// destroy is puddle's destructor: for connections that were idle when their pool was
// reset or closed. Puddle runs it in goroutines that do not recover.
func (c *Cluster) destroy(cn *conn) {
	defer func() {
		if p := recover(); p != nil {
			c.cfg.Logger.Error("closing a connection panicked", "broker", cn.addr, "panic", fmt.Sprint(p))
		}
	}()
	why := retiredReset
	if c.base.Err() != nil {
		why = retiredClosed
	}
	c.count.retired[why].Add(1)
	cn.close()
}

// lookupFailed is exchangeFailed for a lookup.
func (c *Cluster) lookupFailed(b *broker, cn *conn, err error) {
	if !c.exchangeFailed(b, cn, err) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b.punish(c.clock.at(cn.since), c.clock.now())
}

// exchangeFailed draws the consequences of a failed exchange, and reports whether
// the broker is to blame: it is not for a refusal of the encoder, for our own end, or
// for a caller in haste.
func (c *Cluster) exchangeFailed(b *broker, cn *conn, err error) bool {
	kind := KindOf(err)
	silent := cn.silence >= min(stallAfter, c.cfg.RequestTimeout/2)
	if cn.broken == nil || kind == Closed || (kind == 0 || kind == Timeout) && !silent || c.base.Err() != nil {
		return false
	}
	if kind == Unreachable && cn.versions.assumed {
		b.learned.forget()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.now()
	b.note(err)
	b.log.Debug("exchange failed", "error", err.Error())
	if kind == Unreachable {
		c.reset(b, cn)
	} else {
		b.suspectSince = now
	}
	c.discovery.hurry(now)
	c.settle()
	c.wake()
	return true
}

// sessionLost draws the consequences of a connection that is whole, but not
// authenticated for the broker any more.
func (c *Cluster) sessionLost(b *broker, cn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.note(cn.broken)
	c.reset(b, cn)
	c.settle()
	c.wake()
}

// reset gives up the idle connections of a broker that has lost one, and those in
// use once they come back: most likely all are lost, and trying them one by one
// would fail one caller each. c.mu is held.
func (c *Cluster) reset(b *broker, lost *conn) {
	if lost.epoch != b.epoch.Load() || b.removed {
		return // an earlier loss has done it
	}
	b.epoch.Add(1)
	b.pool.Reset()
	c.idle -= b.idle
	b.idle = 0
	b.up = false
}

// wake has the background look around. It never waits.
func (c *Cluster) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

func (c *Cluster) track(cn *conn) {
	c.socketsMu.Lock()
	defer c.socketsMu.Unlock()
	c.sockets[cn] = struct{}{}
}

func (c *Cluster) untrack(cn *conn) {
	c.socketsMu.Lock()
	defer c.socketsMu.Unlock()
	delete(c.sockets, cn)
}

// closeGrace is what Close gives callers to notice that their connection was closed.
const closeGrace = 100 * time.Millisecond

// Close ends the pool: callers that wait fail, idle connections are closed, and
// those in use once they are released. When ctx ends first they are closed under
// their users, and the error says how many were still lent.
func (c *Cluster) Close(ctx context.Context) error {
	c.shut()
	done := make(chan struct{})
	go func() {
		c.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	lent := c.closeSockets()
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	}
	return fmt.Errorf("pool: closed by force with %d connections still open: %w", lent, ctx.Err())
}

// shut does what Close need not wait for. Later calls do nothing.
func (c *Cluster) shut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	c.cancel()
	for e := c.waiters.Front(); e != nil; e = e.Next() {
		e.Value.(*waiter).granted <- grant{err: errClosed()}
	}
	c.waiters.Init()
	for _, b := range c.brokers {
		c.drain(b)
	}
}

// drain closes the broker's pool once its connections are back. c.mu is held.
func (c *Cluster) drain(b *broker) {
	c.idle -= b.idle
	b.idle = 0
	c.work.Add(1)
	go func() {
		defer c.work.Done()
		b.pool.Close()
	}()
}

func (c *Cluster) closeSockets() int {
	c.socketsMu.Lock()
	open := make([]*conn, 0, len(c.sockets))
	for cn := range c.sockets {
		open = append(open, cn)
	}
	c.socketsMu.Unlock()
	for _, cn := range open {
		cn.close()
	}
	return len(open)
}
