package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/auth"
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
	require.ElementsMatch(t, telemetry.Limits, []string{LimitCallsInFlight, LimitMemory, LimitMessageBytes, LimitWaitingKeys, LimitKeys})
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
	require.Eventually(t, func() bool { return r.inFlight.count() == 0 }, 5*time.Second, time.Millisecond)
	require.Equal(t, 200, r.do(t, "GET", "/v1/brokers", "").status)
}

func TestMemoryIsChosen(t *testing.T) {
	const MiB = 1 << 20
	largest := DefaultConfig().largestCall()
	require.EqualValues(t, 1024*MiB, chooseMemory(math.MaxInt64, largest))
	const manyKeys = 10_000 * (memoryPerKey + memoryPerByte*40) // with ids of 36 bytes
	require.LessOrEqual(t, int64(64*manyKeys), chooseMemory(math.MaxInt64, largest)*3/4, "64 calls of 10,000 keys are no attack")
	require.EqualValues(t, 512*MiB, chooseMemory(1024*MiB, largest))
	require.Equal(t, leastMemory(largest), chooseMemory(50*MiB, largest), "in a small container one call at a time")
	require.GreaterOrEqual(t, leastMemory(largest)-leastMemory(largest)/4, largest)

	for name, memory := range map[string]int64{"one byte less": leastMemory(largest) - 1, "least": leastMemory(largest), "chosen": 0} {
		cfg := DefaultConfig()
		cfg.MaxMemory = memory
		err := Check(cfg)
		if name != "one byte less" {
			require.NoError(t, err, name)
			continue
		}
		var setting *auth.SettingError
		require.ErrorAs(t, err, &setting)
		require.Equal(t, "limits.max-calls-memory", setting.Setting)
	}
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
	got := overREST(most + 1)
	require.Equal(t, 413, got.status)
	for _, s := range []*status.Status{status.Convert(err), requireStatus(t, got, "REQUEST_TOO_LARGE")} {
		require.Contains(t, s.Message(), "of 10001 bytes is over the limit of 10000 bytes (setting limits.max-message-bytes)")
		require.Equal(t, "REQUEST_TOO_LARGE", errorInfoOf(s).GetReason())
		require.Equal(t, map[string]string{"retriable": "false", "setting": "limits.max-message-bytes", "limit": "10000"}, errorInfoOf(s).GetMetadata())
	}
	require.Equal(t, 2, limits.count(LimitMessageBytes))
	require.Contains(t, r.log.String(), `"reason":"REQUEST_TOO_LARGE","`, "the gRPC call is logged with our reason")
}

// TestTooManyKeys: they are counted, not decoded.
func TestTooManyKeys(t *testing.T) {
	limits, svc := &limitsMet{counts: map[string]int{}}, &fakeService{}
	r := start(t, svc, func(c *Config) { c.MaxKeys, c.OnLimit = 3, limits.met })
	find := func(n int) (inBody, inQuery answer, err error) {
		_, err = r.grpc.FindCoordinators(t.Context(), &coordsvcv1.FindCoordinatorsRequest{Keys: make([]string, n)})
		body, jsonErr := json.Marshal(map[string]any{"keys": make([]string, n)})
		require.NoError(t, jsonErr)
		return r.do(t, "POST", "/v1/coordinators:find", string(body), "Content-Type", asJSON),
			r.do(t, "GET", "/v1/coordinators?"+strings.Repeat("keys=&", n), ""), err
	}
	inBody, inQuery, err := find(3)
	require.NoError(t, err)
	require.Equal(t, 200, inBody.status)
	require.Equal(t, 200, inQuery.status)

	svc.saw(nil)
	inBody, inQuery, err = find(4)
	require.Equal(t, 400, inBody.status)
	require.Equal(t, 400, inQuery.status)
	for _, s := range []*status.Status{status.Convert(err), requireStatus(t, inBody, "INVALID_ARGUMENT"), requireStatus(t, inQuery, "INVALID_ARGUMENT")} {
		require.Equal(t, codes.InvalidArgument, s.Code())
		require.Equal(t, "keys: has 4 keys; at most 3 a call (lookup.max-keys): ask in several calls", s.Message())
		require.Equal(t, map[string]string{"retriable": "false", "setting": "lookup.max-keys", "limit": "3"}, errorInfoOf(s).GetMetadata())
	}
	require.Nil(t, svc.lastRequest())
	require.Equal(t, 3, limits.count(LimitKeys))
}

// TestMemoryOfCalls: large calls that do not fit any more are refused at once by
// both protocols, with the body unread; small ones are let in; and all of the
// memory is free in the end.
func TestMemoryOfCalls(t *testing.T) {
	const size = 100_000 // of a request; two fit into three quarters
	const most = 1_204_000
	gate, inside := make(chan struct{}), make(chan struct{}, 10)
	svc := &fakeService{find: func(context.Context, *coordsvcv1.FindCoordinatorsRequest) (*coordsvcv1.FindCoordinatorsResponse, error) {
		inside <- struct{}{}
		<-gate
		return &coordsvcv1.FindCoordinatorsResponse{}, nil
	}}
	limits := &limitsMet{counts: map[string]int{}}
	r := start(t, svc, func(c *Config) { c.MaxMemory, c.MaxMessageBytes, c.MaxKeys, c.OnLimit = most, 2*size, 100, limits.met })
	body := `{"keys":["` + strings.Repeat("k", size-len(`{"keys":[""]}`)-memoryPerKey) + `"]}`
	large := &coordsvcv1.FindCoordinatorsRequest{Keys: []string{strings.Repeat("k", size-memoryPerKey)}}

	var calls sync.WaitGroup
	calls.Go(func() {
		if _, err := r.grpc.FindCoordinators(context.Background(), large); err != nil {
			t.Error(err)
		}
	})
	<-inside
	calls.Go(func() {
		if got := r.do(t, "POST", "/v1/coordinators:find", body, "Content-Type", asJSON); got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
	<-inside

	full := func(s *status.Status) {
		t.Helper()
		require.Equal(t, codes.ResourceExhausted, s.Code())
		require.Contains(t, s.Message(), "limits.max-calls-memory")
		require.Equal(t, map[string]string{"retriable": "true", "setting": "limits.max-calls-memory", "limit": strconv.Itoa(most)}, errorInfoOf(s).GetMetadata())
	}
	_, err := r.grpc.FindCoordinators(t.Context(), large)
	full(status.Convert(err))
	_, err = r.grpc.FindCoordinators(t.Context(), &coordsvcv1.FindCoordinatorsRequest{Keys: []string{"k"}}, grpc.UseCompressor("gzip"))
	full(status.Convert(err)) // how large it is nobody knows
	got := r.do(t, "POST", "/v1/coordinators:find", body, "Content-Type", asJSON)
	require.Equal(t, http.StatusTooManyRequests, got.status)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	full(requireStatus(t, got, "OVERLOADED"))
	// The head is enough.
	c, err := net.Dial("tcp", r.HTTPAddr().String())
	require.NoError(t, err)
	defer c.Close()
	got = sendRaw(t, c, "POST /v1/coordinators:find HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n")
	require.Equal(t, http.StatusTooManyRequests, got.status)
	// In pieces of unknown number it is refused on the way.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.HTTPAddr().String()+"/v1/coordinators:find", io.MultiReader(strings.NewReader(body)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", asJSON)
	resp, err := r.http.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	// Keys in the URL take as much as keys in a body: for their bytes, and each for itself.
	before, target := r.memory.used.Load(), "/v1/coordinators?"+strings.Repeat("keys=&", 100)
	calls.Go(func() {
		if got := r.do(t, "GET", target, ""); got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
	<-inside
	require.EqualValues(t, before+100*memoryPerKey+memoryPerByte*int64(len(target)), r.memory.used.Load())
	got = r.do(t, "GET", "/v1/coordinator?key="+strings.Repeat("k", size), "")
	require.Equal(t, http.StatusTooManyRequests, got.status)
	full(requireStatus(t, got, "OVERLOADED"))
	require.Equal(t, 6, limits.count(LimitMemory))

	for _, call := range bothProtocols(r) {
		require.NoError(t, call(t.Context(), "small"))
	}
	close(gate)
	calls.Wait()
	require.Eventually(t, func() bool { return r.memory.used.Load() == 0 }, 5*time.Second, time.Millisecond)
	require.NoError(t, errors.Join(bothProtocols(r)["REST"](t.Context(), "k")))
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
	require.Eventually(t, reused, 10*time.Second, time.Millisecond, "connections are kept")
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

// TestHeaderLimit: one limit holds for both ports, so that a long token works by both
// or by neither, and is told why.
func TestHeaderLimit(t *testing.T) {
	r := start(t, &fakeService{})
	ask := func(size int) (restStatus int, grpcErr error) {
		large := strings.Repeat("x", size)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+large)
		_, grpcErr = r.grpc.ListBrokers(ctx, &coordsvcv1.ListBrokersRequest{})
		return r.do(t, "GET", "/v1/brokers", "", "Authorization", "Bearer "+large).status, grpcErr
	}
	rest, grpcErr := ask(maxHeaderBytes - 4<<10)
	require.NoError(t, grpcErr)
	require.Equal(t, 200, rest)
	rest, grpcErr = ask(maxHeaderBytes + 8<<10)
	require.Error(t, grpcErr)
	require.ErrorContains(t, grpcErr, "header list size")
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, rest)
}

// TestKeepalivePolicy: a client that pings every ten seconds stays, one that pings all
// the time is sent away, also where it has no call in flight.
func TestKeepalivePolicy(t *testing.T) {
	r := start(t, &fakeService{})
	for name, c := range map[string]struct {
		pings int
		gone  bool
	}{"decent": {2, false}, "flood": {20, true}} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", r.GRPCAddr().String())
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(2*time.Second)))
			_, err = io.WriteString(conn, http2.ClientPreface)
			require.NoError(t, err)
			framer := http2.NewFramer(conn, conn)
			require.NoError(t, framer.WriteSettings())
			for range c.pings {
				_ = framer.WritePing(false, [8]byte{})
			}
			var said string
			for {
				frame, err := framer.ReadFrame()
				if err != nil {
					break
				}
				if f, ok := frame.(*http2.GoAwayFrame); ok {
					said = string(f.DebugData())
				}
			}
			require.Equal(t, c.gone, said == "too_many_pings", said)
		})
	}
	require.LessOrEqual(t, minKeepaliveInterval, 20*time.Second, "the default of grpc-go, five minutes, sends decent clients away")
}
