package pool

import (
	"container/list"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// Cluster is the brokers of one Kafka cluster and the connections to them. It is
// safe for concurrent use.
type Cluster struct {
	cfg   Config
	clock clock
	heard atomic.Int64 // when any broker's last answer on a ready connection came; 0: none has
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
	warmAt     int64              // when the background's dials so far are spent, at their pace
	waiters    list.List
	discovery  discovery
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
	return c.AcquireBut(ctx, least)
}

// AcquireBut is Acquire that passes over the brokers at addrs where another that is as
// good has an idle connection.
func (c *Cluster) AcquireBut(ctx context.Context, least kafkawire.Version, addrs ...string) (*Lease, error) {
	return c.acquire(ctx, wish{least, addrs}, c.cfg.MaxWaiters)
}

func (c *Cluster) acquire(ctx context.Context, wanted wish, maxWaiters int) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, leftQueue(err)
	}
	var until time.Time // of the wait, over all rounds
	for again := false; ; again = true {
		g, w := c.take(wanted, maxWaiters, again)
		if w != nil {
			if until.IsZero() {
				until = time.Now().Add(c.cfg.AcquireTimeout)
			}
			g = c.wait(ctx, w, until)
		}
		if g.err != nil {
			return nil, g.err
		}
		if lease, err := c.lend(g, wanted.least); lease != nil || err != nil {
			return lease, err
		}
	}
}

// TryAcquire is Acquire where a connection is ready, and nil where one would have to
// be waited for.
func (c *Cluster) TryAcquire(least kafkawire.Version) *Lease {
	for {
		g, ok := c.takeIdle(least)
		if !ok {
			return nil
		}
		if lease, err := c.lend(g, least); lease != nil || err != nil {
			return lease
		}
	}
}

// lend is the lease of a connection, or nothing if the connection is of no use.
func (c *Cluster) lend(g grant, least kafkawire.Version) (*Lease, error) {
	cn := g.res.Value()
	if why := cn.worn(g.when, &c.cfg); why != kept {
		c.retire(g.b, g.res, why)
		return nil, nil
	}
	if cn.session.Load().due(g.when) {
		c.giveBack(g.b, g.res, false) // to be renewed
		return nil, nil
	}
	if cn.versions.findCoordinator < least { // an address that stands for several brokers
		c.giveBack(g.b, g.res, false)
		return nil, tooOld(cn, least)
	}
	c.count.acquired.Add(1)
	return &Lease{cluster: c, broker: g.b, res: g.res, conn: cn, node: g.b.node.Load()}, nil
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
