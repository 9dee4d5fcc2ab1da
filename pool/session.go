package pool

import (
	"math/rand/v2"
	"time"

	"github.com/jackc/puddle/v2"
)

// A session is what an authentication gives (KIP-368): for how long the broker takes
// requests. Times are by the cluster's clock; 0 is never.
type session struct {
	mechanism string
	waneAt    int64 // from here on a refusal may be the session's end
	renewAt   int64 // when to authenticate anew
	endsAt    int64
}

const (
	// shortestSession is the least that can be renewed: a broker refuses a second
	// authentication within a second. A shorter lifetime is taken for a mistake, and
	// the connection authenticates anew after renewalPause.
	shortestSession = time.Second
	renewalPause    = 5 * time.Second
	// longestSession is where a lifetime stops to matter: connections do not get so
	// old. Brokers have sent such that overflow.
	longestSession = 30 * 24 * time.Hour
)

// lifetime is a broker's session lifetime; 0 for none, and for a negative one.
func lifetime(millis int64) time.Duration {
	if millis >= longestSession.Milliseconds() {
		return longestSession
	}
	return time.Duration(max(0, millis)) * time.Millisecond
}

// newSession is a session that began at a time of the clock. It is renewed after 85
// to 95 % of it, drawn anew, so that connections do not all do it together.
func newSession(mechanism string, begun int64, life time.Duration) *session {
	s := &session{mechanism: mechanism}
	switch {
	case life == 0:
	case life < shortestSession:
		s.renewAt = begun + int64(renewalPause)
	default:
		s.waneAt = begun + int64(0.8*float64(life))
		s.renewAt = begun + int64((0.85+0.1*rand.Float64())*float64(life))
		s.endsAt = begun + int64(life)
	}
	return s
}

func (s *session) waning(now int64) bool { return s != nil && s.waneAt != 0 && now >= s.waneAt }
func (s *session) due(now int64) bool    { return s != nil && s.renewAt != 0 && now >= s.renewAt }
func (s *session) over(now int64) bool   { return s != nil && s.endsAt != 0 && now >= s.endsAt }

// status is the session for [BrokerStatus].
func (s *session) status(now int64) (mechanism string, renewIn *time.Duration) {
	if s == nil {
		return "", nil
	}
	if s.renewAt != 0 {
		in := time.Duration(max(0, s.renewAt-now))
		renewIn = &in
	}
	return s.mechanism, renewIn
}

// expectRenewal has the background look at the connection when its session is due.
// c.mu is held.
func (c *Cluster) expectRenewal(cn *conn) {
	s := cn.session.Load()
	if s == nil || s.renewAt == 0 || c.renewalAt != 0 && c.renewalAt <= s.renewAt {
		return
	}
	c.renewalAt = s.renewAt
	c.wake()
}

// renewalsDue reports whether a session is due, and returns when to look again. What
// comes after is told by the connections as they come back.
func (c *Cluster) renewalsDue(now int64) (due bool, next int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.renewalAt != 0 && now >= c.renewalAt {
		c.renewalAt = 0
		return true, 0
	}
	return false, c.renewalAt
}

// beginRenewal authenticates a connection anew. It is in use meanwhile, so nothing
// else is on it, and comes back to the pool or is closed. c.mu is held.
func (c *Cluster) beginRenewal(b *broker, res *puddle.Resource[*conn]) {
	c.renewing++
	c.work.Add(1)
	go c.runRenewal(b, res)
}

func (c *Cluster) runRenewal(b *broker, res *puddle.Resource[*conn]) {
	defer c.work.Done()
	cn := res.Value()
	err := b.sasl.authenticate(c.base, cn)

	c.mu.Lock()
	c.renewing--
	c.mu.Unlock()
	if err == nil {
		c.count.renewals.Add(1)
		c.giveBack(b, res, true)
		return
	}
	// No caller has met it: a new connection shows whether there is more to it.
	if c.base.Err() == nil {
		c.count.failedRenewals.Add(1)
		b.log.Warn("re-authentication failed, the connection is replaced", "error", err.Error())
		c.exchangeFailed(b, cn, err)
	}
	c.retire(b, res, retiredSession)
}
