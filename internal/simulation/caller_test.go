package simulation

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/service"
)

// tolerance is how much later than its deadline a call may return. Simulated time
// stands still while anybody works, so it is nothing but a tie of timers.
const tolerance = time.Millisecond

// A call is one Find under way, and what it came to.
type call struct {
	*callPlan
	number   int
	place    uint64 // in the order of things, when it was asked
	asked    time.Duration
	answered time.Duration
	results  []service.Result
	copied   []service.Result // at its return
	err      error
}

func (c *call) String() string {
	return fmt.Sprintf("call %d (%d keys of type %v, asked at %v for %v)", c.number, len(c.keys), c.keyType, round(c.asked), round(c.timeout))
}

// ends is when the call must have returned.
func (c *call) ends() time.Duration {
	if c.leaves > 0 {
		return c.asked + min(c.timeout, c.leaves)
	}
	return c.asked + c.timeout
}

// toldLimit is the context of the service's calls: its deadline ends nothing by itself.
type toldLimit struct {
	context.Context
	ends time.Time
}

func (l toldLimit) Deadline() (time.Time, bool) { return l.ends, true }

func (w *world) run(c *call) {
	w.sleepUntil(c.at)
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	if c.leaves > 0 {
		defer time.AfterFunc(c.leaves, cancel).Stop()
	}
	c.asked, c.place = w.now(), w.place.Add(1)
	c.results, c.err = w.finder.Find(toldLimit{ctx, time.Now().Add(c.timeout)}, c.keyType, c.keys)
	c.answered, c.copied = w.now(), slices.Clone(c.results)
	w.trace("%v: answered %v later, error %v", c, round(c.answered-c.asked), c.err)
	w.judge(c)
}

// judge checks one call against the truth.
func (w *world) judge(c *call) {
	if late := c.answered - c.ends(); late > tolerance {
		w.violate("%v returned %v after its time", c, late)
	}
	switch {
	case c.err == nil:
	case errors.Is(c.err, context.Canceled) && c.leaves > 0 && c.answered >= c.ends():
		return
	case errors.Is(c.err, service.ErrFinderClosed) && w.closedBy(c.answered):
		return
	default:
		w.violate("%v failed with %v", c, c.err)
		return
	}
	if len(c.results) != len(c.keys) {
		w.violate("%v has %d results", c, len(c.results))
		return
	}
	if w.mustSucceed(c, c.keys[0]) != "" {
		w.add(func(t *tally) { t.promised++ })
	}
	first := make(map[string]*service.Result)
	for i := range c.results {
		r := &c.results[i]
		if r.Key != c.keys[i] {
			w.violate("%v: result %d is for %q, not for %q", c, i, r.Key, c.keys[i])
			continue
		}
		w.judgeResult(c, r)
		if same := first[r.Key]; same != nil && (same.Coordinator != r.Coordinator || (same.Err == nil) != (r.Err == nil)) {
			w.violate("%v: %q has two answers, %v and %v", c, r.Key, same.Coordinator, r.Coordinator)
		}
		first[r.Key] = r
	}
}

// judgeLater checks at the end that the results are the caller's alone since its return.
func (w *world) judgeLater(c *call) {
	if !slices.Equal(c.results, c.copied) {
		w.violate("%v: its results were changed after it had them", c)
	}
}

func (w *world) judgeResult(c *call, r *service.Result) {
	w.add(func(t *tally) { t.count(r) })
	if r.Err == nil {
		w.judgeCoordinator(c, r)
		return
	}
	if r.Coordinator != (service.Coordinator{}) {
		w.violate("%v: %q has a coordinator and an error", c, r.Key)
	}
	if mark := marks.FindString(r.Err.Detail); mark != "" {
		w.judgeWitness(c, r, mark)
	}
	if w.closedBy(c.answered) {
		return
	}
	if refused := refusals[c.keyType]; strings.HasPrefix(r.Key, deniedPrefix) && r.Err.Code == refused && r.Err.Kafka ||
		strings.HasPrefix(r.Key, malformedPrefix) && r.Err.Code == kafkawire.ErrInvalidRequest && r.Err.Kafka {
		return
	}
	if early := c.ends() - c.answered; early > tolerance {
		w.judgeEarly(c, r)
		return
	}
	if why := w.mustSucceed(c, r.Key); why != "" {
		w.violate("%v: %q failed with %s (%s) at %v, although %s", c, r.Key, r.Err.Reason, r.Err.Detail, round(c.answered), why)
	}
}

// judgeCoordinator checks a coordinator twice: against the record of leaders, which
// knows nothing of requests, and against the request that it claims to come from.
func (w *world) judgeCoordinator(c *call, r *service.Result) {
	is := func(g reign) bool { return g.node == r.Coordinator.NodeID }
	if !w.plan.truth.ever(c.keyType, r.Key, span{c.asked, c.answered}, is) {
		w.violate("%v: node %d was no coordinator of %q between %v and %v (answered by %s with %s)",
			c, r.Coordinator.NodeID, r.Key, c.asked, c.answered, r.AnsweredBy, r.Coordinator.Host)
	}
	if strings.HasPrefix(r.Key, deniedPrefix) || strings.HasPrefix(r.Key, malformedPrefix) {
		w.violate("%v: %q has a coordinator, which no broker ever named", c, r.Key)
	}
	w.judgeWitness(c, r, r.Coordinator.Host)
}

func (w *world) judgeWitness(c *call, r *service.Result, mark string) {
	at, key, ok := parseWitness(mark)
	if !ok {
		w.violate("%v: %q was answered with %q, which no broker said", c, r.Key, mark)
		return
	}
	e := w.event(at)
	switch {
	case key != hash(c.keyType, r.Key):
		w.violate("%v: %q got the answer to another key (event %d of broker %d at %v)", c, r.Key, at, e.broker, e.at)
	case e.lie:
		w.violate("%v: %q got the answer of a wrong correlation id (event %d of broker %d at %v)", c, r.Key, at, e.broker, e.at)
	case e.written < c.place:
		w.violate("%v: %q was answered from a request that was written before it asked (event %d of broker %d at %v)", c, r.Key, at, e.broker, e.at)
	}
}

// judgeEarly checks a failure that did not wait for the deadline.
func (w *world) judgeEarly(c *call, r *service.Result) {
	if r.Err.Retriable {
		w.violate("%v: %q gave up with %s (%s) after %v", c, r.Key, r.Err.Reason, r.Err.Detail, round(c.answered-c.asked))
		return
	}
	n := w.plan.recovery()
	if !strings.HasPrefix(r.Err.Detail, "acquire: ") { // nothing had to be dialled or found out
		n = 2 * time.Second
	}
	switch r.Err.Reason {
	case service.ReasonUnsupportedKeyType, service.ReasonNotAKafkaBroker, "UNSUPPORTED_VERSION":
		for _, bp := range w.plan.bootstrapBrokers() {
			if w.canServe(bp, c.keyType) && bp.well(span{c.asked - n, c.answered}) && c.asked >= n {
				w.violate("%v: %q failed with %s (%s), although broker %d was well", c, r.Key, r.Err.Reason, r.Err.Detail, bp.node)
			}
		}
	default:
		w.violate("%v: %q failed with %s (%s), which no broker said", c, r.Key, r.Err.Reason, r.Err.Detail)
	}
}

// mustSucceed returns why a key should have its coordinator at the end of the call;
// "" where nothing says so.
func (w *world) mustSucceed(c *call, key string) string {
	n := w.plan.recovery()
	deadline := c.ends()
	if c.leaves > 0 || w.closedBy(deadline) {
		return ""
	}
	hasLeader := func(s span) bool {
		return !w.plan.truth.ever(c.keyType, key, s, func(g reign) bool { return g.code != kafkawire.ErrNone })
	}
	// One broker was well for long enough.
	if last := (span{deadline - n, deadline}); c.timeout >= n && hasLeader(last) {
		for _, bp := range w.plan.bootstrapBrokers() {
			if w.canServe(bp, c.keyType) && bp.well(last) && w.plan.load(bp, span{c.asked, deadline}) < n/8 {
				return fmt.Sprintf("broker %d was well for the %v before its deadline", bp.node, round(n))
			}
		}
	}
	// All brokers were well since long before.
	if c.asked < n || !hasLeader(span{c.asked, deadline}) {
		return ""
	}
	able := false
	for _, bp := range w.plan.brokers {
		if !bp.well(span{c.asked - n, deadline}) || w.plan.load(bp, span{c.asked - n, deadline}) > c.timeout/8 || bp.trip() > c.timeout/8 {
			return ""
		}
	}
	for _, bp := range w.plan.bootstrapBrokers() {
		able = able || w.canServe(bp, c.keyType)
	}
	if !able {
		return ""
	}
	return fmt.Sprintf("all brokers were well for %v before it asked", round(n))
}

// canServe reports whether the broker carries keys of the type, and the pool may know
// it: a broker whose very first connections met closes and silence is taken for one
// of before 0.10 for ten minutes, and asked for groups alone.
func (w *world) canServe(bp *brokerPlan, t kafkawire.KeyType) bool {
	mistaken := t != kafkawire.KeyTypeGroup && w.brokers[bp.node-1].mistaken.Load()
	return bp.carries(t) && !mistaken
}

// recovery is how long a healthy broker may take to serve a call again, whatever was
// wrong before:
//
//   - a dial that fell into silence ends: three dials, with the waits for ApiVersions
//   - then the backoff of the broker, at most 1.2 s
//   - an exchange that fell into silence ends, perhaps on its only connection
//   - then the pause before the retry, at most 1.2 s
//   - and the exchange itself, and its queue.
func (p *plan) recovery() time.Duration {
	dials := 3*p.pool.DialTimeout + min(2*time.Second, p.pool.DialTimeout)
	return dials + 1200*time.Millisecond + p.finder.RequestTimeout + 1200*time.Millisecond + time.Second
}

// load is how long a broker would need on one connection for everything that is
// asked in that time.
func (p *plan) load(b *brokerPlan, s span) time.Duration {
	var total time.Duration
	for _, c := range p.calls {
		if !s.overlaps(span{c.at, c.at + c.timeout}) {
			continue
		}
		n := time.Duration(len(c.keys))
		if b.find.Max >= 4 {
			total += (n/time.Duration(p.finder.ChunkKeys) + 1) * b.trip()
		}
		if b.find.Max < 4 || p.cursed {
			total += n*b.service + (n/time.Duration(p.finder.PipelineWindow)+1)*b.trip()
		}
	}
	return total
}

func (b *brokerPlan) trip() time.Duration { return 2*b.wire + b.service }

func (p *plan) bootstrapBrokers() []*brokerPlan {
	list := make([]*brokerPlan, len(p.bootstrap))
	for i, at := range p.bootstrap {
		list[i] = p.brokers[at]
	}
	return list
}

// refusals are what Kafka says to those without the ACL.
var refusals = map[kafkawire.KeyType]kafkawire.ErrorCode{
	kafkawire.KeyTypeGroup:       kafkawire.ErrGroupAuthorizationFailed,
	kafkawire.KeyTypeTransaction: kafkawire.ErrTransactionalIDAuthorizationFailed,
	kafkawire.KeyTypeShare:       kafkawire.ErrClusterAuthorizationFailed,
}

// refusal is the error that the broker has for a key for good.
func (*broker) refusal(r *kafkatest.Request, key string) kafkawire.ErrorCode {
	for _, k := range r.Keys {
		if strings.HasPrefix(k, malformedPrefix) {
			return kafkawire.ErrInvalidRequest // one such key fails all
		}
	}
	if strings.HasPrefix(key, deniedPrefix) {
		return refusals[r.KeyType]
	}
	return kafkawire.ErrNone
}

// An event is one answer of a broker.
type event struct {
	broker  int32
	at      time.Duration
	written uint64 // the request's place in the order of things
	lie     bool   // it was sent with a wrong correlation id
}

// witness marks an answer with its event and its key, as a host name.
func witness(e int, keyType kafkawire.KeyType, key string) string {
	return fmt.Sprintf("e%d.k%x.sim", e, hash(keyType, key))
}

var marks = regexp.MustCompile(`e[0-9]+\.k[0-9a-f]+\.sim`)

func parseWitness(mark string) (event int, key uint64, ok bool) {
	e, rest, found := strings.Cut(strings.TrimPrefix(mark, "e"), ".k")
	k, isMark := strings.CutSuffix(rest, ".sim")
	event, err := strconv.Atoi(e)
	key, err2 := strconv.ParseUint(k, 16, 64)
	return event, key, found && isMark && err == nil && err2 == nil
}
