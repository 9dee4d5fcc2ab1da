package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/config"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
)

// TestRollout plays a rolling update as Kubernetes makes one, with the times of a
// rendered chart (make test-rollout), while callers ask over a Service and over the
// headless Service: no call is lost.
//
// What is played: a new Pod; a probe until it is ready; minReadySeconds; the removal of
// an old Pod from the Services, preStop beside it, then SIGTERM, and SIGKILL at the end
// of the grace period. DNS answers are five seconds old (the time to live of CoreDNS),
// and gRPC clients resolve at most every thirty seconds (grpc-go's own limit).
func TestRollout(t *testing.T) {
	file := os.Getenv("COORDSVC_CHART_RENDERED")
	if file == "" {
		t.Skip("make test-rollout runs it: it takes some minutes")
	}
	chart := readRendered(t, file)
	t.Logf("%d Pods, minReadySeconds %v, preStop %v, drain %v and %v, grace %v", chart.replicas, chart.minReady, chart.preStop,
		chart.settings.Shutdown.DrainDelay, chart.settings.Shutdown.DrainTimeout, chart.grace)
	fake := kafkatest.Fake(t, 3)
	c := &rollingCluster{chart: chart, brokers: fake.ListenAddrs()}
	for range chart.replicas {
		c.add(c.start(t))
	}
	time.Sleep(dnsAge)

	lost := &failures{}
	callers := map[string]func(ctx context.Context, keys []string) error{
		"REST by the Service":                      c.rest(t, false),
		"gRPC by the Service":                      c.grpcClient(t, "passthrough:///service", ""),
		"gRPC by the headless Service":             c.grpcClient(t, "pods:///headless", `{"loadBalancingConfig":[{"round_robin":{}}]}`),
		"gRPC by the headless Service and health":  c.grpcClient(t, "pods:///headless", `{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":"coordsvc.v1.CoordinatorService"}}`),
		"REST by the Service, a connection a call": c.rest(t, true),
	}
	answered := map[string]*atomic.Int64{}
	var loads []*load
	for name, ask := range callers {
		count := &atomic.Int64{}
		answered[name] = count
		loads = append(loads, startLoad(t, 2, 2*time.Millisecond, func(ctx context.Context, caller int) {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			if err := ask(ctx, []string{fmt.Sprintf("group-%d", caller), "another"}); err != nil {
				lost.add("%s: %v", name, err)
				return
			}
			count.Add(1)
		}))
	}

	began := time.Now()
	const updates = 2 // the second comes while clients may not resolve again yet
	for range updates {
		c.update(t)
	}
	c.stopping.Wait()
	for _, l := range loads {
		l.stop()
	}
	lost.report(t)
	for name, count := range answered {
		t.Logf("%7d calls %s", count.Load(), name)
		require.Greater(t, count.Load(), int64(1000), name)
	}
	t.Logf("%d rolling updates of %d Pods in %v, %d calls lost", updates, chart.replicas, time.Since(began).Round(time.Second), lost.count)
}

// rendered are the numbers of a rendered chart.
type rendered struct {
	replicas                 int
	minReady, preStop, grace time.Duration
	probe                    time.Duration
	settings                 *config.Loaded
}

func readRendered(t *testing.T, file string) rendered {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r rendered
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var object struct {
			Kind string
			Data map[string]string
			Spec struct {
				Replicas        int
				MinReadySeconds int `yaml:"minReadySeconds"`
				Template        struct {
					Spec struct {
						Grace      int `yaml:"terminationGracePeriodSeconds"`
						Containers []struct {
							Lifecycle struct {
								PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
							}
							ReadinessProbe struct {
								PeriodSeconds int `yaml:"periodSeconds"`
							} `yaml:"readinessProbe"`
						}
					}
				}
			}
		}
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if settings, ok := object.Data["coordsvc.yaml"]; ok {
			file := filepath.Join(t.TempDir(), "coordsvc.yaml")
			require.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
			r.settings, err = config.Load(config.Sources{File: file})
			require.NoError(t, err)
		}
		if object.Kind == "Deployment" {
			pod := object.Spec.Template.Spec
			r.replicas, r.minReady = object.Spec.Replicas, time.Duration(object.Spec.MinReadySeconds)*time.Second
			r.grace = time.Duration(pod.Grace) * time.Second
			r.preStop = time.Duration(pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds) * time.Second
			r.probe = time.Duration(pod.Containers[0].ReadinessProbe.PeriodSeconds) * time.Second
		}
	}
	require.NotNil(t, r.settings, "no settings in %s", file)
	require.Greater(t, r.replicas, 1)
	require.Positive(t, r.grace)
	require.Positive(t, r.minReady)
	require.Positive(t, r.probe)
	return r
}

const (
	dnsAge      = 5 * time.Second
	resolveRest = 30 * time.Second
)

// rollingCluster is what Kubernetes knows of the Pods.
type rollingCluster struct {
	chart    rendered
	brokers  []string
	stopping sync.WaitGroup

	mu      sync.Mutex
	serving []*process // the ready Pods: what the Services send calls to
	history []endpoints
}

// endpoints are the Pods behind the Services from some time on.
type endpoints struct {
	since time.Time
	pods  []*process
}

func (c *rollingCluster) start(t *testing.T) *process {
	t.Helper()
	drain := c.chart.settings.Shutdown
	p := serve(t, c.brokers, "--shutdown-drain-delay", drain.DrainDelay.String(), "--shutdown-drain-timeout", drain.DrainTimeout.String(),
		"--limits-max-connection-age", c.chart.settings.Limits.MaxConnectionAge.String())
	p.ready(t)
	time.Sleep(c.chart.probe) // so long it may take the kubelet to see it
	return p
}

func (c *rollingCluster) add(p *process) {
	c.change(func(pods []*process) []*process { return append(pods, p) })
}

func (c *rollingCluster) remove(p *process) {
	c.change(func(pods []*process) []*process {
		return slices.DeleteFunc(pods, func(q *process) bool { return q == p })
	})
}

func (c *rollingCluster) change(to func([]*process) []*process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving = to(slices.Clone(c.serving))
	c.history = append(c.history, endpoints{time.Now(), c.serving})
}

// update replaces each Pod, one more than wanted at a time, none less.
func (c *rollingCluster) update(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	old := slices.Clone(c.serving)
	c.mu.Unlock()
	for _, p := range old {
		c.add(c.start(t))
		time.Sleep(c.chart.minReady)
		c.delete(t, p)
	}
}

// delete takes a Pod out of the Services, and stops it meanwhile.
func (c *rollingCluster) delete(t *testing.T, p *process) {
	t.Helper()
	c.remove(p)
	c.stopping.Go(func() {
		deadline := time.After(c.chart.grace)
		time.Sleep(c.chart.preStop)
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-p.exited:
			if err != nil {
				t.Errorf("a Pod ended with %v\n%s", err, p.logged())
			}
			p.exited <- err
		case <-deadline:
			_ = p.cmd.Process.Kill()
			t.Errorf("a Pod was killed at the end of the grace period\n%s", p.logged())
		}
	})
}

// pick is what a Service does: one of the Pods that are ready, for the life of a connection.
func (c *rollingCluster) pick(protocol string) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, _ string) (net.Conn, error) {
		c.mu.Lock()
		p := c.serving[rand.IntN(len(c.serving))]
		c.mu.Unlock()
		return new(net.Dialer).DialContext(ctx, "tcp", p.addresses[protocol])
	}
}

func (c *rollingCluster) rest(t *testing.T, once bool) func(context.Context, []string) error {
	t.Helper()
	dial := c.pick("REST")
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: once,
		DialContext:       func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) },
	}}
	t.Cleanup(client.CloseIdleConnections)
	return func(ctx context.Context, keys []string) error {
		body := fmt.Sprintf(`{"keys":["%s"]}`, strings.Join(keys, `","`))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://service/v1/coordinators:find", strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"failed":0`))) {
			err = fmt.Errorf("%s: %s", resp.Status, answer)
		}
		return err
	}
}

// grpcClient asks at a target: the Service, or the Pods that DNS names.
func (c *rollingCluster) grpcClient(t *testing.T, target, serviceConfig string) func(context.Context, []string) error {
	t.Helper()
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if serviceConfig == "" {
		options = append(options, grpc.WithContextDialer(c.pick("gRPC")))
	} else {
		options = append(options, grpc.WithResolvers(&podNames{cluster: c}), grpc.WithDefaultServiceConfig(serviceConfig))
	}
	conn, err := grpc.NewClient(target, options...)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	client := coordsvcv1.NewCoordinatorServiceClient(conn)
	// Connecting is not what is tested: the first call waits for it.
	_, err = client.FindCoordinators(t.Context(), &coordsvcv1.FindCoordinatorsRequest{Keys: []string{"first"}}, grpc.WaitForReady(true))
	require.NoError(t, err)
	return func(ctx context.Context, keys []string) error {
		resp, err := client.FindCoordinators(ctx, &coordsvcv1.FindCoordinatorsRequest{Keys: keys})
		if err == nil && resp.GetFailed() > 0 {
			err = fmt.Errorf("%v", resp)
		}
		return err
	}
}

// podNames resolves the headless Service, as the DNS resolver of grpc-go does: when a
// connection has ended, and not again for thirty seconds.
type podNames struct{ cluster *rollingCluster }

// Scheme is pods.
func (*podNames) Scheme() string { return "pods" }

// Build resolves at once, and then whenever the client asks for it.
func (n *podNames) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	r := &podResolver{cluster: n.cluster, to: cc, asked: make(chan struct{}, 1), closed: make(chan struct{})}
	r.resolve()
	go r.run()
	return r, nil
}

type podResolver struct {
	cluster       *rollingCluster
	to            resolver.ClientConn
	asked, closed chan struct{}
}

// ResolveNow asks for a resolution soon.
func (r *podResolver) ResolveNow(resolver.ResolveNowOptions) {
	select {
	case r.asked <- struct{}{}:
	default:
	}
}

// Close ends it.
func (r *podResolver) Close() { close(r.closed) }

func (r *podResolver) run() {
	for {
		select {
		case <-r.closed:
			return
		case <-time.After(resolveRest):
		}
		select {
		case <-r.closed:
			return
		case <-r.asked:
			r.resolve()
		}
	}
}

// resolve answers with the Pods that were ready dnsAge ago.
func (r *podResolver) resolve() {
	c := r.cluster
	c.mu.Lock()
	var pods []*process
	for _, e := range c.history {
		if time.Since(e.since) >= dnsAge || pods == nil {
			pods = e.pods
		}
	}
	c.mu.Unlock()
	var state resolver.State
	for _, p := range pods {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: p.addresses["gRPC"]})
	}
	_ = r.to.UpdateState(state)
}
