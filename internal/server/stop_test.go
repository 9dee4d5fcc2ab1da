package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// bothProtocols are the ways to look up one key.
func bothProtocols(r *running) map[string]func(context.Context, string) error {
	return map[string]func(context.Context, string) error{
		"gRPC": func(ctx context.Context, key string) error {
			resp, err := r.grpc.GetCoordinator(ctx, &coordsvcv1.GetCoordinatorRequest{Key: key})
			if err == nil && resp.GetResult().GetKey() != key {
				err = errors.New("the answer of another call")
			}
			return err
		},
		"REST": func(ctx context.Context, key string) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.HTTPAddr().String()+"/v1/coordinator?key="+url.QueryEscape(key), nil)
			if err != nil {
				return err
			}
			resp, err := r.http.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err == nil && resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
			}
			return err
		},
	}
}

// TestStopLosesNoCall stops a server with calls in flight on both protocols: each
// of them gets its answer.
func TestStopLosesNoCall(t *testing.T) {
	const each = 50
	entered, proceed := make(chan struct{}, 2*each), make(chan struct{})
	svc := &fakeService{get: func(_ context.Context, req *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
		entered <- struct{}{}
		<-proceed
		return &coordsvcv1.GetCoordinatorResponse{Result: found(req.GetKey())}, nil
	}}
	r := start(t, svc)
	var calls sync.WaitGroup
	failures := make(chan error, 2*each)
	for name, call := range bothProtocols(r) {
		for i := range each {
			calls.Go(func() {
				if err := call(context.Background(), fmt.Sprint(i)); err != nil {
					failures <- fmt.Errorf("%s: %w", name, err)
				}
			})
		}
	}
	for range 2 * each {
		<-entered
	}
	r.stop()
	require.Eventually(t, func() bool { return !canDial(r.HTTPAddr()) && !canDial(r.GRPCAddr()) }, 5*time.Second, 5*time.Millisecond,
		"no new connection is taken")
	require.True(t, canDial(r.AdminAddr()), "probes are answered to the end")
	require.Equal(t, 503, r.doAt(t, r.AdminAddr(), "GET", "/readyz", "").status)
	require.Equal(t, 200, r.doAt(t, r.AdminAddr(), "GET", "/livez", "").status)
	select {
	case err := <-r.stopped:
		t.Fatal("stopped with calls in flight", err)
	default:
	}
	close(proceed)
	calls.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	r.waitStopped(t)
	require.False(t, canDial(r.AdminAddr()))
}

func canDial(a net.Addr) bool {
	c, err := net.Dial("tcp", a.String())
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// TestDrainDelayServes: while the delay lasts the server says that it is not
// ready, and serves whoever comes all the same.
func TestDrainDelayServes(t *testing.T) {
	r := start(t, &fakeService{}, func(c *Config) { c.DrainDelay = 2 * time.Second })
	h := healthv1.NewHealthClient(r.conn)
	require.Eventually(t, func() bool { return healthOf(t, h) == healthv1.HealthCheckResponse_SERVING }, 5*time.Second, 5*time.Millisecond)
	require.Empty(t, r.do(t, "GET", "/v1/brokers", "").header.Get("Connection"))

	r.stop()
	require.Eventually(t, func() bool { return r.drain.stopping.Load() }, 5*time.Second, time.Millisecond)
	got := r.doAt(t, r.AdminAddr(), "GET", "/readyz", "")
	require.Equal(t, 503, got.status)
	require.Contains(t, string(got.body), "stopping")
	require.Eventually(t, func() bool { return healthOf(t, h) == healthv1.HealthCheckResponse_NOT_SERVING }, time.Second, time.Millisecond)
	for name, call := range bothProtocols(r) {
		require.NoError(t, call(t.Context(), "a"), name)
	}
	// New connections too. (The test's client hides the header from resp.Header.)
	raw := exchange(t, r.HTTPAddr(), "GET /v1/brokers HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, 200, raw.status)
	r.waitStopped(t)
}

func healthOf(t *testing.T, h healthv1.HealthClient) healthv1.HealthCheckResponse_ServingStatus {
	t.Helper()
	resp, err := h.Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	return resp.GetStatus()
}

// TestDrainTimeoutCutsOff: a call that takes too long is cancelled, and Run returns
// only when it has left the service.
func TestDrainTimeoutCutsOff(t *testing.T) {
	var inside atomic.Int32
	entered := make(chan struct{}, 2)
	svc := &fakeService{get: func(ctx context.Context, _ *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
		inside.Add(1)
		entered <- struct{}{}
		<-ctx.Done()
		time.Sleep(50 * time.Millisecond) // tidying up
		inside.Add(-1)
		return nil, ctx.Err()
	}}
	r := start(t, svc, func(c *Config) { c.DrainTimeout = 100 * time.Millisecond })
	var calls sync.WaitGroup
	for _, call := range bothProtocols(r) {
		calls.Go(func() {
			if call(context.Background(), "a") == nil {
				t.Error("a call that was cut off has an answer")
			}
		})
	}
	<-entered
	<-entered
	began := time.Now()
	r.stop()
	r.waitStopped(t)
	require.Zero(t, inside.Load())
	require.Less(t, time.Since(began), 2*time.Second)
	require.Contains(t, r.log.String(), "cut off")
	calls.Wait()
}

// TestStopDoesNotWaitForever: not even for a call that ignores its cancellation.
func TestStopDoesNotWaitForever(t *testing.T) {
	entered, release := make(chan struct{}, 2), make(chan struct{})
	svc := &fakeService{get: func(context.Context, *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
		entered <- struct{}{}
		<-release
		return nil, errors.New("late")
	}}
	r := start(t, svc, func(c *Config) { c.DrainTimeout = 50 * time.Millisecond })
	var calls sync.WaitGroup
	for _, call := range bothProtocols(r) {
		calls.Go(func() { _ = call(context.Background(), "a") })
	}
	<-entered
	<-entered
	r.stop()
	r.waitStopped(t)
	require.Contains(t, r.log.String(), "did not end when they were cut off")
	close(release)
	calls.Wait()
}

// Health is open to strangers: they must not fill the memory with watchers.
func TestStreamsOfAConnection(t *testing.T) {
	r := start(t, &fakeService{})
	health := healthv1.NewHealthClient(r.conn)
	watch := func(ctx context.Context) error {
		w, err := health.Watch(ctx, &healthv1.HealthCheckRequest{})
		require.NoError(t, err)
		_, err = w.Recv()
		return err
	}
	ctx, end := context.WithCancel(t.Context())
	for range streamsPerConnection {
		require.NoError(t, watch(ctx))
	}
	err := watch(ctx)
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.Equal(t, "TOO_MANY_STREAMS", reasonOf(err))
	_, err = health.Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err, "a single question is no stream")
	end()
	require.Eventually(t, func() bool { return watch(t.Context()) == nil }, 5*time.Second, 10*time.Millisecond, "those that ended count no more")
}

// TestWatchersDoNotHoldUpTheStop: streams of health and reflection that their
// clients keep open end by themselves.
func TestWatchersDoNotHoldUpTheStop(t *testing.T) {
	r := start(t, &fakeService{}, func(c *Config) { c.DrainTimeout = 15 * time.Second })
	watch, err := healthv1.NewHealthClient(r.conn).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	for { // NOT_SERVING at the very start, then SERVING
		resp, err := watch.Recv()
		require.NoError(t, err)
		if resp.GetStatus() == healthv1.HealthCheckResponse_SERVING {
			break
		}
	}
	reflect, err := reflectionv1.NewServerReflectionClient(r.conn).ServerReflectionInfo(t.Context())
	require.NoError(t, err)
	require.NoError(t, reflect.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}))
	list, err := reflect.Recv()
	require.NoError(t, err)
	var names []string
	for _, s := range list.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	require.Contains(t, names, "coordsvc.v1.CoordinatorService")
	require.Contains(t, names, "grpc.health.v1.Health")

	began := time.Now()
	r.stop()
	r.waitStopped(t)
	require.Less(t, time.Since(began), 5*time.Second)
	require.NotContains(t, r.log.String(), "cut off")
	_, err = reflect.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err))
	for { // what health said last, then the end
		resp, err := watch.Recv()
		if err != nil {
			break
		}
		require.Equal(t, healthv1.HealthCheckResponse_NOT_SERVING, resp.GetStatus())
	}
}

func TestRunEndsWhenAListenerFails(t *testing.T) {
	r := start(t, &fakeService{})
	require.NoError(t, r.restListener.Close())
	select {
	case err := <-r.stopped:
		require.ErrorContains(t, err, "serving REST on "+r.HTTPAddr().String())
		r.stopped <- nil
	case <-time.After(10 * time.Second):
		t.Fatal("Run goes on without its listener")
	}
}

// TestThousandCallersOnOneConnection: none of them is refused.
func TestThousandCallersOnOneConnection(t *testing.T) {
	const callers = 1500 // more than one connection may have streams
	svc := &fakeService{get: func(_ context.Context, req *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
		time.Sleep(10 * time.Millisecond)
		return &coordsvcv1.GetCoordinatorResponse{Result: found(req.GetKey())}, nil
	}}
	r := start(t, svc)
	conn, err := grpc.NewClient(r.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	client := coordsvcv1.NewCoordinatorServiceClient(conn)
	var calls sync.WaitGroup
	var failed atomic.Int32
	for i := range callers {
		calls.Go(func() {
			if _, err := client.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: fmt.Sprint(i)}); err != nil {
				failed.Add(1)
			}
		})
	}
	calls.Wait()
	require.Zero(t, failed.Load())
}
