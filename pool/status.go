package pool

import (
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// BrokerStatus is what is known of a broker.
type BrokerStatus struct {
	NodeID int32 // -1: not known
	Host   string
	Port   int32
	Rack   string
	// Reachable: a connection is open and the broker has not failed since.
	Reachable bool
	// FindCoordinator is the version in use with the broker, from the newest
	// connection; nil before the first. FindCoordinatorRange is what the broker offers.
	FindCoordinator      *kafkawire.Version
	FindCoordinatorRange *kafkawire.VersionRange
	// APIVersions is what the broker offers of ApiVersions; {-1, -1} for one that does
	// not have it; nil before the first connection.
	APIVersions *kafkawire.VersionRange
	// Mechanism is the SASL mechanism of the newest connection; empty where it has not
	// authenticated. RenewIn is when that authenticates anew; nil for never (the broker
	// sets no limit).
	Mechanism string
	RenewIn   *time.Duration
	// LastError stays after recovery; nil where there was none.
	LastError *BrokerError
	// Connections that are open; Open is the sum of the others.
	Open, Idle, InUse int
}

// BrokerError is an error met with a broker.
type BrokerError struct {
	Kind    ErrorKind
	Message string
	Time    time.Time
	err     error
}

// Brokers describes the brokers that are known: those discovered, and the bootstrap
// addresses that are not among them. Such an address may stand for a discovered broker
// under another name; it is used only while no discovered broker can be reached.
func (c *Cluster) Brokers() []BrokerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.now()
	all := make([]BrokerStatus, 0, len(c.brokers))
	for _, b := range c.brokers {
		all = append(all, b.status(now))
	}
	return all
}

// Known is how many brokers there are to ask: those discovered, without the bootstrap
// addresses, unless it is these that serve.
func (c *Cluster) Known() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.discovered > 0 && !c.onBootstrap() {
		return c.discovered
	}
	return len(c.brokers)
}

func (b *broker) status(now int64) BrokerStatus {
	s := BrokerStatus{
		NodeID: b.node.Load(), Host: b.host, Port: b.port, Rack: b.rack,
		Reachable: b.up && b.open() > 0 && !b.suspect(now),
		LastError: b.lastError,
		Open:      b.open(), Idle: b.idle, InUse: b.inUse,
	}
	if b.negotiated {
		v := b.versions
		s.FindCoordinator = &v.findCoordinator
		s.FindCoordinatorRange = &v.findCoordinatorRange
		s.APIVersions = &v.apiVersionsRange
		s.Mechanism, s.RenewIn = b.last.Load().session.Load().status(now)
	}
	return s
}

// Stats are counts since the cluster was made, but for the last four, which are of now.
type Stats struct {
	// Acquired counts the leases; Waited how often a caller had to queue for one;
	// Exhausted the callers turned away because all was busy.
	Acquired, Waited, Exhausted int64
	// Dials counts finished attempts to make a connection ready, by outcome: "ok" or
	// the name of an [ErrorKind].
	Dials map[string]int64
	// Retired counts connections that were closed, by reason: broken, reset, stale,
	// idle, lifetime, session, removed, closed.
	Retired map[string]int64
	// Renewals counts the connections that authenticated anew, FailedRenewals those
	// that could not and were replaced.
	Renewals, FailedRenewals int64
	// Requests counts what was sent, with a row for every version that can be spoken.
	Requests []RequestCount

	Idle, InUse, Dialing, Waiting int
}

// Stats is cheap enough for every scrape.
func (c *Cluster) Stats() Stats {
	s := Stats{
		Acquired: c.count.acquired.Load(), Waited: c.count.waited.Load(), Exhausted: c.count.exhausted.Load(),
		Renewals: c.count.renewals.Load(), FailedRenewals: c.count.failedRenewals.Load(),
		Dials: make(map[string]int64, len(kindNames)), Retired: make(map[string]int64, retirements),
		Requests: c.count.requests.list(),
	}
	s.Dials["ok"] = c.count.dials[0].Load()
	for kind := Unreachable; int(kind) < len(kindNames); kind++ {
		s.Dials[kind.String()] = c.count.dials[kind].Load()
	}
	for why := retiredBroken; why < retirements; why++ {
		s.Retired[retirementNames[why]] = c.count.retired[why].Load()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Idle, s.Dialing, s.Waiting = c.idle, c.dialing, c.waiters.Len()
	for _, b := range c.brokers {
		s.InUse += b.inUse
	}
	return s
}
