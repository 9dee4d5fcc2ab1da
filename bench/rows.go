package main

import (
	"context"
	"fmt"
	"time"
)

// connectionsOfCallers is over how many gRPC connections callers are spread.
const connectionsOfCallers = 4

// logQuiet keeps coordsvc from a line a call, which nothing it is compared with writes.
var logQuiet = []string{"--log-level", "warn"}

type stubOptions struct {
	delay  time.Duration
	perKey bool
}

// team makes contenders for one cluster, and ends them all.
type team struct {
	b       *bench
	c       *cluster
	members []*contender
	ours    *server
	err     error // of the first that could not be made; the others are nil then
}

func (t *team) stop() {
	for _, x := range t.members {
		x.stop()
		if x.server != nil {
			x.server.stop()
		}
	}
}

func (t *team) add(x *contender, stop func(), err error) *contender {
	if err != nil {
		if t.err == nil {
			t.err = fmt.Errorf("%s: %w", x.name, err)
		}
		if x.server != nil {
			x.server.stop()
		}
		return nil
	}
	x.stop = stop
	t.members = append(t.members, x)
	return x
}

// coordsvc is the binary, asked over gRPC; flags are added to its own.
func (t *team) coordsvc(name string, connections int, flags ...string) *contender {
	return t.coordsvcWith(nil, name, connections, flags...)
}

// oneThread is coordsvc that runs Go code on one thread at a time.
func (t *team) oneThread(connections int) *contender {
	return t.coordsvcWith([]string{"GOMAXPROCS=1"}, "coordsvc, GOMAXPROCS=1", connections, logQuiet...)
}

func (t *team) coordsvcWith(env []string, name string, connections int, flags ...string) *contender {
	x := &contender{name: name}
	if t.err != nil {
		return nil
	}
	var err error
	if x.server, err = startCoordsvc(t.b.program, t.c.bootstrap, env, flags...); err != nil {
		return t.add(x, nil, err)
	}
	t.ours = x.server
	ask, stop, err := grpcAsker(x.server.grpc, connections, nil)
	x.ask = ask
	return t.add(x, stop, err)
}

// rest is the same process as the last coordsvc, asked over REST.
func (t *team) rest(name string) *contender {
	if t.err != nil {
		return nil
	}
	x := &contender{name: name, server: t.ours}
	ask, stop := restAsker(t.ours.rest)
	x.ask = ask
	return t.add(x, stop, nil)
}

// service is one of the services of contenders.go.
func (t *team) service(kind string, connections int) *contender {
	if t.err != nil {
		return nil
	}
	x := &contender{name: kind}
	var err error
	if x.server, err = startContender(kind, t.c.bootstrap); err != nil {
		return t.add(x, nil, err)
	}
	var want *coordinator
	if kind == noopService {
		want = &noopAnswer
	}
	ask, stop, err := grpcAsker(x.server.grpc, connections, want)
	x.ask = ask
	return t.add(x, stop, err)
}

func (t *team) direct(name string, callers int, overKadm bool) *contender {
	if t.err != nil {
		return nil
	}
	x := &contender{name: name, count: new(requestCount)}
	ask, stop, err := kgoAsker(t.c.bootstrap, callers, overKadm, x.count)
	x.ask = ask
	return t.add(x, stop, err)
}

func (t *team) raw(name string, brokers int) *contender {
	if t.err != nil {
		return nil
	}
	x := &contender{name: name}
	ask, stop, err := rawAsker(t.c.bootstrap[:brokers], t.c.batched)
	x.ask = ask
	return t.add(x, stop, err)
}

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

// cluster is real Kafka, or a stub in its place.
func (b *bench) cluster(ctx context.Context, release string, batched bool) (*cluster, error) {
	if b.stubs {
		return stubCluster(brokersOfRows, stubOptions{perKey: !batched}, keysOfRows)
	}
	b.progress("starting Kafka %s", release)
	return realCluster(ctx, release, batched)
}

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
	}{{"2", b.oneCaller}, {"3", b.manyCallers}, {"4", b.bulkBatched}} {
		if !b.wants(part.row) {
			continue
		}
		if err := part.run(c); err != nil {
			return err
		}
	}
	return nil
}

// warmJVM asks until the brokers have compiled what they do: until, with each number
// of keys a request, they get no faster.
func (b *bench) warmJVM(c *cluster) error {
	if b.stubs {
		return nil
	}
	const window, most, gain = 4 * time.Second, 10, 1.03
	t := &team{b: b, c: c}
	defer t.stop()
	x := t.direct("warm-up", 16, false)
	if t.err != nil {
		return t.err
	}
	for _, keys := range []int{1, 30, rawChunk} {
		fastest := 0.0
		for range most {
			b.progress("warming up the brokers with %d keys a request", keys)
			f, err := run(c, x, load{16, keys, window}, c.keyset)
			if err != nil {
				return err
			}
			if f[keysPerSecond] < gain*fastest {
				break
			}
			fastest = f[keysPerSecond]
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
	if t.err != nil {
		return t.err
	}
	r, err := b.compare("one caller, one key", c, b.load(1, 1), c.keyset, ours, rest, kgo, noop, kadm, single)
	if err != nil {
		return err
	}
	add := b.report.section("2", "One caller, one key a call ("+c.name+")")
	floor := r.of(noop, p50).plus(r.of(kgo, p50))
	add(b.judged(c, ours, b.load(1, 1), compared("gRPC: p50, ms", "no-op gRPC + direct kgo", r.of(ours, p50), floor).aims(atMost(1.15),
		"waking: each message finds a thread that sleeps in the kernel, and gRPC takes a call through three goroutines, for each of which Go "+
			"wakes a second thread in case it has time: see what GOMAXPROCS=1 saves; and a broker that is asked less often answers later, "+
			"as its CPU time a key shows beside that of direct kgo, which asks again at once",
		"GOMAXPROCS=1 where one core is enough for an instance; more keys a call, or more callers at a time, since the cost is a call's and not a key's; "+
			"a transport with fewer goroutines than grpc-go's")))
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
	single := t.oneThread(connectionsOfCallers)
	if t.err != nil {
		return t.err
	}
	l := b.load(callers, 1)
	r, err := b.compare(fmt.Sprintf("%d callers, one key", callers), c, l, c.keyset, ours, kadm, kgoSvc, direct, noop, single)
	if err != nil {
		return err
	}
	atRest, err := c.brokersAtRest(b.duration)
	if err != nil {
		return err
	}
	var faster, fewer *target
	if callers == 64 {
		faster, fewer = atLeast(2.5), atMost(0.2)
	}
	add := b.report.section("3", fmt.Sprintf("%d callers, one key a call, all different (%s)", callers, c.name))
	for _, x := range []*contender{kadm, kgoSvc, direct, noop} {
		add(b.judged(c, ours, l, compared(string(keysPerSecond), x.name, r.of(ours, keysPerSecond), r.of(x, keysPerSecond)).aims(onlyFor(x == kadm, faster),
			"gRPC itself: compare with the no-op service, which is all that the cores can do beside the callers. "+r.budget(ours, kadm),
			"more cores, or more keys a call")))
	}
	for _, x := range []*contender{kadm, kgoSvc, direct} {
		add(compared(string(brokersCPU), x.name, r.of(ours, brokersCPU), r.of(x, brokersCPU)).aims(onlyFor(x == kadm, fewer),
			"what Kafka spends on each key of a request, however many share it (compare with the brokers' CPU a key of bulk calls), and what the brokers spend "+
				"when nobody asks: "+number(atRest/r.of(ours, keysPerSecond).median())+" µs a key at this rate",
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
	for _, f := range []figure{keysPerSecond, serverCPU} {
		add(compared("GOMAXPROCS=1: "+string(f), ours.name, r.of(single, f), r.of(ours, f)))
	}
	for _, f := range []figure{p50, p99} {
		add(compared(string(f), kadm.name, r.of(ours, f), r.of(kadm, f)))
	}
	return nil
}

// bulkBatched is row 4 on Kafka 4.4.0.
func (b *bench) bulkBatched(c *cluster) error {
	t := &team{b: b, c: c}
	defer t.stop()
	ours := t.coordsvc("coordsvc", connectionsOfCallers, logQuiet...)
	svc := t.service(kadmService, connectionsOfCallers)
	direct := t.direct("direct kadm", 4, true)
	raw := t.raw("raw connection", 1)
	raws := t.raw("raw, a connection a broker", brokersOfRows)
	if t.err != nil {
		return t.err
	}
	r, err := b.compare("4 callers, 1,000 keys", c, b.load(4, 1000), c.keyset, ours, svc, direct)
	if err != nil {
		return err
	}
	add := b.report.section("4", "Bulk, many keys a request ("+c.name+")")
	add(b.judged(c, ours, b.load(4, 1000), compared("4 callers, 1,000 keys: keys/s", kadmService, r.of(ours, keysPerSecond), r.of(svc, keysPerSecond)).aims(atLeast(1.2),
		"the brokers: they use most of the cores, and as much a key for either. "+r.budget(ours, svc)+". "+r.free(svc),
		"cores of their own for the brokers")))
	add(compared("4 callers, 1,000 keys: keys/s", "direct kadm", r.of(ours, keysPerSecond), r.of(direct, keysPerSecond)))
	add(compared("4 callers, 1,000 keys: service CPU, µs a key", kadmService, r.of(ours, serverCPU), r.of(svc, serverCPU)))
	add(compared("4 callers, 1,000 keys: brokers' CPU, µs a key", kadmService, r.of(ours, brokersCPU), r.of(svc, brokersCPU)))
	add(compared("4 callers, 1,000 keys: callers' CPU, µs a key", kadmService, r.of(ours, callersCPU), r.of(svc, callersCPU)))
	for _, keys := range []int{1000, 10_000} {
		r, err := b.compare(fmt.Sprintf("one caller, %d keys", keys), c, b.load(1, keys), c.keyset, ours, svc, direct, raw, raws)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("one caller, %s keys: p50, ms", number(float64(keys)))
		var limit *target
		if keys == 10_000 {
			limit = atMost(1.5)
		}
		add(b.judged(c, ours, b.load(1, keys), compared(what, "raw connection", r.of(ours, p50), r.of(raw, p50)).aims(limit,
			"the protobuf answer: it is made, sent and read once all keys are known, and the brokers rest meanwhile",
			"an RPC that streams its answers")))
		add(compared(what, "raw, a connection a broker", r.of(ours, p50), r.of(raws, p50)))
		add(compared(what, "direct kadm", r.of(ours, p50), r.of(direct, p50)))
		add(compared(what, kadmService, r.of(ours, p50), r.of(svc, p50)))
	}
	return nil
}

// onPerKey is row 4 on Kafka 2.4.1.
func (b *bench) onPerKey(ctx context.Context) error {
	c, err := b.cluster(ctx, perKeyRelease, false)
	if err != nil {
		return err
	}
	defer c.stop()
	if err := b.warmJVM(c); err != nil {
		return err
	}
	t := &team{b: b, c: c}
	defer t.stop()
	ours := t.coordsvc("coordsvc", connectionsOfCallers, logQuiet...)
	svc := t.service(kadmService, connectionsOfCallers)
	direct := t.direct("direct kadm", 1, true)
	raw := t.raw("raw connection", 1)
	raws := t.raw("raw, a connection a broker", brokersOfRows)
	if t.err != nil {
		return t.err
	}
	add := b.report.section("4", "Bulk, one key a request ("+c.name+")")
	for _, keys := range []int{1000, 10_000} {
		r, err := b.compare(fmt.Sprintf("one caller, %d keys", keys), c, b.load(1, keys), c.keyset, ours, svc, direct, raw, raws)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("one caller, %s keys: p50, ms", number(float64(keys)))
		var half *target
		if keys == 10_000 {
			half = atMost(0.5)
		}
		add(b.judged(c, ours, b.load(1, keys), compared(what, "direct kadm", r.of(ours, p50), r.of(direct, p50)).aims(half,
			"the brokers: they need a request a key, whoever asks; compare their CPU a key, and the raw connections",
			"Kafka 3.0 or later, which takes many keys a request; a larger lookup.pipeline-window, at the cost of those who ask for one key meanwhile")))
		add(compared(what, kadmService, r.of(ours, p50), r.of(svc, p50)))
		add(compared(what, "raw connection", r.of(ours, p50), r.of(raw, p50)))
		add(compared(what, "raw, a connection a broker", r.of(ours, p50), r.of(raws, p50)))
		if keys == 10_000 && !b.stubs {
			add(compared("one caller, 10,000 keys: brokers' CPU, µs a key", "direct kadm", r.of(ours, brokersCPU), r.of(direct, brokersCPU)))
		}
	}
	return nil
}

// onStub is row 4 without Java, and row 5.
func (b *bench) onStub() error {
	c, err := stubCluster(brokersOfRows, stubOptions{}, 4*10_000)
	if err != nil {
		return err
	}
	defer c.stop()
	t := &team{b: b, c: c}
	defer t.stop()
	logged := t.coordsvc("coordsvc, a log line a call", connectionsOfCallers)
	ours := t.coordsvc("coordsvc, gRPC", connectionsOfCallers, logQuiet...)
	rest := t.rest("coordsvc, REST")
	noop := t.service(noopService, connectionsOfCallers)
	kadm := t.service(kadmService, connectionsOfCallers)
	if t.err != nil {
		return t.err
	}
	if b.wants("4") {
		r, err := b.compare("4 callers, 1,000 keys", c, b.load(4, 1000), c.keyset, ours, noop, kadm)
		if err != nil {
			return err
		}
		add := b.report.section("4", "Bulk, where Java is no limit ("+c.name+")")
		add(b.judged(c, ours, b.load(4, 1000), compared("4 callers, 1,000 keys: keys/s", noopService, r.of(ours, keysPerSecond), r.of(noop, keysPerSecond)).aims(atLeast(0.8),
			"the CPU that looking up takes, on cores that the callers and the stub brokers keep busy too",
			"more cores; less to do for each key")))
		add(compared("4 callers, 1,000 keys: keys/s", kadmService, r.of(ours, keysPerSecond), r.of(kadm, keysPerSecond)))
		add(compared("4 callers, 1,000 keys: service CPU, µs a key", noopService, r.of(ours, serverCPU), r.of(noop, serverCPU)))
		add(compared("4 callers, 1,000 keys: service CPU, µs a key", kadmService, r.of(ours, serverCPU), r.of(kadm, serverCPU)))
	}
	if !b.wants("5") {
		return nil
	}
	add := b.report.section("5", "REST against gRPC, 4 callers ("+c.name+")")
	for _, keys := range []int{1, 100, 10_000} {
		contenders := []*contender{ours, rest}
		if keys == 1 {
			contenders = append(contenders, logged)
		}
		r, err := b.compare(fmt.Sprintf("REST and gRPC, %d keys", keys), c, b.load(4, keys), c.keyset, contenders...)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("REST, %s keys: ", number(float64(keys)))
		if keys == 1 {
			what = "REST, one key: "
		}
		var most *target
		if keys != 100 {
			most = atMost(2)
		}
		add(b.judged(c, rest, b.load(4, keys), compared(what+string(serverCPU), "coordsvc, gRPC", r.of(rest, serverCPU), r.of(ours, serverCPU)).aims(most,
			"the text of JSON, which is longer than protobuf, and the heads of HTTP/1.1", "gRPC")))
		add(compared(what+string(keysPerSecond), "coordsvc, gRPC", r.of(rest, keysPerSecond), r.of(ours, keysPerSecond)))
		if keys == 1 {
			add(compared("gRPC, one key, log.level info: "+string(serverCPU), "log.level warn", r.of(logged, serverCPU), r.of(ours, serverCPU)))
		}
	}
	return nil
}

// memory is row 7: what coordsvc keeps resident.
func (b *bench) memory() error {
	keys := 64 * 10_000
	if b.smoke {
		keys = 4 * 10_000
	}
	c, err := stubCluster(brokersOfRows, stubOptions{}, keys)
	if err != nil {
		return err
	}
	defer c.stop()
	add := b.report.section("7", "Resident memory of coordsvc ("+c.name+")")
	for _, m := range []struct {
		what  string
		load  load
		limit float64
	}{
		{"idle, MiB", load{}, 30},
		{"256 callers, one key: peak, MiB", b.load(256, 1), 80},
		{"64 calls of 10,000 keys at once: peak, MiB", b.load(keys/10_000, 10_000), 400},
	} {
		var found series
		for range min(b.rounds, 3) {
			mib, err := b.residentUnder(c, m.load)
			if err != nil {
				return err
			}
			found = append(found, mib)
		}
		add(compared(m.what, "", found, nil).aims(&target{limit: m.limit, most: true, absolute: true},
			"what keys take on their way: the question, an ask for each, the results, the protobuf answer and its bytes; and Go's heap may double before it is collected",
			"GOMEMLIMIT, for CPU time; limits.max-calls-in-flight; fewer keys a call (lookup.max-keys)"))
	}
	return nil
}

// residentUnder is what a fresh coordsvc comes to under a load; with no load, idle.
func (b *bench) residentUnder(c *cluster, l load) (float64, error) {
	b.progress("memory: %d callers, %d keys", l.callers, l.keys)
	t := &team{b: b, c: c}
	defer t.stop()
	x := t.coordsvc("coordsvc", connectionsOfCallers, logQuiet...)
	if t.err != nil {
		return 0, t.err
	}
	if l.callers == 0 {
		time.Sleep(b.duration)
		return memory(x.server.cmd.Process.Pid, residentNow)
	}
	f, err := run(c, x, l, c.keyset)
	return f[peakMemory], err
}
