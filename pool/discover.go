package pool

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coordsvc/coordsvc/kafkawire"
)

const (
	// refreshInterval is how often the view is refreshed, moved by up to a fifth.
	refreshInterval = 30 * time.Second
	// A broker that leaves the view is most often restarted, and a cluster that could not
	// be asked, or not until now, may be starting, so the view is refreshed every
	// refreshUnsettled for unsettledFor afterwards: Metadata does not name a broker that
	// is away, and a broker that it does not name is not dialled.
	refreshUnsettled = 3 * time.Second
	unsettledFor     = 10 * time.Minute
	// refreshPause is the least time between refreshes, in trouble too.
	refreshPause = time.Second
	// rebootstrapAfter is how long no broker may have answered before those that were
	// discovered are forgotten: the cluster may have moved.
	rebootstrapAfter = 15 * time.Second
	// maxBrokers bounds what one Metadata answer can make us connect to.
	maxBrokers = 2000
)

// discovery is the state of the view's refresh, guarded by [Cluster.mu].
type discovery struct {
	running  bool
	due      int64
	begun    int64 // when the last one began
	unrest   int64 // until when brokers that left are expected back
	failures int
	starved  bool // the last one had no connection; the next has the first there is
	none     bool // the last broker that was asked does not offer Metadata
}

func (d *discovery) interval(now int64) time.Duration {
	if now < d.unrest {
		return refreshUnsettled
	}
	return refreshInterval
}

// hurry makes a refresh due, for brokers may have come or gone; but not at once after
// one that has failed: every trouble would cost a connection more.
func (d *discovery) hurry(now int64) { d.due = min(d.due, max(now, d.begun+int64(refreshPause))) }

// discover begins a refresh if one is due, reports whether it did, and returns when
// the next is. c.mu is held.
func (c *Cluster) discover(now int64) (bool, int64) {
	d := &c.discovery
	switch {
	case d.running:
		return false, now + int64(refreshInterval) // its end wakes us
	case now < d.due:
		return false, d.due
	}
	d.running, d.begun = true, now
	c.work.Add(1)
	go c.refresh()
	return true, now + int64(refreshInterval)
}

// refresh asks a broker for the brokers.
func (c *Cluster) refresh() {
	defer c.work.Done()
	resp, asked, err := c.brokersOfAny()

	c.mu.Lock()
	defer c.mu.Unlock()
	d := &c.discovery
	now := c.clock.now()
	d.running = false
	defer c.wake()
	d.none = KindOf(err) == Unsupported
	if err == nil {
		d.failures = 0
		if c.apply(resp) {
			d.unrest = now + int64(unsettledFor)
		}
		d.due = now + int64(jittered(d.interval(now)))
		return
	}
	d.failures++
	d.starved = !asked
	if d.none { // no trouble: a front without Metadata
		d.due = now + int64(jittered(refreshInterval))
		return
	}
	if KindOf(err) != Exhausted { // those that come back do so one by one
		d.unrest = now + int64(unsettledFor)
	}
	d.due = now + int64(jittered(doubled(backoffBase, d.failures, backoffCap)))
	if heard := c.heard.Load(); heard != 0 && time.Duration(now-heard) > rebootstrapAfter {
		c.rebootstrap("no broker has answered for " + rebootstrapAfter.String())
	}
}

// brokersOfAny asks the first broker to which there is a connection; asked is false
// where there is none.
func (c *Cluster) brokersOfAny() (resp *kafkawire.MetadataResponse, asked bool, err error) {
	lease, err := c.acquire(c.base, wish{}, math.MaxInt) // not refused for a full queue: the view must not age under load
	if err != nil {
		return nil, false, err
	}
	defer lease.Release()
	if lease.conn.versions.metadata < 0 {
		return nil, true, &Error{Kind: Unsupported, Addr: lease.Addr(), Op: "Metadata", Have: kafkawire.VersionRange{Min: -1, Max: -1},
			Want: kafkawire.Supported(kafkawire.APIKeyMetadata), Err: errors.New("the broker does not offer Metadata, so none can be discovered")}
	}
	resp, err = lease.conn.askMetadata(c.base)
	if err != nil {
		c.exchangeFailed(lease.broker, lease.conn, err)
		return nil, true, err
	}
	return resp, true, nil
}

// apply makes the brokers of the answer those that are used, and reports whether
// others are expected: one has left, or none was named, or this is the first answer,
// which does not tell who is away. An answer without any is that of a broker that has
// just started, and is ignored otherwise. c.mu is held.
func (c *Cluster) apply(resp *kafkawire.MetadataResponse) bool {
	named := make(map[*broker]bool, len(resp.Brokers))
	for i := range resp.Brokers {
		m := &resp.Brokers[i]
		if !dialable(m) || len(named) >= maxBrokers || c.closed {
			continue
		}
		b := c.byAddr[endpointKey(m.Host, m.Port)]
		if b == nil {
			b = c.add(m.Host, m.Port)
			c.cfg.Logger.Info("discovered a broker", "broker", b.addr, "node", m.NodeID)
		}
		b.node.Store(m.NodeID)
		b.rack, b.discovered = strings.ToValidUTF8(m.Rack, "?"), true
		named[b] = true
	}
	if len(named) == 0 {
		return true
	}
	expected := c.discovered == 0 || slices.ContainsFunc(c.brokers, func(b *broker) bool { return b.discovered && !named[b] })
	c.keepOnly(named)
	return expected
}

// dialable reports whether the broker has an address that something can listen on, and
// an id: a negative one would be shown as that of no known broker.
func dialable(m *kafkawire.MetadataBroker) bool {
	return m.NodeID >= 0 && IsHost(m.Host) && m.Port >= 1 && m.Port <= 65535
}

// longestHost is RFC 1035, section 2.3.4.
const longestHost = 255

// IsHost refuses what a broker may name as a host and can be no host's name or address,
// what JSON and protobuf could not carry, and what would be more than one word to a
// shell script that reads it. What a broker is called beyond that is its own affair.
func IsHost(s string) bool {
	if s == "" || len(s) > longestHost {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			unprintable := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }
			return utf8.ValidString(s) && !strings.ContainsFunc(s, unprintable)
		}
	}
	return true // as almost all are, and each row of an answer names one
}

// rebootstrap forgets the brokers that were discovered, so that the bootstrap names
// are resolved and asked anew. c.mu is held.
func (c *Cluster) rebootstrap(why string) {
	if c.discovered == 0 {
		return
	}
	c.cfg.Logger.Warn("starting over from the bootstrap addresses", "reason", why)
	c.keepOnly(nil)
	c.discovery.due = 0
}

// keepOnly drains and removes the brokers that are neither named nor bootstrap
// addresses. c.mu is held.
func (c *Cluster) keepOnly(named map[*broker]bool) {
	c.discovered = len(named)
	c.brokers = slices.DeleteFunc(c.brokers, func(b *broker) bool {
		if named[b] {
			return false
		}
		b.discovered = false
		b.node.Store(kafkawire.NoNode)
		b.rack = ""
		if b.bootstrap {
			return false
		}
		b.log.Info("broker left the cluster")
		b.removed = true
		b.leave()
		delete(c.byAddr, endpointKey(b.host, b.port))
		c.drain(b)
		return true
	})
	c.settle()
}

// add begins to know a broker, at a random place in the rotation. c.mu is held, or
// the cluster is not shared yet.
func (c *Cluster) add(host string, port int32) *broker {
	b := c.newBroker(host, port)
	c.byAddr[endpointKey(host, port)] = b
	c.brokers = slices.Insert(c.brokers, rand.IntN(len(c.brokers)+1), b)
	return b
}
