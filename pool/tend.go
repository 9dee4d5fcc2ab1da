package pool

import (
	"slices"
	"time"

	"github.com/jackc/puddle/v2"

	"github.com/coordsvc/coordsvc/kafkawire"
)

const (
	// pingInterval is how often a broker without traffic is asked for a sign of life.
	pingInterval = 5 * time.Second
	// suspectInterval is the same for a broker that failed.
	suspectInterval = time.Second
	// readyFor is how long one answer keeps the cluster ready: three pings may be lost.
	readyFor = 15 * time.Second
	// maxBackgroundDials bounds the dials of the background at one time.
	maxBackgroundDials = 16
	// backgroundDialEvery is the pace of the background's dials beyond as many: what
	// Metadata names may be refused at once, by thousands, and be others each time.
	backgroundDialEvery = 5 * time.Millisecond
	// soonest keeps the background from spinning.
	soonest = 20 * time.Millisecond
)

// Start begins the work in the background: it reaches a broker, discovers the
// others, keeps one connection to each ready, and refreshes the view. It returns at
// once, whether Kafka is there or not. Further calls do nothing.
func (c *Cluster) Start() {
	c.start.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed {
			return
		}
		c.work.Add(1)
		go c.tend()
	})
}

// Ready reports whether a broker has answered lately, in the last 15 seconds, on a
// connection that it had let in. With no traffic there is a ping every 5, so one that
// is lost does not matter.
func (c *Cluster) Ready() bool {
	heard := c.heard.Load()
	return heard != 0 && time.Duration(c.clock.now()-heard) <= readyFor
}

func (c *Cluster) tend() {
	defer c.work.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	sweepDue := int64(0)
	for {
		select {
		case <-c.base.Done():
			return
		case <-c.kick:
		case <-timer.C:
		}
		now := c.clock.now()
		renew, _ := c.renewalsDue(now)
		if renew || now >= sweepDue {
			sweepDue = now + int64(jittered(c.pingEvery()))
			c.sweep()
		}
		next := min(sweepDue, c.round())
		if _, at := c.renewalsDue(0); at != 0 {
			next = min(next, at)
		}
		timer.Reset(max(soonest, time.Duration(next-c.clock.now())))
	}
}

// pingEvery is below the idle limit, so that the connection that is pinged does not
// reach it.
func (c *Cluster) pingEvery() time.Duration { return min(pingInterval, c.cfg.MaxIdleTime/2) }

// round begins what is due and returns when something is due again.
func (c *Cluster) round() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.now()
	next := now + int64(pingInterval)
	if c.closed {
		return next
	}
	refreshing := false
	if c.cfg.DiscoverBrokers {
		var due int64
		refreshing, due = c.discover(now)
		next = min(next, due)
	}
	next = min(next, c.reach(now))
	for _, b := range c.brokers {
		if c.keepsWarm(b) && b.open()+b.dialing == 0 {
			switch paced := c.warmAt - maxBackgroundDials*int64(backgroundDialEvery); {
			case now < b.retryAt || now < paced || c.dialing >= maxBackgroundDials:
				next = min(next, max(b.retryAt, paced))
			default:
				c.warmAt = max(c.warmAt, now) + int64(backgroundDialEvery)
				c.dial(b) // its end wakes us
			}
		}
		if !c.wantsPings(b, now) {
			continue
		}
		switch due := c.pingDue(b, now); {
		case now < due:
			next = min(next, due)
		case !refreshing: // which may be about to take the same connection
			b.pinging, b.pingedAt = true, now
			c.work.Add(1)
			go c.ping(b, c.takeFrom(b, now).res)
		}
	}
	c.settle() // ranks change with time, too
	return next
}

// reach begins a dial where no connection is open at all, and returns when the next
// may begin. c.mu is held.
func (c *Cluster) reach(now int64) int64 {
	next := now + int64(pingInterval)
	for _, b := range c.brokers {
		if b.open() > 0 {
			return next
		}
		if b.dialing == 0 {
			next = min(next, max(now, b.retryAt))
		}
	}
	if c.dialing > c.slow {
		return now + int64(pingInterval) // its end wakes us
	}
	if b := c.nextDial(0, now); b != nil {
		c.dial(b)
	}
	return next
}

// keepsWarm reports whether a connection to the broker is kept ready at all times.
// Bootstrap addresses are not, where discovery finds the brokers behind them; else one
// that failed would not be tried again while another serves.
func (c *Cluster) keepsWarm(b *broker) bool {
	return b.discovered || !c.cfg.DiscoverBrokers || c.onBootstrap()
}

// onBootstrap reports whether the bootstrap addresses are what serves: none of the brokers
// that were discovered can be connected to, or there is no way to discover any. c.mu is held.
func (c *Cluster) onBootstrap() bool {
	if c.discovered == 0 {
		return c.discovery.none
	}
	return !slices.ContainsFunc(c.brokers, func(b *broker) bool { return b.discovered && (b.up || b.failures == 0) })
}

// wantsPings reports whether a ping would tell something. Where all connections are
// busy, the traffic tells it; a bootstrap address that nobody needs may idle out.
func (c *Cluster) wantsPings(b *broker, now int64) bool {
	return b.idle > 0 && !b.pinging && (c.keepsWarm(b) || c.discovered == 0 || b.suspect(now))
}

func (c *Cluster) pingDue(b *broker, now int64) int64 {
	if !c.cfg.DiscoverBrokers && !c.Ready() { // a ping is what makes it so; else discovery is
		if b.pingedAt == 0 {
			return now
		}
		return b.pingedAt + int64(suspectInterval)
	}
	every := c.pingEvery()
	if b.suspect(now) {
		every = min(every, suspectInterval)
	}
	return max(b.pulse.last.Load(), b.pingedAt) + int64(every)
}

// ping asks for a sign of life on an idle connection. Metadata for no topics is what
// costs a broker least; a lookup would create topics.
func (c *Cluster) ping(b *broker, res *puddle.Resource[*conn]) {
	defer c.work.Done()
	cn := res.Value()
	if why := cn.worn(c.clock.now(), &c.cfg); why != kept {
		c.retire(b, res, why)
	} else {
		if err := c.signOfLife(cn); err != nil {
			c.exchangeFailed(b, cn, err)
		}
		c.giveBack(b, res, true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b.pinging = false
	c.wake()
}

func (c *Cluster) signOfLife(cn *conn) error {
	if cn.versions.metadata >= 0 {
		_, err := cn.askMetadata(c.base)
		return err
	}
	req := &kafkawire.APIVersionsRequest{
		ClientSoftwareName: softwareField(c.cfg.SoftwareName), ClientSoftwareVersion: softwareField(c.cfg.SoftwareVersion),
		NodeID: kafkawire.NoNode,
	}
	return cn.call(c.base, req, &kafkawire.APIVersionsResponse{}, cn.versions.apiVersions)
}

// sweep closes idle connections that are too old, idle for too long, or closed by
// the broker.
func (c *Cluster) sweep() {
	c.mu.Lock()
	brokers := slices.Clone(c.brokers)
	c.mu.Unlock()
	for _, b := range brokers {
		c.sweepBroker(b)
	}
}

func (c *Cluster) sweepBroker(b *broker) {
	c.mu.Lock()
	if b.removed || c.closed || b.idle == 0 {
		c.mu.Unlock()
		return
	}
	all := c.takeAll(b)
	c.mu.Unlock()

	now := c.clock.now()
	for _, res := range slices.Backward(all) { // the one used last comes back last, to be used first
		if why := res.Value().worn(now, &c.cfg); why != kept {
			c.retire(b, res, why)
		} else {
			c.giveBack(b, res, false)
		}
	}
}
