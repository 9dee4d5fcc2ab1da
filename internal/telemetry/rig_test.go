package telemetry_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/internal/server"
	"github.com/coordsvc/coordsvc/internal/telemetry"
	"github.com/coordsvc/coordsvc/pool"
	"github.com/coordsvc/coordsvc/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a whole service on real listeners, in front of stub brokers.
type rig struct {
	*server.Server
	stubs   []*kafkatest.Stub
	cluster *pool.Cluster
	metrics *telemetry.Metrics
	log     *lockedBuffer
	grpc    coordsvcv1.CoordinatorServiceClient
	conn    *grpc.ClientConn
	http    *http.Client
}

// options say how a rig differs from a plain one.
type options struct {
	stubs    int // 2 if 0
	release  string
	unseen   bool // no metrics
	tracing  *telemetry.Tracing
	finder   service.FinderConfig
	logLevel slog.Level
	logTo    io.Writer
}

func start(t testing.TB, o options) *rig {
	t.Helper()
	r := &rig{stubs: kafkatest.NewStubs(t, max(o.stubs, 2), kafkatest.StubConfig{Release: o.release}), log: new(lockedBuffer)}
	to := io.Writer(r.log)
	if o.logTo != nil {
		to = o.logTo
	}
	logger := slog.New(telemetry.LogTraces(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: o.logLevel})))

	poolConfig := pool.DefaultConfig()
	poolConfig.Bootstrap = kafkatest.Addrs(r.stubs...)
	var err error
	r.cluster, err = pool.NewCluster(poolConfig)
	require.NoError(t, err)
	cfg := server.DefaultConfig()
	cfg.GRPCAddress, cfg.HTTPAddress, cfg.AdminAddress = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.DrainDelay = 0
	cfg.Tracing = o.tracing
	if o.tracing != nil {
		o.finder.Tracer = o.tracing
	}
	if !o.unseen {
		r.metrics = telemetry.NewMetrics(telemetry.Build{Version: "v1.2.3", Commit: "abc"})
		cfg.Metrics, o.finder.Observer, cfg.OnLimit = r.metrics, r.metrics, r.metrics.LimitMet
	}
	finder := service.NewFinder(r.cluster, o.finder)
	if !o.unseen {
		r.metrics.Collect(telemetry.Sources{Pool: r.cluster.Stats, Brokers: r.cluster.Brokers, Finder: finder.Stats})
	}
	r.Server, err = server.New(cfg, service.NewCoordinatorService(finder, r.cluster, service.Limits{}), r.cluster.Ready, logger)
	require.NoError(t, err)
	require.NoError(t, r.Listen())
	r.cluster.Start()

	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- r.Run(ctx) }()
	r.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	r.conn, err = grpc.NewClient(r.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	r.grpc = coordsvcv1.NewCoordinatorServiceClient(r.conn)
	t.Cleanup(func() {
		r.http.CloseIdleConnections()
		require.NoError(t, r.conn.Close())
		stop()
		require.NoError(t, <-stopped)
		closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(t, finder.Close(closing))
		require.NoError(t, r.cluster.Close(closing))
	})
	require.Eventually(t, func() bool {
		return len(r.cluster.Brokers()) == len(r.stubs) && !undiscovered(r.cluster.Brokers())
	}, 10*time.Second, time.Millisecond, "the brokers are discovered")
	return r
}

// undiscovered reports whether a broker is not connected, or not known by its id.
func undiscovered(all []pool.BrokerStatus) bool {
	return slices.ContainsFunc(all, func(b pool.BrokerStatus) bool { return b.NodeID < 0 || !b.Reachable })
}

// get asks over HTTP. headers are name, value, name, value.
func (r *rig) get(t testing.TB, at net.Addr, target string, headers ...string) (int, string) {
	t.Helper()
	return r.do(t, http.MethodGet, at, target, headers...)
}

func (r *rig) do(t testing.TB, method string, at net.Addr, target string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+at.String()+target, http.NoBody)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.http.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// scraped are the values of one scrape, by series as Prometheus writes it:
// coordsvc_calls_total{code="OK",method="GetCoordinator",protocol="REST"}.
type scraped map[string]float64

// scrape reads /metrics as Prometheus does. A histogram's series is its _count.
func (r *rig) scrape(t testing.TB) scraped {
	t.Helper()
	status, text := r.get(t, r.AdminAddr(), "/metrics")
	require.Equal(t, http.StatusOK, status, text)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	values := scraped{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				values[name+labels(m)] = m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				values[name+labels(m)] = m.GetGauge().GetValue()
			case dto.MetricType_HISTOGRAM:
				values[name+"_count"+labels(m)] = float64(m.GetHistogram().GetSampleCount())
				values[name+"_sum"+labels(m)] = m.GetHistogram().GetSampleSum()
				for _, b := range m.GetHistogram().GetBucket() {
					values[name+"_bucket"+labels(m)+fmt.Sprint(b.GetUpperBound())] = float64(b.GetCumulativeCount())
				}
			default:
				values[name+labels(m)] = 0
			}
		}
	}
	return values
}

func labels(m *dto.Metric) string {
	var pairs []string
	for _, l := range m.GetLabel() {
		pairs = append(pairs, l.GetName()+`="`+l.GetValue()+`"`)
	}
	if len(pairs) == 0 {
		return ""
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
