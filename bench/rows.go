package main

import (
	"context"
	"fmt"
	"math"
)

// judged has the row say where the CPU time of coordsvc goes if its target is missed.
func (b *bench) judged(c *cluster, x *contender, l load, r row) row {
	if b.smoke || len(r.ours) == 0 || !r.missed() {
		return r
	}
	b.progress("profile: %s", r.what)
	shares, err := cpuShares(c, x, l)
	if err != nil {
		r.profile = "not known: " + err.Error()
		return r
	}
	r.profile = sentence(shares)
	return r
}

func (b *bench) load(callers, keys int) load { return load{callers, keys, b.duration} }

// onBatched is rows 2, 3 and 4 on Kafka 4.4.0.
func (b *bench) onBatched(ctx context.Context) error {
	c, err := b.cluster(ctx, batchedRelease, true)
	if err != nil {
		return err
	}
	defer c.stop()
	if err := b.warmJVM(c); err != nil {
		return err
	}
	for _, part := range []struct {
		row string
		run func(*cluster) error
	}{{"2", b.oneCaller}, {"4", b.bulkBatched}, {"3", b.manyCallers}} { // 4 before 3: it says what a key in a large request costs
		if !b.wants(part.row) {
			continue
		}
		if err := part.run(c); err != nil {
			return err
		}
	}
	return nil
}

// oneCaller is row 2.
func (b *bench) oneCaller(c *cluster) error {
	t := &team{b: b, c: c}
	defer t.stop()
	ours := t.coordsvc("coordsvc, gRPC", 1, logQuiet...)
	rest := t.rest("coordsvc, REST")
	kgo := t.direct("direct kgo", 1, false)
	noop := t.service(noopService, 1)
	kadm := t.service(kadmService, 1)
	single := t.oneThread(1)
	inTurn := t.inTurn(noop, kgo)
	if t.err != nil {
		return t.err
	}
	r, err := b.compare("one caller, one key", c, b.load(1, 1), c.keyset, ours, rest, kgo, noop, kadm, single, inTurn)
	if err != nil {
		return err
	}
	add := b.report.section("2", "One caller, one key a call ("+c.name+")")
	floor := r.of(noop, p50).plus(r.of(kgo, p50))
	add(b.judged(c, ours, b.load(1, 1), compared("gRPC: p50, ms", "no-op gRPC + direct kgo", r.of(ours, p50), floor).aims(atMost(1.15),
		fmt.Sprintf("the sum itself, of medians that were measured apart: the same two calls, made in turn by one caller, take %s times that sum, and coordsvc %s times "+
			"those two. Who is asked again at once answers sooner than who is left to rest meanwhile, as the brokers' CPU time a key shows. The rest is waking: each "+
			"message finds a thread that sleeps in the kernel, and gRPC takes a call through three goroutines, for each of which Go wakes a second thread in case it "+
			"has time: see what GOMAXPROCS=1 saves", number(r.of(inTurn, p50).over(floor).median()), number(r.of(ours, p50).over(r.of(inTurn, p50)).median())),
		"GOMAXPROCS=1 where one core is enough for an instance; more keys a call, or more callers at a time, since the cost is a call's and not a key's; "+
			"a transport with fewer goroutines than grpc-go's")))
	add(compared("gRPC: p50, ms", inTurn.name, r.of(ours, p50), r.of(inTurn, p50)))
	add(compared("gRPC: brokers' CPU, µs a key", inTurn.name, r.of(ours, brokersCPU), r.of(inTurn, brokersCPU)))
	add(compared("gRPC, GOMAXPROCS=1: p50, ms", "no-op gRPC + direct kgo", r.of(single, p50), floor))
	add(compared("gRPC, GOMAXPROCS=1: service CPU, µs a key", "coordsvc, gRPC", r.of(single, serverCPU), r.of(ours, serverCPU)))
	add(compared("gRPC: brokers' CPU, µs a key", "direct kgo", r.of(ours, brokersCPU), r.of(kgo, brokersCPU)))
	add(compared("gRPC: p50, ms", "direct kgo", r.of(ours, p50), r.of(kgo, p50)))
	add(compared("gRPC: p50, ms", kadmService, r.of(ours, p50), r.of(kadm, p50)))
	add(compared("gRPC: p50, ms", noopService, r.of(ours, p50), r.of(noop, p50)))
	add(compared("gRPC: p99, ms", kadmService, r.of(ours, p99), r.of(kadm, p99)))
	add(compared("gRPC: service CPU, µs a key", kadmService, r.of(ours, serverCPU), r.of(kadm, serverCPU)))
	add(compared("REST: p50, ms", "direct kgo", r.of(rest, p50), r.of(kgo, p50)))
	add(compared("REST: p50, ms", "coordsvc, gRPC", r.of(rest, p50), r.of(ours, p50)))
	return nil
}

// manyCallers is row 3.
func (b *bench) manyCallers(c *cluster) error {
	for _, callers := range []int{64, 256} {
		if err := b.callers(c, callers); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) callers(c *cluster, callers int) error {
	t := &team{b: b, c: c}
	defer t.stop()
	ours := t.coordsvc("coordsvc", connectionsOfCallers, logQuiet...)
	kadm := t.service(kadmService, connectionsOfCallers)
	kgoSvc := t.service(kgoService, connectionsOfCallers)
	direct := t.direct("direct kgo clients", callers, false)
	noop := t.service(noopService, connectionsOfCallers)
	inTurn := t.inTurn(noop, direct)
	single := t.oneThread(connectionsOfCallers)
	logged := t.coordsvc("coordsvc, log.level info", connectionsOfCallers)
	if t.err != nil {
		return t.err
	}
	l := b.load(callers, 1)
	r, err := b.compare(fmt.Sprintf("%d callers, one key", callers), c, l, c.keyset, ours, kadm, kgoSvc, direct, noop, inTurn, single, logged)
	if err != nil {
		return err
	}
	atRest, err := c.brokersAtRest(b.duration)
	if err != nil {
		return err
	}
	resting := atRest / r.of(ours, keysPerSecond).median()
	var faster, fewer *target
	if callers == 64 {
		faster, fewer = atLeast(2.5), atMost(0.2)
	}
	add := b.report.section("3", fmt.Sprintf("%d callers, one key a call, all different (%s)", callers, c.name))
	for _, x := range []*contender{kadm, kgoSvc, direct, noop, inTurn} {
		add(b.judged(c, ours, l, compared(string(keysPerSecond), x.name, r.of(ours, keysPerSecond), r.of(x, keysPerSecond)).aims(onlyFor(x == kadm, faster),
			"gRPC itself: compare with the no-op service, which is all that the cores can do beside the callers; and idle cores: where a thread wakes another "+
				"on few cores that are busy, Linux leaves it behind the one that woke it although another core has nothing to do (seen with perf sched). "+
				r.budget(ours, kadm)+". A coordsvc that cost no more CPU time than the no-op service, with all else as it is, would come to "+
				number(r.beside(kadm).plus(r.of(kadm, serverCPU)).over(r.beside(ours).plus(r.of(noop, serverCPU))).median())+" times the kadm service; "+
				"clients that ask Kafka themselves, with no service at all, come to "+number(r.of(direct, keysPerSecond).over(r.of(kadm, keysPerSecond)).median()),
			"more cores, or more keys a call")))
	}
	for _, x := range []*contender{kadm, kgoSvc, direct} {
		add(compared(string(brokersCPU), x.name, r.of(ours, brokersCPU), r.of(x, brokersCPU)).aims(onlyFor(x == kadm, fewer),
			"what Kafka spends on each key of a request, however many share it (compare with the brokers' CPU a key of bulk calls), and what the brokers spend "+
				"when nobody asks: "+number(resting)+" µs a key at this rate"+b.enough(r, callers, ours, x, resting, fewer),
			"more callers: a batch has what is asked while the one before is under way; waiting longer for more would make each caller wait"))
		add(compared(string(requestsPer), x.name, r.of(ours, requestsPer), r.of(x, requestsPer)).aims(onlyFor(x == kadm, fewer),
			"how many ask during one exchange with a broker", "more callers"))
	}
	for _, x := range []*contender{kadm, kgoSvc, noop} {
		add(compared(string(serverCPU), x.name, r.of(ours, serverCPU), r.of(x, serverCPU)))
	}
	for _, x := range []*contender{kadm, noop} {
		add(compared(string(callersCPU), x.name, r.of(ours, callersCPU), r.of(x, callersCPU)))
	}
	for _, x := range []*contender{kadm, direct, noop} {
		add(compared(string(idleCPU), x.name, r.of(ours, idleCPU), r.of(x, idleCPU)))
	}
	for _, f := range []figure{keysPerSecond, serverCPU} {
		add(compared("GOMAXPROCS=1: "+string(f), ours.name, r.of(single, f), r.of(ours, f)))
	}
	add(compared("log.level info, a line a call: "+string(keysPerSecond), kadm.name, r.of(logged, keysPerSecond), r.of(kadm, keysPerSecond)))
	add(compared("log.level info, a line a call: "+string(serverCPU), ours.name, r.of(logged, serverCPU), r.of(ours, serverCPU)))
	for _, f := range []figure{p50, p99} {
		add(compared(string(f), kadm.name, r.of(ours, f), r.of(kadm, f)))
	}
	return nil
}

// enough is a sentence on how many keys would have to share a request for the brokers'
// CPU time a key to come to a target, going by what a key costs them in large requests.
// It is empty where that is not known.
func (b *bench) enough(r results, callers int, ours, theirs *contender, resting float64, t *target) string {
	if t == nil || b.bulkKeyCost == 0 {
		return ""
	}
	key := b.bulkKeyCost + resting
	request := (r.of(ours, brokersCPU).median() - key) / r.of(ours, requestsPer).median()
	left := t.limit*r.of(theirs, brokersCPU).median() - key
	if left <= 0 {
		return ". That alone is more than the target"
	}
	return fmt.Sprintf(". Those are %s of the target's %s, and a request costs %s besides: the keys of %s callers would have to share each, of %d who ask",
		number(key), number(t.limit*r.of(theirs, brokersCPU).median()), number(request), number(math.Ceil(request/left)), callers)
}
