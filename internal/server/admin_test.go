package server

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/telemetry"
)

func TestAdminPort(t *testing.T) {
	r := start(t, &fakeService{})
	cases := []struct {
		method, target string
		ready          bool
		status         int
		says, allow    string
	}{
		{method: "GET", target: "/livez", ready: true, status: 200, says: "live"},
		{method: "GET", target: "/livez", ready: false, status: 200, says: "live"},
		{method: "GET", target: "/readyz", ready: true, status: 200, says: `"ready"`},
		{method: "GET", target: "/readyz?verbose=1", ready: true, status: 200, says: `"ready"`},
		{method: "GET", target: "/readyz", ready: false, status: 503, says: "GET /v1/brokers of the REST port says why"},
		{method: "HEAD", target: "/readyz", ready: false, status: 503},
		{method: "POST", target: "/readyz", ready: true, status: 405, says: "METHOD_NOT_ALLOWED", allow: "GET, HEAD"},
		{method: "GET", target: "/", ready: true, status: 404, says: "NOT_FOUND"},
		{method: "GET", target: "/v1/brokers", ready: true, status: 404, says: "NOT_FOUND"},
	}
	for _, c := range cases {
		r.ready.Store(c.ready)
		got := r.doAt(t, r.AdminAddr(), c.method, c.target, "")
		require.Equal(t, c.status, got.status, "%s %s", c.method, c.target)
		require.Contains(t, string(got.body), c.says)
		require.Equal(t, c.allow, got.header.Get("Allow"))
		require.Equal(t, "no-store", got.header.Get("Cache-Control"))
		require.Equal(t, asJSON, got.header.Get("Content-Type"))
	}
}

func TestAdminPagesOfMore(t *testing.T) {
	cases := []struct {
		target      string
		plain, full int    // status of a server that shows nothing more, and of one that shows all
		says        string // by the latter
	}{
		{"/metrics", 404, 200, `coordsvc_calls_total{code="OK",method="GetCoordinator",protocol="REST"} 1`},
		{"/configz", 404, 200, `[{"setting":"log.level"}]`},
		{"/debug/pprof/", 404, 200, "goroutine"},
		{"/debug/pprof/goroutine?debug=1", 404, 200, "goroutine profile"},
		{"/debug/pprof/heap?debug=1", 404, 200, "heap profile"},
		{"/debug/pprof/profile?seconds=1", 404, 200, ""},
		{"/debug/pprof/cmdline", 404, 404, "NOT_FOUND"},
		{"/debug/pprof/symbol", 404, 404, "NOT_FOUND"},
		{"/debug/vars", 404, 404, "it has /configz, /debug/pprof/,"},
	}
	plain := start(t, &fakeService{})
	full := start(t, &fakeService{}, func(cfg *Config) {
		cfg.Metrics = telemetry.NewMetrics(telemetry.Build{})
		cfg.Settings = []byte(`[{"setting":"log.level"}]`)
		cfg.Pprof = true
	})
	require.Equal(t, 200, full.do(t, "GET", "/v1/coordinators/GROUP/a", "").status)
	for _, c := range cases {
		require.Equal(t, c.plain, plain.doAt(t, plain.AdminAddr(), "GET", c.target, "").status, c.target)
		got := full.doAt(t, full.AdminAddr(), "GET", c.target, "")
		require.Equal(t, c.full, got.status, c.target)
		require.Contains(t, string(got.body), c.says, c.target)
		if c.full == 200 {
			require.Equal(t, 405, full.doAt(t, full.AdminAddr(), "POST", c.target, "").status, c.target)
		}
	}
}

func TestAPanicIsCountedAndTraced(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	tracing, err := telemetry.NewTracing(telemetry.TracingConfig{Exporter: spans, SampleRatio: 1})
	require.NoError(t, err)
	r := start(t, &fakeService{find: func(context.Context, *coordsvcv1.FindCoordinatorsRequest) (*coordsvcv1.FindCoordinatorsResponse, error) {
		panic("so it goes")
	}}, func(cfg *Config) {
		cfg.Metrics, cfg.Tracing = telemetry.NewMetrics(telemetry.Build{}), tracing
	})
	require.Equal(t, 500, r.do(t, "GET", "/v1/coordinators?keys=a", "").status)
	page := string(r.doAt(t, r.AdminAddr(), "GET", "/metrics", "").body)
	require.Contains(t, page, `coordsvc_calls_total{code="INTERNAL",method="FindCoordinators",protocol="REST"} 1`)
	require.Contains(t, page, "coordsvc_calls_in_flight 0")
	require.NoError(t, tracing.Flush(t.Context()))
	require.Len(t, spans.GetSpans(), 1)
	require.Equal(t, "panic", spans.GetSpans()[0].Status.Description)
	require.NoError(t, tracing.Close(t.Context()))
}

func TestHealthFollowsReadiness(t *testing.T) {
	r := start(t, &fakeService{})
	h := healthv1.NewHealthClient(r.conn)
	for _, ready := range []bool{true, false, true} {
		r.ready.Store(ready)
		want := healthv1.HealthCheckResponse_NOT_SERVING
		if ready {
			want = healthv1.HealthCheckResponse_SERVING
		}
		for _, name := range healthServices {
			require.Eventually(t, func() bool {
				resp, err := h.Check(t.Context(), &healthv1.HealthCheckRequest{Service: name})
				return err == nil && resp.GetStatus() == want
			}, 5*time.Second, 10*time.Millisecond, "service %q, ready %v", name, ready)
		}
	}
	_, err := h.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "coffee"})
	require.Equal(t, codes.NotFound, status.Code(err))
	require.NotContains(t, r.log.String(), "Health/Check", "probes are no news")
}
