package pool

import (
	"sync/atomic"
	"time"
)

// clock counts nanoseconds from one start for the whole cluster. It is never 0,
// which stands for "not yet".
type clock struct{ start time.Time }

func (c clock) now() int64 { return int64(time.Since(c.start)) + 1 }

func (c clock) at(t time.Time) int64 { return int64(t.Sub(c.start)) + 1 }

// A pulse tells when a broker was last heard, and whether it owes an answer. The
// connections feel it without a lock.
type pulse struct {
	clock    clock
	waiting  atomic.Int32  // exchanges under way
	progress atomic.Int64  // when the first of them began, or the last answer came
	last     atomic.Int64  // when the last answer came
	cluster  *atomic.Int64 // when any broker's last answer on a ready connection came
	requests *requestCounts
}

func (p *pulse) begin() {
	if p.waiting.Load() == 0 { // before it is raised, or the silence since the last exchange would count
		p.progress.Store(p.clock.now())
	}
	p.waiting.Add(1)
}

func (p *pulse) end() { p.waiting.Add(-1) }

// heard notes an answer. One to a connection that is not ready yet tells that the
// broker lives, not that lookups can be made: it may be about to refuse a password.
func (p *pulse) heard(ready bool) {
	now := p.clock.now()
	p.progress.Store(now)
	p.last.Store(now)
	if ready {
		p.cluster.Store(now)
	}
}

// silentFor is how long the broker has owed an answer, over all its connections.
func (p *pulse) silentFor(now int64) time.Duration {
	if p.waiting.Load() == 0 {
		return 0
	}
	return time.Duration(now - p.progress.Load())
}
