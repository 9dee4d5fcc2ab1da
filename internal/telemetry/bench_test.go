//go:build unix

package telemetry_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/telemetry"
	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/service"
)

// modes are what a service may show of itself. "unseen" is the service without
// metrics and tracing at all; "metrics" is what serve does unless told otherwise.
var modes = []struct {
	name    string
	unseen  bool
	tracing bool
	ratio   float64
}{
	{name: "unseen", unseen: true},
	{name: "metrics"},
	{name: "metrics+tracing=0.01", tracing: true, ratio: 0.01},
	{name: "metrics+tracing=1", tracing: true, ratio: 1},
}

// BenchmarkCall is one key by gRPC, over loopback, from 32 callers, to stub brokers in
// the same process; BenchmarkBatch one call of 1,000 keys. cpu-µs/op is the processor
// time of the whole process, callers and brokers too, which is steadier than the time
// on a busy machine. Compare with benchstat -col /mode.
func BenchmarkCall(b *testing.B) { benchmark(b, keysOf(1)) }

// BenchmarkBatch is BenchmarkCall with 1,000 keys.
func BenchmarkBatch(b *testing.B) { benchmark(b, keysOf(1000)) }

func benchmark(b *testing.B, keys []string) {
	for _, mode := range modes {
		b.Run("mode="+mode.name, func(b *testing.B) {
			o := options{unseen: mode.unseen, logTo: io.Discard}
			if mode.tracing {
				tracing, err := telemetry.NewTracing(telemetry.TracingConfig{SampleRatio: mode.ratio, Exporter: noExporter{}})
				require.NoError(b, err)
				defer func() { require.NoError(b, tracing.Close(context.Background())) }()
				o.tracing = tracing
			}
			r := start(b, o)
			req := &coordsvcv1.FindCoordinatorsRequest{Keys: keys}
			b.SetParallelism(16)
			b.ReportAllocs()
			used := processorTime(b)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := r.grpc.FindCoordinators(context.Background(), req); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			b.ReportMetric(float64((processorTime(b)-used).Microseconds())/float64(b.N), "cpu-µs/op")
			for _, stub := range r.stubs {
				stub.Forget()
			}
		})
	}
}

// BenchmarkBeingSeen is the difference alone, in percent of the processor time of the
// whole process for a call of one key: rounds of 100 calls with and without, turn about
// in one process, so that what else the machine does strikes both. It prints the median
// of the rounds and the standard error of their mean; b.N is the number of rounds.
func BenchmarkBeingSeen(b *testing.B) {
	const calls = 100
	req := &coordsvcv1.FindCoordinatorsRequest{Keys: keysOf(1)}
	round := func(b *testing.B, r *rig) float64 {
		used := processorTime(b)
		for range calls {
			if _, err := r.grpc.FindCoordinators(context.Background(), req); err != nil {
				b.Fatal(err)
			}
		}
		return float64(processorTime(b) - used)
	}
	for _, mode := range modes[1:] {
		b.Run("mode="+mode.name, func(b *testing.B) {
			o := options{logTo: io.Discard}
			if mode.tracing {
				tracing, err := telemetry.NewTracing(telemetry.TracingConfig{SampleRatio: mode.ratio, Exporter: noExporter{}})
				require.NoError(b, err)
				defer func() { require.NoError(b, tracing.Close(context.Background())) }()
				o.tracing = tracing
			}
			unseen, seen := start(b, options{unseen: true, logTo: io.Discard}), start(b, o)
			round(b, unseen)
			round(b, seen)
			var more []float64
			b.ResetTimer()
			for n := range b.N {
				var without, with float64
				if n%2 == 0 {
					without, with = round(b, unseen), round(b, seen)
				} else {
					with, without = round(b, seen), round(b, unseen)
				}
				more = append(more, 100*(with-without)/without)
			}
			b.StopTimer()
			var sum, squares float64
			for _, x := range more {
				sum += x
			}
			mean := sum / float64(len(more))
			for _, x := range more {
				squares += (x - mean) * (x - mean)
			}
			slices.Sort(more)
			b.ReportMetric(more[len(more)/2], "%-median")
			b.ReportMetric(mean, "%-mean")
			b.ReportMetric(math.Sqrt(squares)/float64(len(more)), "%-error")
			for _, r := range []*rig{unseen, seen} {
				for _, stub := range r.stubs {
					stub.Forget()
				}
			}
		})
	}
}

func keysOf(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "orders-" + time.Duration(i).String()
	}
	return keys
}

// processorTime is what this process has used of the processors.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHooks is what being seen costs a call of one key, without the call.
func BenchmarkHooks(b *testing.B) {
	b.Run("metrics", func(b *testing.B) {
		m := telemetry.NewMetrics(telemetry.Build{})
		results := []service.Result{{Key: "orders"}}
		b.ReportAllocs()
		for b.Loop() {
			calls, start := m.Calls("/"+getMethod, telemetry.GRPC), time.Now()
			calls.Begin()
			m.Acquired(time.Since(time.Now()), true)
			began := time.Now()
			m.Exchanged(service.Exchange{Version: 6, Broker: "kafka-1.example:9092", Keys: 1, Requests: 1, Answered: 1, Took: time.Since(began)})
			m.Answered(kafkawire.KeyTypeGroup, results)
			calls.End(codes.OK, time.Since(start))
		}
	})
	for _, ratio := range []float64{0, 0.01, 1} {
		b.Run(fmt.Sprint("tracing=", ratio), func(b *testing.B) {
			tracing, err := telemetry.NewTracing(telemetry.TracingConfig{SampleRatio: ratio, Exporter: noExporter{}})
			require.NoError(b, err)
			defer func() { require.NoError(b, tracing.Close(context.Background())) }()
			caller := metadata.NewIncomingContext(b.Context(), metadata.Pairs("user-agent", "grpc-go/1.85.0", "x-request-id", "mine"))
			b.ReportAllocs()
			for b.Loop() {
				ctx, span := tracing.Call(caller, "/"+getMethod, telemetry.GRPC, "mine")
				if tracing.Traced(ctx) {
					span.Asked("GROUP", 1)
					batch, done := tracing.Batch(context.Background(), []context.Context{ctx}, kafkawire.KeyTypeGroup, 1)
					tracing.Exchange(batch)(service.Exchange{Version: 6, Broker: "kafka-1.example:9092", Keys: 1, Requests: 1, Answered: 1})
					done(nil)
				}
				span.End(codes.OK, "")
			}
		})
	}
}

// noExporter throws spans away.
type noExporter struct{}

func (noExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (noExporter) Shutdown(context.Context) error                             { return nil }
