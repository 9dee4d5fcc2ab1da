package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
	"github.com/coordsvc/coordsvc/service"
)

// BenchmarkFind is the Finder without gRPC, on stub brokers in the same process: for
// profiles, and for what a lookup takes from the heap.
func BenchmarkFind(b *testing.B) {
	for _, perKey := range []bool{false, true} {
		for _, callers := range []int{1, 64} {
			for _, keys := range []int{1, 1000, 10_000} {
				if callers > 1 && keys > 1 {
					continue
				}
				b.Run(fmt.Sprintf("perKey=%v/callers=%d/keys=%d", perKey, callers, keys), func(b *testing.B) {
					benchmarkFind(b, perKey, callers, keys)
				})
			}
		}
	}
}

func benchmarkFind(b *testing.B, perKey bool, callers, keys int) {
	c, err := stubCluster(brokersOfRows, stubOptions{perKey: perKey}, keysOfRows)
	if err != nil {
		b.Fatal(err)
	}
	defer c.stop()
	cluster, err := pool.NewCluster(pool.Config{Bootstrap: c.bootstrap, DiscoverBrokers: true, MaxAPIVersions: 3})
	if err != nil {
		b.Fatal(err)
	}
	cluster.Start()
	finder := service.NewFinder(cluster, service.FinderConfig{})
	defer cluster.Close(context.Background())
	defer finder.Close(context.Background())
	ask := func(q *keyset) error {
		results, err := finder.Find(context.Background(), kafkawire.KeyTypeGroup, q.keys)
		if err != nil {
			return err
		}
		for i := range results {
			r := &results[i]
			if r.Err != nil {
				return fmt.Errorf("%v", r.Err.Message(kafkawire.KeyTypeGroup, r.Key, r.AnsweredBy))
			}
			if err := q.check(i, r.Key, coordinator{r.Coordinator.NodeID, r.Coordinator.Host, r.Coordinator.Port}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := ask(c.keyset.question(0, callers, 0, keys)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(callers) // times GOMAXPROCS
	b.ResetTimer()
	var caller atomic.Int32
	if callers == 1 {
		for i := range b.N {
			if err := ask(c.keyset.question(0, 1, i, keys)); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	b.RunParallel(func(pb *testing.PB) {
		me := int(caller.Add(1)) - 1
		for i := 0; pb.Next(); i++ {
			if err := ask(c.keyset.question(me, 1024, i, keys)); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
