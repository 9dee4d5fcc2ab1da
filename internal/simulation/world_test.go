package simulation

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/pool"
	"github.com/coordsvc/coordsvc/service"
)

// A world is one run of a plan, in one bubble.
type world struct {
	t       *testing.T
	plan    *plan
	tracing bool
	begin   time.Time
	network *kafkatest.Network
	brokers []*broker
	cluster *pool.Cluster
	finder  *service.Finder

	place      atomic.Uint64 // the order of things: asking and writing
	callers    sync.WaitGroup
	background sync.WaitGroup

	mu         sync.Mutex
	links      map[string]*link // by the client's address
	open       map[string]int
	dials      map[string][]time.Duration // of the last second; and
	losses     map[string][]time.Duration // ends of connections that carried lookups
	events     []event
	violations []string
	tally
}

// tally is what a run was made of.
type tally struct {
	calls, keys, found int
	promised           int // calls that had to succeed
	reasons            map[service.Reason]int
	mostOpen           int
	mostDials          int // within a second, to one broker
	simulated          time.Duration
}

// step is how often the bounds are looked at.
const step = 50 * time.Millisecond

// play runs the plan and returns what was violated.
func play(t *testing.T, p *plan, tracing bool) *world {
	w := &world{
		t: t, plan: p, tracing: tracing, begin: time.Now(), network: kafkatest.NewNetwork(),
		links: map[string]*link{}, open: map[string]int{}, dials: map[string][]time.Duration{}, losses: map[string][]time.Duration{},
	}
	w.reasons = map[service.Reason]int{}
	w.start()
	calls := w.callAll()
	w.watch(calls)
	w.end()
	for _, c := range calls {
		w.judgeLater(c)
	}
	w.simulated = w.now()
	return w
}

func (w *world) start() {
	if w.plan.advertised == advertiseSilent {
		for _, bp := range w.plan.brokers {
			w.network.SetSilent("elsewhere-"+bp.addr(), true)
		}
	}
	for _, bp := range w.plan.brokers {
		w.brokers = append(w.brokers, w.startBroker(bp))
	}
	cfg := w.plan.pool
	cfg.Dial = w.dial
	for _, bp := range w.plan.bootstrapBrokers() {
		cfg.Bootstrap = append(cfg.Bootstrap, bp.addr())
	}
	cluster, err := pool.NewCluster(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.cluster = cluster
	w.cluster.Start()
	w.finder = service.NewFinder(cluster, w.plan.finder)
}

func (w *world) callAll() []*call {
	calls := make([]*call, len(w.plan.calls))
	for i, cp := range w.plan.calls {
		c := &call{callPlan: cp, number: i}
		calls[i] = c
		w.callers.Add(1)
		go func() {
			defer w.callers.Done()
			w.run(c)
			w.add(func(t *tally) { t.calls++ })
		}()
	}
	return calls
}

// watch steps through the plan's time, and on until every caller must be back.
func (w *world) watch(calls []*call) {
	last := w.plan.horizon
	for _, c := range calls {
		last = max(last, c.at+c.timeout+time.Second)
	}
	for w.now() < last {
		time.Sleep(step)
		synctest.Wait()
		if closeAt := w.plan.closeAt; closeAt > 0 && w.now() >= closeAt && w.now() < closeAt+step {
			w.closeFinder()
		}
		w.checkBounds()
	}
	w.mu.Lock()
	returned := w.calls
	w.mu.Unlock()
	if returned < len(calls) {
		w.violate("%d of %d callers hang at %v, a second after the last deadline", len(calls)-returned, len(calls), round(last))
	}
}

// closedBy reports whether the Finder may have been closed by then.
func (w *world) closedBy(at time.Duration) bool { return w.plan.closeAt > 0 && at >= w.plan.closeAt }

// checkBounds looks at the pool while nothing moves.
func (w *world) checkBounds() {
	limit := w.plan.pool.MaxConnectionsPerBroker
	for _, b := range w.cluster.Brokers() {
		if b.Open > limit || b.Idle < 0 || b.InUse < 0 || b.Open != b.Idle+b.InUse {
			w.violate("%s:%d has %d connections: %d idle and %d in use; %d are allowed", b.Host, b.Port, b.Open, b.Idle, b.InUse, limit)
		}
	}
	s := w.cluster.Stats()
	// One acquire may be the refresh of the view, which is never refused. Who was given a
	// connection that turned out to be worn waits again, in addition to the others.
	if most := w.plan.pool.MaxWaiters + 1 + limit*len(w.plan.brokers); s.Waiting > most || s.Waiting < 0 {
		w.violate("%d wait for a connection; %d may", s.Waiting, most)
	}
	// A bubble has no count of its goroutines; the flights are what grows.
	if s.Waiting > maxFlights {
		w.violate("%d flights wait for a connection; there may be %d", s.Waiting, maxFlights)
	}
	known := 2 * len(w.plan.brokers) // real and advertised addresses
	if s.Dialing < 0 || s.Idle < 0 || s.InUse < 0 || s.Idle+s.InUse+s.Dialing > known*limit {
		w.violate("%d connections are idle, %d in use, %d being made, to %d addresses with %d each", s.Idle, s.InUse, s.Dialing, known, limit)
	}
}

// maxFlights is 64 for each of the three key types, and one refresh of the view.
const maxFlights = 3*64 + 1

// end closes everything and checks that nothing is left.
func (w *world) end() {
	w.awaitRest()
	w.closeFinder()
	before := w.now()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := w.cluster.Close(ctx); err != nil {
		w.violate("closing the pool: %v", err)
	}
	if took := w.now() - before; took > 100*time.Millisecond {
		w.violate("closing the pool took %v", took)
	}
	synctest.Wait()
	if s := w.cluster.Stats(); s.Idle != 0 || s.InUse != 0 || s.Dialing != 0 || s.Waiting != 0 {
		w.violate("after Close %d connections are idle, %d in use, %d being made, and %d callers wait", s.Idle, s.InUse, s.Dialing, s.Waiting)
	}
	w.mu.Lock()
	for addr, n := range w.open {
		if n != 0 {
			w.violateLocked("after Close %d connections to %s are open", n, addr)
		}
	}
	w.mu.Unlock()
	for _, b := range w.brokers {
		b.stub.Down()
	}
	w.background.Wait()
}

// awaitRest waits until nothing is in use any more: without callers, flights end
// with the exchange that they are in.
func (w *world) awaitRest() {
	patience := w.plan.finder.RequestTimeout + w.plan.pool.AcquireTimeout + 2*time.Second
	for until := w.now() + patience; ; {
		s := w.cluster.Stats()
		if s.InUse == 0 && s.Waiting == 0 {
			return
		}
		if w.now() > until {
			w.violate("%v after the last caller %d connections are in use and %d wait for one", patience, s.InUse, s.Waiting)
			return
		}
		time.Sleep(step / 4)
		synctest.Wait()
	}
}

func (w *world) closeFinder() {
	before := w.now()
	if err := w.finder.Close(context.Background()); err != nil {
		w.violate("closing the Finder: %v", err)
	}
	if took := w.now() - before; took > tolerance {
		w.violate("closing the Finder took %v", took)
	}
}

func (w *world) now() time.Duration { return time.Since(w.begin) }

func (w *world) sleepUntil(at time.Duration) { time.Sleep(at - w.now()) }

func (w *world) record(e event) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	return len(w.events) - 1
}

func (w *world) event(i int) event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events[i]
}

func (w *world) add(f func(*tally)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.tally)
}

func (t *tally) count(r *service.Result) {
	t.keys++
	if r.Err == nil {
		t.found++
	} else {
		t.reasons[r.Err.Reason]++
	}
}

func (w *world) trace(format string, args ...any) {
	if w.tracing {
		w.t.Logf("%8.3fs %s", w.now().Seconds(), fmt.Sprintf(format, args...))
	}
}

func (w *world) violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violateLocked(format, args...)
}

func (w *world) violateLocked(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf("%.3fs: ", w.now().Seconds())+fmt.Sprintf(format, args...))
}

// report is the violations, the first of them in full.
func (w *world) report() string {
	const shown = 10
	list := w.violations
	if len(list) > shown {
		list = append(list[:shown:shown], fmt.Sprintf("and %d more", len(w.violations)-shown))
	}
	return strings.Join(list, "\n")
}
