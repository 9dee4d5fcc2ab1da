package pool

import (
	"fmt"
	"time"

	"github.com/jackc/puddle/v2"
)

// This file is how connections come and go: dialled, given back, retired, lost.

// hedgeAfter is how long callers wait for a dial before another broker is dialled
// too (a host that swallows packets costs a whole dial timeout).
const hedgeAfter = 250 * time.Millisecond

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
		if b.early > 0 {
			b.early--
		} else {
			b.idle++
			c.idle++
		}
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
// closed. Puddle runs it in goroutines that do not recover.
func (c *Cluster) destroy(cn *conn) {
	defer func() {
		if p := recover(); p != nil {
			c.cfg.Logger.Error("closing a connection panicked", "broker", cn.addr, "panic", fmt.Sprint(p))
		}
	}()
	why := retiredRemoved
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
	now := c.clock.now()
	b.punish(c.clock.at(cn.since), now)
	if again := int(b.strikes.Load()) - 1; again > 0 && KindOf(err) == Unreachable && stillborn(cn, now) && now >= b.retryAt {
		b.retryAt = now + int64(jittered(doubled(backoffBase, again, backoffCap)))
	}
}

// stillborn recognises a connection that was made a moment ago and ended with its first
// lookup. Where that comes again and again (Kafka before 0.8.2 does so) the broker is left
// alone for a while like one that cannot be connected to, or each lookup would cost a dial.
func stillborn(cn *conn, now int64) bool { return !cn.useful && now-cn.readied < int64(time.Second) }

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
	if lost.epoch != b.epoch.Load() || b.removed || c.closed {
		return // an earlier loss has done it
	}
	b.epoch.Add(1)
	for _, res := range c.takeAll(b) {
		b.inUse--
		res.Hijack() // as in retire
		c.count.retired[retiredReset].Add(1)
		res.Value().close()
	}
	b.up = false
}
