package pool

import "sync/atomic"

// retirement is why a connection is no longer used.
type retirement uint8

const (
	kept retirement = iota
	retiredBroken
	retiredReset
	retiredStale
	retiredIdle
	retiredLifetime
	retiredSession
	retiredRemoved
	retiredClosed
	retirements
)

var retirementNames = [retirements]string{
	retiredBroken:   "broken",   // an exchange failed or was given up on it
	retiredReset:    "reset",    // another connection to the broker was lost
	retiredStale:    "stale",    // the broker closed it while it was idle
	retiredIdle:     "idle",     // it was idle for MaxIdleTime
	retiredLifetime: "lifetime", // it lived for MaxLifetime
	retiredSession:  "session",  // it could not be authenticated anew, or was not in time
	retiredRemoved:  "removed",  // the broker left the cluster
	retiredClosed:   "closed",   // the pool was closed
}

// counters are what [Cluster.Stats] shows.
type counters struct {
	acquired  atomic.Int64
	waited    atomic.Int64
	exhausted atomic.Int64
	dials     [len(kindNames)]atomic.Int64 // by ErrorKind; 0 is success
	retired   [retirements]atomic.Int64
	requests  requestCounts

	renewals, failedRenewals atomic.Int64 // of sessions
}

// dial counts a finished attempt. One that the pool's end cut short has no kind.
func (n *counters) dial(err error) {
	kind := KindOf(err)
	if err != nil && kind == 0 {
		kind = Closed
	}
	n.dials[kind].Add(1)
}

// staleAfter is how long a connection must have been idle to be looked at before
// it is used again. Below it the look would cost more than it finds.
const staleAfter = 10e6 // nanoseconds

// blindAfter is the same for a transport that cannot be looked at without reading.
const blindAfter = 1e9

// worn returns why an idle connection should not be used, or kept.
func (c *conn) worn(now int64, cfg *Config) retirement {
	idle := now - c.idle
	switch {
	case now > c.expires:
		return retiredLifetime
	case c.session.Load().over(now):
		return retiredSession
	case idle > int64(cfg.MaxIdleTime):
		return retiredIdle
	case idle > staleAfter && c.stale(idle):
		return retiredStale
	default:
		return kept
	}
}
