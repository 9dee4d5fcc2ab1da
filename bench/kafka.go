package main

import (
	"context"
	"fmt"
	"time"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
)

const (
	batchedRelease = "4.4.0"
	perKeyRelease  = "2.4.1"
	brokersOfRows  = 3
	keysOfRows     = 20_000
)

// realCluster starts Apache Kafka. The JVM compiles as it does in production,
// unlike in tests, where it is told to start fast.
func realCluster(ctx context.Context, release string, batched bool) (*cluster, error) {
	k, err := kafkatest.Launch(ctx, kafkatest.Options{Version: release, Brokers: brokersOfRows, JVMArgs: []string{"-XX:TieredStopAtLevel=4"}})
	if err != nil {
		return nil, err
	}
	c := &cluster{
		name: fmt.Sprintf("%d brokers of Apache Kafka %s", brokersOfRows, release), bootstrap: k.Bootstrap(), batched: batched,
		stop: func() { k.Close() },
	}
	err = func() error {
		if err := k.Warm(ctx); err != nil {
			return err
		}
		if c.pids, err = javaProcesses(k.Dir()); err != nil {
			return err
		}
		if len(c.pids) != brokersOfRows {
			return fmt.Errorf("found %d JVMs of %d brokers", len(c.pids), brokersOfRows)
		}
		c.keyset, err = newKeyset(keysOfRows, rawOracle{k.Broker(1).Addr(), batched})
		return err
	}()
	if err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// rawOracle asks one broker for one key after the other, in bytes that share no
// code with the product.
type rawOracle struct {
	addr    string
	batched bool
}

func (o rawOracle) coordinators(keys []string) ([]coordinator, error) {
	version := int16(3)
	if o.batched {
		version = 6
	}
	answers, err := kafkatest.RawFindAll(context.Background(), o.addr, version, 0, keys)
	if err != nil {
		return nil, err
	}
	list := make([]coordinator, len(keys))
	for i, a := range answers {
		if a.Code != 0 {
			return nil, fmt.Errorf("%q: code %d", keys[i], a.Code)
		}
		list[i] = coordinator{a.Node, a.Host, a.Port}
	}
	return list, nil
}

type stubOptions struct {
	delay  time.Duration
	perKey bool
}

// stubCluster is the fast stub as a cluster.
func stubCluster(brokers int, options stubOptions, keys int) (*cluster, error) {
	s, err := newStub(brokers, options.delay, options.perKey)
	if err != nil {
		return nil, err
	}
	c := &cluster{name: fmt.Sprintf("%d stub brokers", brokers), bootstrap: s.bootstrap(), batched: !options.perKey, stop: s.close}
	if options.perKey {
		c.name += " of one key a request"
	}
	if c.keyset, err = newKeyset(keys, s); err != nil {
		s.close()
		return nil, err
	}
	return c, nil
}

// cluster is real Kafka, or a stub in its place.
func (b *bench) cluster(ctx context.Context, release string, batched bool) (*cluster, error) {
	if b.stubs {
		return stubCluster(brokersOfRows, stubOptions{perKey: !batched}, keysOfRows)
	}
	b.progress("starting Kafka %s", release)
	return realCluster(ctx, release, batched)
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
