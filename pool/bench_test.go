package pool

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

// BenchmarkAcquireRelease is the pool's own cost on the warm path.
func BenchmarkAcquireRelease(b *testing.B) {
	stub := kafkatest.NewStub(b, kafkatest.StubConfig{})
	c := newCluster(b, nil, kafkatest.Addrs(stub))
	b.ReportAllocs()
	for b.Loop() {
		lease, err := c.Acquire(b.Context(), 0)
		if err != nil {
			b.Fatal(err)
		}
		lease.Release()
	}
}

// BenchmarkAcquireReleaseBusy is the same with callers queueing for four connections.
func BenchmarkAcquireReleaseBusy(b *testing.B) {
	stub := kafkatest.NewStub(b, kafkatest.StubConfig{})
	c := newCluster(b, nil, kafkatest.Addrs(stub))
	b.SetParallelism(50)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			lease, err := c.Acquire(b.Context(), 0)
			if err != nil {
				b.Error(err)
				return
			}
			lease.Release()
		}
	})
}

// BenchmarkExchange is one batch of 50 keys over a loopback socket, the stub's work included.
func BenchmarkExchange(b *testing.B) {
	stub := kafkatest.NewStub(b, kafkatest.StubConfig{})
	lease := acquire(b, newCluster(b, nil, kafkatest.Addrs(stub)))
	reqs := []kafkawire.Request{&kafkawire.FindCoordinatorRequest{Keys: numbered(50)}}
	resps := []kafkawire.Response{&kafkawire.FindCoordinatorResponse{}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := lease.Exchange(b.Context(), reqs, resps, 6, 1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPeek(b *testing.B) {
	stub := kafkatest.NewStub(b, kafkatest.StubConfig{})
	lease := acquire(b, newCluster(b, nil, kafkatest.Addrs(stub)))
	b.ReportAllocs()
	for b.Loop() {
		if lease.conn.stale(0) {
			b.Fatal("stale")
		}
	}
}

// The warm path may cost a lease and little more.
func TestAllocationsOfTheWarmPath(t *testing.T) {
	stub := kafkatest.NewStub(t, kafkatest.StubConfig{})
	c := newCluster(t, nil, kafkatest.Addrs(stub))
	ctx := t.Context()
	allocs := testing.AllocsPerRun(1000, func() {
		lease, err := c.Acquire(ctx, 0)
		require.NoError(t, err)
		lease.Release()
	})
	require.LessOrEqual(t, allocs, 1.0)
}
