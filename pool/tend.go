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

// Ready reports whether a broker has answered lately: in the last 15 seconds. With
// no traffic there is a ping every 5, so one that is lost does not matter.
func (c *Cluster) Ready() bool {
	heard := c.heard.Load()
	return heard != 0 && time.Duration(c.clock.now()-heard) <= readyFor
}

func (c *Cluster) tend() {
	defer c.work.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var swept int64
	for {
		select {
		case <-c.base.Done():
			return
		case <-c.kick:
		case <-timer.C:
		}
		if now := c.clock.now(); now-swept >= int64(c.pingEvery()) {
			swept = now
			c.sweep()
		}
		timer.Reset(c.round())
	}
}

// pingEvery is below the idle limit, so that the connection that is pinged does not
// reach it.
func (c *Cluster) pingEvery() time.Duration { return min(pingInterval, c.cfg.MaxIdleTime/2) }

// round begins what is due and returns when to look again.
func (c *Cluster) round() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return pingInterval
	}
	now := c.clock.now()
	next := now + int64(jittered(c.pingEvery()))
	for _, b := range c.brokers {
		if c.keepsWarm(b) && b.open()+b.dialing == 0 {
			if now >= b.retryAt && c.dialing < maxBackgroundDials {
				c.dial(b) // its end wakes us
			} else {
				next = min(next, b.retryAt)
			}
		}
		if c.duePing(b, now) {
			b.pinging, b.pingedAt = true, now
			c.work.Add(1)
			go c.ping(b, c.takeFrom(b).res)
		}
		if b.open() > 0 && b.suspect(now) {
			next = min(next, now+int64(suspectInterval))
		}
	}
	c.settle() // ranks change with time, too
	if c.cfg.DiscoverBrokers {
		next = min(next, c.discover(now))
	}
	return max(soonest, time.Duration(next-now))
}

// keepsWarm reports whether a connection to the broker is kept ready at all times.
// Bootstrap addresses are not, where discovery is to find the brokers behind them.
func (c *Cluster) keepsWarm(b *broker) bool { return b.discovered || !c.cfg.DiscoverBrokers }

func (c *Cluster) duePing(b *broker, now int64) bool {
	every := c.pingEvery()
	if b.suspect(now) {
		every = suspectInterval
	} else if !c.keepsWarm(b) && c.discovered > 0 {
		return false // let it idle out
	}
	return b.idle > 0 && !b.pinging && now-max(b.pulse.last.Load(), b.pingedAt) >= int64(every)*9/10
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
	all := b.pool.AcquireAllIdle()
	b.idle -= len(all)
	c.idle -= len(all)
	b.inUse += len(all)
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
