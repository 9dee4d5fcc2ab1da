package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // clients follow the health of servers
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
)

// TestRestarts restarts two instances in turn while callers of both protocols ask
// without an end, and counts the calls that are lost: none. The callers do what a
// Service of Kubernetes and a gRPC client do: they follow readiness, and what is
// sent already they wait for. COORDSVC_TEST_RESTARTS=200 does it more often.
func TestRestarts(t *testing.T) {
	restarts, delay := 20, "300ms"
	if len(buildFlags) > 0 {
		restarts, delay = 6, "1s" // under the race detector each takes its time, and so do the callers
	}
	if text := os.Getenv("COORDSVC_TEST_RESTARTS"); text != "" {
		var err error
		restarts, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	fake := kafkatest.Fake(t, 3)
	flags := []string{"--shutdown-drain-delay", delay}
	instances := []*process{serve(t, fake.ListenAddrs(), flags...), serve(t, fake.ListenAddrs(), flags...)}
	for _, p := range instances {
		p.ready(t)
	}
	byREST, byGRPC := followREST(t, instances), followGRPC(t, instances)

	// Health over gRPC follows /readyz with a small delay: the callers begin once they know both.
	answeredBy := map[string]bool{}
	for len(answeredBy) < len(instances) {
		var by peer.Peer
		_, err := byGRPC.FindCoordinators(t.Context(), &coordsvcv1.FindCoordinatorsRequest{Keys: []string{"first"}}, grpc.WaitForReady(true), grpc.Peer(&by))
		require.NoError(t, err)
		answeredBy[by.Addr.String()] = true
	}

	lost := &failures{}
	var answered [2]atomic.Int64
	var seen sync.Map // by address: when it answered last
	callers := startLoad(t, 8, time.Millisecond, func(ctx context.Context, caller int) {
		keys := []string{fmt.Sprintf("group-%d", caller), "another"}
		if caller%2 == 0 {
			where, resp, err := byREST.post(ctx, keys)
			if err != nil {
				lost.add("REST at %s: %v", where, err)
				return
			}
			answered[0].Add(1)
			seen.Store(where, time.Now())
			if resp != http.StatusOK {
				lost.add("REST at %s: status %d", where, resp)
			}
			return
		}
		var by peer.Peer
		resp, err := byGRPC.FindCoordinators(ctx, &coordsvcv1.FindCoordinatorsRequest{Keys: keys}, grpc.Peer(&by))
		answered[1].Add(1)
		if by.Addr != nil {
			seen.Store(by.Addr.String(), time.Now())
		}
		if err != nil || resp.GetFailed() != 0 {
			lost.add("gRPC: %v, %v", err, resp)
		}
	})

	began := time.Now()
	for i := range restarts {
		old := instances[i%2]
		old.stop(t)
		same := append(slices.Clone(flags), "--grpc-address", old.addresses["gRPC"], "--http-address", old.addresses["REST"], "--admin-address", old.addresses["admin"])
		instances[i%2] = serve(t, fake.ListenAddrs(), same...)
		instances[i%2].ready(t)
		// minReadySeconds, as it were: the other goes once callers have found this one.
		back := time.Now()
		require.Eventually(t, func() bool {
			for _, protocol := range []string{"REST", "gRPC"} {
				if last, ok := seen.Load(old.addresses[protocol]); !ok || last.(time.Time).Before(back) {
					return false
				}
			}
			return true
		}, 20*time.Second, 10*time.Millisecond, "callers do not come back to an instance that is ready")
	}
	callers.stop()
	lost.report(t)
	t.Logf("%d restarts in %v; %d calls by REST and %d by gRPC, %d lost", restarts, time.Since(began).Round(time.Millisecond),
		answered[0].Load(), answered[1].Load(), lost.count)
	require.Greater(t, answered[0].Load(), int64(20*restarts))
	require.Greater(t, answered[1].Load(), int64(20*restarts))
}

// restFollower sends calls to the instances that are ready, in turn.
type restFollower struct {
	addresses []string
	ready     []atomic.Bool
	next      atomic.Int64
	client    *http.Client
}

// followREST asks each instance often whether it is ready, as a kubelet does.
func followREST(t *testing.T, instances []*process) *restFollower {
	t.Helper()
	f := &restFollower{ready: make([]atomic.Bool, len(instances)), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}}}
	t.Cleanup(f.client.CloseIdleConnections)
	probes := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	for i, p := range instances {
		f.addresses = append(f.addresses, p.addresses["REST"])
		f.ready[i].Store(true)
		startLoad(t, 1, 20*time.Millisecond, func(ctx context.Context, _ int) {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addresses["admin"]+"/readyz", nil)
			resp, err := probes.Do(req)
			f.ready[i].Store(err == nil && resp.StatusCode == http.StatusOK)
			if err == nil {
				resp.Body.Close()
			}
		})
	}
	return f
}

func (f *restFollower) post(ctx context.Context, keys []string) (where string, status int, err error) {
	first := int(f.next.Add(1))
	for k := range f.addresses {
		i := (first + k) % len(f.addresses)
		if !f.ready[i].Load() {
			continue
		}
		body := fmt.Sprintf(`{"keys":["%s","%s"]}`, keys[0], keys[1])
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+f.addresses[i]+"/v1/coordinators:find", strings.NewReader(body))
		if err != nil {
			return f.addresses[i], 0, err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := f.client.Do(req)
		if err != nil {
			return f.addresses[i], 0, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return f.addresses[i], resp.StatusCode, err
	}
	return "no address", 0, errors.New("no instance is ready")
}

// followGRPC is a client that spreads its calls over the instances whose health
// service says SERVING: three lines of a service config.
func followGRPC(t *testing.T, instances []*process) coordsvcv1.CoordinatorServiceClient {
	t.Helper()
	names := manual.NewBuilderWithScheme("instances")
	var state resolver.State
	for _, p := range instances {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: p.addresses["gRPC"]})
	}
	names.InitialState(state)
	conn, err := grpc.NewClient("instances:///", grpc.WithResolvers(names), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":"coordsvc.v1.CoordinatorService"}}`),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: 100 * time.Millisecond}, MinConnectTimeout: time.Second}))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return coordsvcv1.NewCoordinatorServiceClient(conn)
}
