package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/telemetry"
)

// stalled is a service whose lookups end when open is called, at the latest at the
// end of the test.
func stalled(t *testing.T) (svc *fakeService, inside chan struct{}, open func()) {
	t.Helper()
	gate, once := make(chan struct{}), sync.Once{}
	inside = make(chan struct{}, 10_000)
	open = func() { once.Do(func() { close(gate) }) }
	t.Cleanup(open)
	svc = &fakeService{get: func(ctx context.Context, req *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
		inside <- struct{}{}
		select {
		case <-gate:
			return &coordsvcv1.GetCoordinatorResponse{Result: found(req.GetKey())}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	return svc, inside, open
}

// limitsMet counts what Config.OnLimit is told.
type limitsMet struct {
	mu     sync.Mutex
	counts map[string]int
}

func (l *limitsMet) met(setting string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[setting]++
}

func (l *limitsMet) count(setting string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[setting]
}

func TestLimitsHaveMetrics(t *testing.T) {
	require.ElementsMatch(t, telemetry.Limits, []string{LimitCallsInFlight, LimitMessageBytes})
}

// TestTooManyCalls: two calls are inside, of either protocol; the third is refused
// at once by both protocols alike, and is let in as soon as there is room.
func TestTooManyCalls(t *testing.T) {
	svc, inside, open := stalled(t)
	limits := &limitsMet{counts: map[string]int{}}
	r := start(t, svc, func(c *Config) { c.MaxCallsInFlight, c.OnLimit = 2, limits.met })
	var calls sync.WaitGroup
	for _, call := range bothProtocols(r) {
		calls.Go(func() {
			if err := call(t.Context(), "in"); err != nil {
				t.Error(err)
			}
		})
		<-inside
	}
	require.Equal(t, 2, r.inFlight.count())

	_, err := r.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: "a"})
	requireOverloaded(t, status.Convert(err))
	for _, ask := range []func() answer{
		func() answer { return r.do(t, "GET", "/v1/coordinator?key=a", "") },
		// The body is not even looked at.
		func() answer { return r.do(t, "POST", "/v1/coordinators:find", "{", "Content-Type", asJSON) },
		func() answer { return r.do(t, "GET", "/v1/brokers", "") },
	} {
		got := ask()
		require.Equal(t, http.StatusTooManyRequests, got.status)
		require.Equal(t, "1", got.header.Get("Retry-After"))
		requireOverloaded(t, requireStatus(t, got, "OVERLOADED"))
	}
	require.Equal(t, 4, limits.count(LimitCallsInFlight))
	require.Contains(t, r.log.String(), "OVERLOADED", "refusals are logged")
	require.Equal(t, 200, r.doAt(t, r.AdminAddr(), "GET", "/readyz", "").status, "an overloaded instance is ready all the same")

	open()
	calls.Wait()
	require.Eventually(t, func() bool { return r.inFlight.count() == 0 }, time.Second, time.Millisecond)
	require.Equal(t, 200, r.do(t, "GET", "/v1/brokers", "").status)
}

func requireOverloaded(t *testing.T, s *status.Status) {
	t.Helper()
	require.Equal(t, codes.ResourceExhausted, s.Code())
	require.Contains(t, s.Message(), "2 calls")
	require.Contains(t, s.Message(), "limits.max-calls-in-flight")
	info := errorInfoOf(s)
	require.Equal(t, "OVERLOADED", info.GetReason())
	require.Equal(t, map[string]string{"retriable": "true", "setting": "limits.max-calls-in-flight", "limit": "2"}, info.GetMetadata())
	var retries int
	for _, d := range s.Details() {
		if retry, ok := d.(*errdetails.RetryInfo); ok {
			require.Equal(t, time.Second, retry.GetRetryDelay().AsDuration())
			retries++
		}
	}
	require.Equal(t, 1, retries)
}

// TestRefusedRESTCallsLeaveTheirPlace: whatever a request is refused for, its place is free again.
func TestRefusedRESTCallsLeaveTheirPlace(t *testing.T) {
	r := start(t, &fakeService{}, func(c *Config) { c.MaxCallsInFlight, c.MaxMessageBytes = 1, 100 })
	for range 3 {
		require.Equal(t, 400, r.do(t, "POST", "/v1/coordinators:find", "{", "Content-Type", asJSON).status)
		require.Equal(t, 415, r.do(t, "POST", "/v1/coordinators:find", "{}").status)
		require.Equal(t, 413, r.do(t, "POST", "/v1/coordinators:find", strings.Repeat(" ", 200), "Content-Type", asJSON).status)
		require.Equal(t, 400, r.do(t, "GET", "/v1/coordinator?kee=a", "").status)
	}
	require.Equal(t, 200, r.do(t, "GET", "/v1/coordinator?key=a", "").status)
	require.Zero(t, r.inFlight.count())
}

// TestMessageSize: one setting holds for both ports, to the byte on each.
func TestMessageSize(t *testing.T) {
	const most = 10_000
	limits := &limitsMet{counts: map[string]int{}}
	r := start(t, &fakeService{}, func(c *Config) { c.MaxMessageBytes, c.OnLimit = most, limits.met })
	overGRPC := func(size int) error {
		_, err := r.grpc.FindCoordinators(t.Context(), &coordsvcv1.FindCoordinatorsRequest{Keys: []string{strings.Repeat("k", size-3)}})
		return err
	}
	overREST := func(size int) answer {
		body := `{"keys":["` + strings.Repeat("k", size-len(`{"keys":[""]}`)) + `"]}`
		require.Len(t, body, size)
		return r.do(t, "POST", "/v1/coordinators:find", body, "Content-Type", asJSON)
	}
	require.NoError(t, overGRPC(most))
	require.Equal(t, 200, overREST(most).status)
	require.Zero(t, limits.count(LimitMessageBytes))

	err := overGRPC(most + 1)
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "10001 vs. 10000")
	got := overREST(most + 1)
	require.Equal(t, 413, got.status)
	require.Contains(t, requireStatus(t, got, "REQUEST_TOO_LARGE").Message(), "limits.max-message-bytes")
	require.Equal(t, 2, limits.count(LimitMessageBytes))
	require.Contains(t, r.log.String(), `"reason":"REQUEST_TOO_LARGE","`, "the gRPC call is logged with our reason")
}

// TestConnectionAge: both protocols make new connections, and no call is lost to it.
func TestConnectionAge(t *testing.T) {
	svc := &fakeService{get: func(_ context.Context, req *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
		time.Sleep(5 * time.Millisecond)
		return &coordsvcv1.GetCoordinatorResponse{Result: found(req.GetKey())}, nil
	}}
	r := start(t, svc, func(c *Config) { c.MaxConnectionAge = 100 * time.Millisecond })
	var calls sync.WaitGroup
	for _, call := range bothProtocols(r) {
		calls.Go(func() {
			for until := time.Now().Add(time.Second); time.Now().Before(until); {
				if err := call(t.Context(), "a"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	calls.Wait()
	reused := func() bool {
		var info httptrace.GotConnInfo
		trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { info = i }}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, "http://"+r.HTTPAddr().String()+"/v1/brokers", nil)
		require.NoError(t, err)
		resp, err := r.http.Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return info.Reused
	}
	require.Eventually(t, reused, time.Second, time.Millisecond, "connections are kept")
	require.Eventually(t, func() bool { return !reused() }, 5*time.Second, 50*time.Millisecond, "and closed when they are old")
}

// TestSlowHeaders: a connection that does not say what it wants is ended.
func TestSlowHeaders(t *testing.T) {
	r := start(t, &fakeService{})
	var waits sync.WaitGroup
	for name, addr := range map[string]net.Addr{"gRPC": r.GRPCAddr(), "REST": r.HTTPAddr(), "admin": r.AdminAddr()} {
		waits.Go(func() {
			conn, err := net.Dial("tcp", addr.String())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = conn.Write([]byte("P"))
			_ = conn.SetReadDeadline(time.Now().Add(2 * readHeaderTimeout))
			if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("%s holds a connection that trickles: %v", name, err)
			}
		})
	}
	waits.Wait()
}

// BenchmarkOverload is a refused call without sockets: what it costs the chain and
// the front.
func BenchmarkOverload(b *testing.B) {
	cfg := DefaultConfig()
	cfg.MaxCallsInFlight = 1
	s, err := New(cfg, &fakeService{}, func() bool { return true }, slog.New(slog.NewJSONHandler(io.Discard, nil))) //nolint:sloglint // the line that is logged counts
	require.NoError(b, err)
	b.Cleanup(s.drain.endStreams)
	require.NoError(b, s.inFlight.enter())
	for _, target := range []struct {
		name, method, path, body string
		want                     int
	}{
		{"calls in flight", "GET", "/v1/coordinators/GROUP/orders", "", 429},
		{"calls in flight, POST", "POST", "/v1/coordinators:find", manyKeysJSON(10), 429},
		{"no such page", "GET", "/v1/nothing", "", 404},
	} {
		b.Run(target.name, func(b *testing.B) {
			measureCPU(b, func() {
				if w, ok := send(b, s.rest.Handler, target.method, target.path, target.body); !ok || w.Code != target.want {
					b.Fatal(fmt.Sprint(w.Code))
				}
			})
		})
	}
}
