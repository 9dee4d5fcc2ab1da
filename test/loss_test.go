package test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
)

const (
	// lossCallers ask at the same time.
	lossCallers = 32
	// lossRequestTimeout is the service's kafka.request-timeout.
	lossRequestTimeout = 2 * time.Second
	// lossSlack is what a busy machine may add to a time.
	lossSlack = 250 * time.Millisecond
	// staleFor is how long after the cluster knows of a new coordinator the old one
	// may still be named.
	staleFor = 2 * time.Second
	// pollTimeout is how long the oracle waits for a broker: one that is paused while
	// it is asked must not keep the oracle from the others.
	pollTimeout = time.Second
	// slow is what no call takes that meets only live brokers on an idle machine.
	slow = 500 * time.Millisecond
)

// A stay is a time during which a node coordinated a key; until is zero for now.
type stay struct {
	node        int32
	from, until time.Time
}

// An oracle asks live brokers, in raw bytes, who coordinates the keys, and keeps the history.
type oracle struct {
	keys []string

	mu    sync.Mutex
	asked map[string]time.Time // the live brokers, and when each was last asked
	stays map[string][]stay
	polls int
}

// watch asks the live brokers in turn, every 50 ms, until ctx ends.
func (o *oracle) watch(ctx context.Context) {
	for turn := 0; ctx.Err() == nil; turn++ {
		o.mu.Lock()
		addrs := slices.Sorted(maps.Keys(o.asked))
		o.mu.Unlock()
		addr, begin := addrs[turn%len(addrs)], time.Now()
		poll, cancel := context.WithTimeout(ctx, pollTimeout)
		if found, err := kafkatest.RawFindAll(poll, addr, 6, 0, o.keys); err == nil {
			o.record(addr, found, begin)
		}
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// record takes what a broker said. A change may have come at any time since every
// broker was last known to say otherwise.
func (o *oracle) record(addr string, found []kafkatest.RawCoordinator, begin time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.polls++
	earliest := begin
	for _, at := range o.asked {
		if at.Before(earliest) {
			earliest = at
		}
	}
	if _, live := o.asked[addr]; live {
		o.asked[addr] = begin
	}
	for i, f := range found {
		stays := o.stays[o.keys[i]]
		if f.Code != 0 || len(stays) > 0 && stays[len(stays)-1].node == f.Node {
			continue
		}
		if len(stays) > 0 {
			stays[len(stays)-1].until = time.Now()
		}
		o.stays[o.keys[i]] = append(stays, stay{node: f.Node, from: earliest})
	}
}

// ask is told which brokers are live.
func (o *oracle) ask(brokers ...*kafkatest.Broker) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.asked
	o.asked = map[string]time.Time{}
	for _, b := range brokers {
		o.asked[b.Addr()] = before[b.Addr()]
		if o.asked[b.Addr()].IsZero() {
			o.asked[b.Addr()] = time.Now()
		}
	}
}

// coordinates counts the keys that the cluster says are a node's.
func (o *oracle) coordinates(node int32) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, stays := range o.stays {
		if stays[len(stays)-1].node == node {
			n++
		}
	}
	return n
}

// agrees says whether node coordinated key at a moment between the question and its
// answer, by what was known to the brokers: they do not learn of a change all at once.
func (o *oracle) agrees(key string, node int32, asked, answered time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.stays[key] {
		if s.node == node && !s.from.After(answered) && (s.until.IsZero() || asked.Before(s.until.Add(staleFor))) {
			return true
		}
	}
	return false
}

// An odd answer is judged once the oracle knows more.
type oddAnswer struct {
	key             string
	node            int32
	asked, answered time.Time
}

// A slowCall is one that took longer than slow.
type slowCall struct {
	asked time.Time
	took  time.Duration
}

func (c slowCall) String() string { return fmt.Sprintf("%s+%v", c.asked.Format("05.000"), c.took) }

// witnesses are what the callers saw.
type witnesses struct {
	failures failures

	mu         sync.Mutex
	calls      int
	odd        []oddAnswer
	slow       [lossCallers][]slowCall // calls that took longer than slow, since forget
	slowest    time.Duration           // since forget
	answeredBy map[string]time.Time
}

func (w *witnesses) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow, w.slowest = [lossCallers][]slowCall{}, 0
}

func (w *witnesses) lastAnswer(addr string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answeredBy[addr]
}

func (w *witnesses) take(o *oracle, caller int, asked time.Time, resp *coordsvcv1.FindCoordinatorsResponse, err error) {
	now := time.Now()
	if err != nil {
		w.failures.add("the call failed as a whole after %v: %v", now.Sub(asked), err)
	}
	var odd []oddAnswer
	for _, r := range resp.GetResults() {
		if r.GetError() != nil {
			w.failures.add("%s after %v: %v", r.GetKey(), now.Sub(asked), r.GetError())
			continue
		}
		if node := r.GetCoordinator().GetNodeId(); !o.agrees(r.GetKey(), node, asked, now) {
			odd = append(odd, oddAnswer{r.GetKey(), node, asked, now})
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	w.odd = append(w.odd, odd...)
	for _, r := range resp.GetResults() {
		w.answeredBy[r.GetAnsweredBy()] = now
	}
	took := now.Sub(asked)
	w.slowest = max(w.slowest, took)
	if took > slow {
		w.slow[caller] = append(w.slow[caller], slowCall{asked, took})
	}
}

// TestKafkaBrokersLostUnderLoad loses one of three brokers in every way, one after
// the other, while 32 callers ask.
func TestKafkaBrokersLostUnderLoad(t *testing.T) {
	kafkatest.RequireReal(t, "4.4.0")
	cluster := kafkatest.Start(t, kafkatest.Options{Version: "4.4.0", Brokers: 3, SessionTimeout: 3 * time.Second})
	require.NoError(t, cluster.Warm(t.Context()))
	service := serve(t, cluster.Bootstrap(), "--kafka-request-timeout", lossRequestTimeout.String(), "--log-level", "debug")
	service.ready(t)
	l := &loss{
		cluster: cluster, service: service, client: service.client(t),
		oracle:    &oracle{keys: kafkatest.WellFormedKeys(0, "lost", 60), stays: map[string][]stay{}},
		witnesses: &witnesses{answeredBy: map[string]time.Time{}},
	}
	t.Cleanup(func() {
		if t.Failed() {
			file := filepath.Join(cluster.Dir(), "coordsvc.log")
			t.Logf("the service's log is in %s (%v)", file, os.WriteFile(file, []byte(service.logged()), 0o644))
		}
	})
	l.oracle.ask(cluster.Brokers()...)
	var watching sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	watching.Go(func() { l.oracle.watch(ctx) })
	watching.Go(func() { l.watchConnections(ctx) })
	defer watching.Wait()
	defer cancel()

	before := descriptors(t, service)
	load := startLoad(t, lossCallers, 30*time.Millisecond, l.ask)
	time.Sleep(time.Second)

	l.lose(t, cluster.Broker(1), "killed", func(b *kafkatest.Broker) error { b.Kill(); return nil },
		func(b *kafkatest.Broker) error { return b.Restart(t.Context()) }, l.nobodyWaits)
	l.lose(t, cluster.Broker(2), "stopped", (*kafkatest.Broker).Stop,
		func(b *kafkatest.Broker) error { return b.Restart(t.Context()) }, l.nobodyWaits)
	l.lose(t, cluster.Broker(3), "paused", (*kafkatest.Broker).Pause, (*kafkatest.Broker).Resume, l.eachWaitsOnce)
	l.lose(t, cluster.Broker(1), "restarted", func(b *kafkatest.Broker) error { return b.Restart(t.Context()) }, nil, l.nobodyWaits)

	load.stop()
	l.witnesses.failures.report(t)
	t.Logf("%d calls, %d polls of the oracle", l.witnesses.calls, l.oracle.polls)
	for _, odd := range l.witnesses.odd {
		require.True(t, l.oracle.agrees(odd.key, odd.node, odd.asked, odd.answered), "%v is not what the cluster says: %v", odd, l.oracle.stays[odd.key])
	}
	l.countDials(t)
	require.Eventually(t, func() bool { return descriptors(t, service) <= before+3*maxConnections }, 5*time.Second, 100*time.Millisecond,
		"descriptors: %d before the load, %d after it", before, descriptors(t, service))
}

// maxConnections is the default of pool.max-connections-per-broker.
const maxConnections = 4

// loss is a cluster that loses brokers, and those who watch.
type loss struct {
	cluster   *kafkatest.Cluster
	service   *process
	client    coordsvcv1.CoordinatorServiceClient
	oracle    *oracle
	witnesses *witnesses

	down    time.Duration // how long brokers were away, in sum
	returns int           // how often one came back
}

// ask asks for ten of the keys.
func (l *loss) ask(ctx context.Context, caller int) {
	begin := time.Now()
	keys := make([]string, 10)
	for i := range keys {
		keys[i] = l.oracle.keys[(caller*7+i*5)%len(l.oracle.keys)]
	}
	resp, err := l.client.FindCoordinators(ctx, &coordsvcv1.FindCoordinatorsRequest{Keys: keys})
	l.witnesses.take(l.oracle, caller, begin, resp, err)
}

// lose takes a broker away, waits until the cluster has moved its keys, looks at what
// that did to the callers, and brings it back.
func (l *loss) lose(t *testing.T, b *kafkatest.Broker, how string, away, back func(*kafkatest.Broker) error, check func(*testing.T, string)) {
	t.Helper()
	require.Positive(t, l.oracle.coordinates(b.ID), "broker %d coordinates no key, so losing it proves nothing", b.ID)
	l.oracle.ask(slices.DeleteFunc(slices.Clone(l.cluster.Brokers()), func(other *kafkatest.Broker) bool { return other == b })...)
	l.witnesses.forget()
	begin := time.Now()
	require.NoError(t, away(b))
	require.Eventually(t, func() bool { return l.oracle.coordinates(b.ID) == 0 }, time.Minute, 20*time.Millisecond,
		"the keys of the broker that was %s do not move", how)
	moved := time.Since(begin)
	time.Sleep(staleFor + time.Second)
	check(t, how)
	if back != nil {
		require.NoError(t, back(b))
	}
	l.down += time.Since(begin)
	l.returns++
	returned := time.Now()
	l.oracle.ask(l.cluster.Brokers()...)
	require.Eventually(t, func() bool { return l.witnesses.lastAnswer(b.Addr()).After(returned) }, 15*time.Second, 20*time.Millisecond,
		"broker %d is not used again after it was %s", b.ID, how)
	again := time.Since(returned)
	require.Eventually(t, func() bool { return inSync(b.Addr(), 3) == nil }, time.Minute, 100*time.Millisecond)
	l.witnesses.mu.Lock()
	defer l.witnesses.mu.Unlock()
	t.Logf("broker %d %s: its keys moved after %.1f s; the slowest call took %.2f s, %d callers met a slow one; used again %.1f s after its return",
		b.ID, how, moved.Seconds(), l.witnesses.slowest.Seconds(), callersWith(l.witnesses.slow), again.Seconds())
}

func callersWith(calls [lossCallers][]slowCall) int {
	n := 0
	for _, c := range calls {
		if len(c) > 0 {
			n++
		}
	}
	return n
}

// nobodyWaits is for a broker whose end the operating system tells of.
func (l *loss) nobodyWaits(t *testing.T, how string) {
	t.Helper()
	w := l.witnesses
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Less(t, w.slowest, lossRequestTimeout, "with a broker %s: %v", how, w.slow)
}

// eachWaitsOnce is for a broker that goes silent: it costs each caller one request
// timeout at the most.
func (l *loss) eachWaitsOnce(t *testing.T, how string) {
	t.Helper()
	w := l.witnesses
	w.mu.Lock()
	defer w.mu.Unlock()
	for caller, calls := range w.slow {
		var sum time.Duration
		for _, c := range calls {
			sum += c.took
		}
		require.LessOrEqual(t, sum, lossRequestTimeout+lossSlack, "caller %d, with a broker %s: %v", caller, how, calls)
	}
}

// watchConnections asks ten times a second how many connections there are.
func (l *loss) watchConnections(ctx context.Context) {
	for ctx.Err() == nil {
		if list, err := l.client.ListBrokers(ctx, &coordsvcv1.ListBrokersRequest{}); err == nil {
			for _, b := range list.GetBrokers() {
				if b.GetConnections().GetOpen() > maxConnections {
					l.witnesses.failures.add("%d connections to broker %d", b.GetConnections().GetOpen(), b.GetNodeId())
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// countDials counts, in the log, the dials that succeeded and those that failed.
func (l *loss) countDials(t *testing.T) {
	t.Helper()
	made := strings.Count(l.service.logged(), `"msg":"connected"`)
	refused := strings.Count(l.service.logged(), `"msg":"broker cannot be connected to"`)
	t.Logf("%d connections made, %d dials failed; brokers were away for %.0f s in sum and came back %d times", made, refused, l.down.Seconds(), l.returns)
	// All places to each broker may be filled once at the beginning, and once more
	// for each return; each may lose one in between to whatever ends connections.
	require.LessOrEqual(t, made, 2*maxConnections*(len(l.cluster.Brokers())+l.returns))
	// The backoff is 100 ms, doubling to 1 s, moved by a fifth: four quick dials an
	// outage, then one in 0.8 s at the most.
	require.LessOrEqual(t, refused, 4*l.returns+int(l.down.Seconds()/0.8))
}

// descriptors counts the open files of a process.
func descriptors(t *testing.T, p *process) int {
	t.Helper()
	open, err := os.ReadDir(filepath.Join("/proc", fmt.Sprint(p.cmd.Process.Pid), "fd"))
	require.NoError(t, err)
	return len(open)
}
