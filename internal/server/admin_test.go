package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
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
		{method: "GET", target: "/readyz", ready: false, status: 503, says: "no Kafka broker has answered"},
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
