package main

import (
	"context"
	"fmt"
)

// bulk is who is asked for many keys a call.
type bulk struct{ ours, svc, direct, raw, raws *contender }

// bulk makes them; so many callers ask Kafka directly at a time.
func (t *team) bulk(callers int) bulk {
	return bulk{
		ours: t.coordsvc("coordsvc", connectionsOfCallers, logQuiet...), svc: t.service(kadmService, connectionsOfCallers),
		direct: t.direct("direct kadm", callers, true),
		raw:    t.raw("raw connection", 1), raws: t.raw("raw, a connection a broker", brokersOfRows),
	}
}

// byOneCaller has each asked for so many keys a call by one caller, and names the row.
func (k bulk) byOneCaller(b *bench, c *cluster, keys int) (what string, r results, err error) {
	r, err = b.compare(fmt.Sprintf("one caller, %d keys", keys), c, b.load(1, keys), c.keyset, k.ours, k.svc, k.direct, k.raw, k.raws)
	return fmt.Sprintf("one caller, %s keys: p50, ms", number(float64(keys))), r, err
}

// bulkBatched is row 4 on Kafka 4.4.0.
func (b *bench) bulkBatched(c *cluster) error {
	t := &team{b: b, c: c}
	defer t.stop()
	k := t.bulk(4)
	if t.err != nil {
		return t.err
	}
	r, err := b.compare("4 callers, 1,000 keys", c, b.load(4, 1000), c.keyset, k.ours, k.svc, k.direct)
	if err != nil {
		return err
	}
	b.bulkKeyCost = r.of(k.ours, brokersCPU).median()
	add := b.report.section("4", "Bulk, many keys a request ("+c.name+")")
	add(b.judged(c, k.ours, b.load(4, 1000), compared("4 callers, 1,000 keys: keys/s", kadmService, r.of(k.ours, keysPerSecond), r.of(k.svc, keysPerSecond)).aims(atLeast(1.2),
		"the brokers: they use most of the cores, and as much a key for either. "+r.budget(k.ours, k.svc)+". "+r.free(k.svc)+
			"; callers that ask Kafka themselves, with no service at all, come to "+number(r.of(k.direct, keysPerSecond).over(r.of(k.svc, keysPerSecond)).median()),
		"cores of their own for the brokers")))
	add(compared("4 callers, 1,000 keys: keys/s", "direct kadm", r.of(k.ours, keysPerSecond), r.of(k.direct, keysPerSecond)))
	add(compared("4 callers, 1,000 keys: service CPU, µs a key", kadmService, r.of(k.ours, serverCPU), r.of(k.svc, serverCPU)))
	add(compared("4 callers, 1,000 keys: brokers' CPU, µs a key", kadmService, r.of(k.ours, brokersCPU), r.of(k.svc, brokersCPU)))
	add(compared("4 callers, 1,000 keys: callers' CPU, µs a key", kadmService, r.of(k.ours, callersCPU), r.of(k.svc, callersCPU)))
	for _, keys := range []int{1000, 10_000} {
		what, r, err := k.byOneCaller(b, c, keys)
		if err != nil {
			return err
		}
		var limit *target
		if keys == 10_000 {
			limit = atMost(1.5)
		}
		add(b.judged(c, k.ours, b.load(1, keys), compared(what, "raw connection", r.of(k.ours, p50), r.of(k.raw, p50)).aims(limit,
			"the protobuf answer: it is made, sent and read once all keys are known, and the brokers rest meanwhile",
			"an RPC that streams its answers")))
		add(compared(what, "raw, a connection a broker", r.of(k.ours, p50), r.of(k.raws, p50)))
		add(compared(what, "direct kadm", r.of(k.ours, p50), r.of(k.direct, p50)))
		add(compared(what, kadmService, r.of(k.ours, p50), r.of(k.svc, p50)))
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
	k := t.bulk(1)
	if t.err != nil {
		return t.err
	}
	add := b.report.section("4", "Bulk, one key a request ("+c.name+")")
	for _, keys := range []int{1000, 10_000} {
		what, r, err := k.byOneCaller(b, c, keys)
		if err != nil {
			return err
		}
		var half *target
		if keys == 10_000 {
			half = atMost(0.5)
		}
		add(b.judged(c, k.ours, b.load(1, keys), compared(what, "direct kadm", r.of(k.ours, p50), r.of(k.direct, p50)).aims(half,
			"the brokers: they need a request a key, whoever asks; compare their CPU a key, and the raw connections",
			"Kafka 3.0 or later, which takes many keys a request; a larger pool.max-connections-per-broker, since a broker answers one request of a connection at a time")))
		add(compared(what, kadmService, r.of(k.ours, p50), r.of(k.svc, p50)))
		add(compared(what, "raw connection", r.of(k.ours, p50), r.of(k.raw, p50)))
		add(compared(what, "raw, a connection a broker", r.of(k.ours, p50), r.of(k.raws, p50)))
		if keys == 10_000 && !b.stubs {
			add(compared("one caller, 10,000 keys: brokers' CPU, µs a key", "direct kadm", r.of(k.ours, brokersCPU), r.of(k.direct, brokersCPU)))
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
