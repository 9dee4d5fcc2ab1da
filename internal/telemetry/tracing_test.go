package telemetry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/internal/telemetry"
	"github.com/coordsvc/coordsvc/kafkawire"
)

const (
	someTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	someCaller = "00f067aa0ba902b7"
)

// kept is an exporter that keeps spans until they are asked for.
type kept struct {
	*tracetest.InMemoryExporter
	tracing *telemetry.Tracing
}

func newKept(t testing.TB, ratio float64) *kept {
	t.Helper()
	k := &kept{InMemoryExporter: tracetest.NewInMemoryExporter()}
	var err error
	k.tracing, err = telemetry.NewTracing(telemetry.TracingConfig{SampleRatio: ratio, Version: "v1.2.3", Exporter: k})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.tracing.Close(context.Background())) })
	return k
}

// Shutdown keeps the spans, unlike the exporter's own.
func (k *kept) Shutdown(context.Context) error { return nil }

// spans waits for so many spans of a name.
func (k *kept) spans(t *testing.T, name string, n int) []tracetest.SpanStub {
	t.Helper()
	var found []tracetest.SpanStub
	require.Eventually(t, func() bool {
		require.NoError(t, k.tracing.Flush(t.Context()))
		found = nil
		for _, s := range k.GetSpans() {
			if s.Name == name {
				found = append(found, s)
			}
		}
		return len(found) >= n
	}, 10*time.Second, 5*time.Millisecond, "%d spans %q", n, name)
	return found
}

func attributes(s tracetest.SpanStub) map[string]string {
	values := map[string]string{}
	for _, a := range s.Attributes {
		values[string(a.Key)] = a.Value.String()
	}
	return values
}

const (
	getMethod  = "coordsvc.v1.CoordinatorService/GetCoordinator"
	findMethod = "coordsvc.v1.CoordinatorService/FindCoordinators"
)

func TestSpansOfACall(t *testing.T) {
	for _, protocol := range []string{telemetry.GRPC, telemetry.REST} {
		t.Run(protocol, func(t *testing.T) {
			k := newKept(t, 0) // nothing is traced that the caller does not want traced
			r := start(t, options{tracing: k.tracing})
			traceparent := "00-" + someTrace + "-" + someCaller + "-01"
			if protocol == telemetry.GRPC {
				ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent, "tracestate", "vendor=1", "x-request-id", "mine")
				_, err := r.grpc.GetCoordinator(ctx, &coordsvcv1.GetCoordinatorRequest{Key: "secret-customer"})
				require.NoError(t, err)
			} else {
				status, body := r.get(t, r.HTTPAddr(), "/v1/coordinators/GROUP/secret-customer", "Traceparent", traceparent, "Tracestate", "vendor=1", "X-Request-Id", "mine")
				require.Equal(t, http.StatusOK, status, body)
			}

			call := k.spans(t, getMethod, 1)[0]
			require.Equal(t, someTrace, call.SpanContext.TraceID().String())
			require.Equal(t, someCaller, call.Parent.SpanID().String())
			require.True(t, call.Parent.IsRemote())
			require.Equal(t, "vendor=1", call.SpanContext.TraceState().String())
			require.Equal(t, trace.SpanKindServer, call.SpanKind)
			about := attributes(call)
			require.Equal(t, protocol, about["coordsvc.protocol"])
			require.Equal(t, "mine", about["coordsvc.request_id"])
			require.Equal(t, "GetCoordinator", about["rpc.method"])
			require.Equal(t, "1", about["coordsvc.keys"])
			require.Equal(t, "0", about["rpc.grpc.status_code"])

			batch := k.spans(t, "batch", 1)[0]
			require.Equal(t, call.SpanContext.SpanID(), batch.Parent.SpanID())
			require.Len(t, batch.Links, 1)
			require.Equal(t, call.SpanContext.SpanID(), batch.Links[0].SpanContext.SpanID())
			require.Len(t, call.Links, 1)
			require.Equal(t, batch.SpanContext.SpanID(), call.Links[0].SpanContext.SpanID())
			require.Equal(t, "0", attributes(batch)["coordsvc.failed"])

			exchange := k.spans(t, "FindCoordinator", 1)[0]
			require.Equal(t, batch.SpanContext.SpanID(), exchange.Parent.SpanID())
			require.Equal(t, someTrace, exchange.SpanContext.TraceID().String())
			require.Equal(t, trace.SpanKindClient, exchange.SpanKind)
			require.Equal(t, "6", attributes(exchange)["coordsvc.kafka.api_version"])
			require.Equal(t, "127.0.0.1", attributes(exchange)["server.address"])

			all, err := json.Marshal(k.GetSpans())
			require.NoError(t, err)
			require.NotContains(t, string(all), "secret-customer")
			require.Contains(t, r.log.String(), `"trace_id":"`+someTrace+`"`)
			require.Contains(t, r.log.String(), `"span_id":"`+call.SpanContext.SpanID().String()+`"`)
		})
	}
}

func TestABatchIsLinkedToEveryCallInIt(t *testing.T) {
	k := newKept(t, 1)
	r := start(t, options{tracing: k.tracing})
	gate := kafkatest.NewGate()
	for _, stub := range r.stubs {
		stub.On(kafkawire.APIKeyFindCoordinator, gate.Hold(kafkatest.Default))
	}
	const calls = 30
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			_, err := r.grpc.FindCoordinators(t.Context(), &coordsvcv1.FindCoordinatorsRequest{Keys: []string{"same", fmt.Sprint("key-", i)}})
			require.NoError(t, err)
		})
	}
	require.Eventually(t, func() bool { return r.scrape(t)["coordsvc_calls_in_flight"] == calls }, 10*time.Second, time.Millisecond)
	gate.Open()
	wg.Wait()

	byID := map[trace.SpanID]tracetest.SpanStub{}
	for _, call := range k.spans(t, findMethod, calls) {
		byID[call.SpanContext.SpanID()] = call
		require.False(t, call.Parent.IsValid())
	}
	require.Len(t, byID, calls)
	k.spans(t, "FindCoordinator", 1)
	linked, shared := map[trace.SpanID]bool{}, false
	for _, batch := range k.spans(t, "batch", 1) {
		require.Contains(t, byID, batch.Parent.SpanID(), "it stands in the trace of a call in it")
		seen := map[trace.SpanID]bool{}
		for _, link := range batch.Links {
			id := link.SpanContext.SpanID()
			require.False(t, seen[id], "a call is linked once")
			seen[id], linked[id] = true, true
			back := false
			for _, l := range byID[id].Links {
				back = back || l.SpanContext.SpanID() == batch.SpanContext.SpanID()
			}
			require.True(t, back, "and the call to the batch")
		}
		shared = shared || len(seen) > 1
	}
	require.Len(t, linked, calls)
	require.True(t, shared, "calls shared a batch")
}

func TestFailuresInSpans(t *testing.T) {
	k := newKept(t, 1)
	r := start(t, options{tracing: k.tracing, logLevel: slog.LevelDebug})
	for _, stub := range r.stubs {
		stub.On(kafkawire.APIKeyFindCoordinator, kafkatest.First(1, kafkatest.Hangup))
	}
	_, err := r.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: "orders"})
	require.NoError(t, err)
	lost := k.spans(t, "FindCoordinator", 2)[0]
	require.Equal(t, "Error", lost.Status.Code.String())
	require.Equal(t, "unreachable", attributes(lost)["error.type"])

	_, err = r.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: strings.Repeat("x", 40_000)})
	require.Error(t, err)
	calls := k.spans(t, getMethod, 2)
	refused := calls[len(calls)-1]
	require.Equal(t, "INVALID_ARGUMENT", attributes(refused)["error.type"])
	require.Equal(t, "Unset", refused.Status.Code.String(), "the caller's fault")
}

func TestSampling(t *testing.T) {
	k := newKept(t, 0)
	r := start(t, options{tracing: k.tracing})
	for _, traceparent := range []string{"", "00-" + someTrace + "-" + someCaller + "-00", "00-0-0-01", strings.Repeat("9", 10_000), "ff-" + someTrace + "-" + someCaller + "-01"} {
		status, _ := r.get(t, r.HTTPAddr(), "/v1/coordinators/GROUP/a", "Traceparent", traceparent)
		require.Equal(t, http.StatusOK, status)
	}
	require.NoError(t, k.tracing.Flush(t.Context()))
	require.Empty(t, k.GetSpans())
	require.Equal(t, 1, strings.Count(r.log.String(), someTrace), "the log knows the trace of a caller that is not traced here")
}

func TestSampleRatio(t *testing.T) {
	k := newKept(t, 0.25)
	r := start(t, options{tracing: k.tracing, logTo: io.Discard})
	const calls = 2000
	for range calls {
		_, err := r.grpc.ListBrokers(t.Context(), &coordsvcv1.ListBrokersRequest{})
		require.NoError(t, err)
	}
	require.NoError(t, k.tracing.Flush(t.Context()))
	require.InDelta(t, calls/4, len(k.GetSpans()), 5*20, "five standard deviations")
}

// collector is an OTLP collector over HTTP.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracev1.Span
	about map[string]string
}

func newCollector(t *testing.T) *collector {
	c := &collector{about: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var got collectorv1.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &got) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range got.GetResourceSpans() {
			for _, a := range rs.GetResource().GetAttributes() {
				c.about[a.GetKey()] = a.GetValue().GetStringValue()
			}
			for _, ss := range rs.GetScopeSpans() {
				c.spans = append(c.spans, ss.GetSpans()...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

func TestSpansArriveAtACollector(t *testing.T) {
	c := newCollector(t)
	tracing, err := telemetry.NewTracing(telemetry.TracingConfig{Endpoint: c.URL, SampleRatio: 1, Version: "v1.2.3"})
	require.NoError(t, err)
	r := start(t, options{tracing: tracing})
	_, err = r.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: "orders"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.scrape(t)["coordsvc_batches_in_flight"] == 0 }, 5*time.Second, time.Millisecond)
	require.NoError(t, tracing.Close(t.Context()))

	c.mu.Lock()
	defer c.mu.Unlock()
	names := map[string]int{}
	for _, s := range c.spans {
		names[s.GetName()]++
	}
	require.Equal(t, map[string]int{getMethod: 1, "batch": 1, "FindCoordinator": 1}, names)
	require.Equal(t, "coordsvc", c.about["service.name"])
	require.Equal(t, "v1.2.3", c.about["service.version"])
}

// A collector that takes connections and says nothing delays neither calls nor the end.
func TestASilentCollectorDelaysNobody(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	log := new(lockedBuffer)
	tracing, err := telemetry.NewTracing(telemetry.TracingConfig{
		Endpoint: "http://" + silent.Addr().String(), SampleRatio: 1, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	require.NoError(t, err)
	r := start(t, options{tracing: tracing})
	for range 3000 { // more than the queue holds
		_, err := r.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: "orders"})
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	require.Error(t, tracing.Close(ctx))
	require.Less(t, time.Since(began), 3*time.Second)
}

func TestEndpointsThatAreNone(t *testing.T) {
	for _, endpoint := range []string{"", "otel:4318", "grpc://otel:4317", "http://", "http://a b"} {
		_, err := telemetry.NewTracing(telemetry.TracingConfig{Endpoint: endpoint})
		require.ErrorContains(t, err, "tracing.endpoint", "%q", endpoint)
	}
}
