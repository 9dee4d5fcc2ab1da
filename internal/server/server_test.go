package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeService answers with what was asked, so that a test sees what arrived. The
// functions, where given, stand before that.
type fakeService struct {
	coordsvcv1.UnimplementedCoordinatorServiceServer

	find func(context.Context, *coordsvcv1.FindCoordinatorsRequest) (*coordsvcv1.FindCoordinatorsResponse, error)
	get  func(context.Context, *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error)

	mu   sync.Mutex
	last any // the last request
}

func (f *fakeService) saw(req any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = req
}

func (f *fakeService) lastRequest() any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

func (f *fakeService) FindCoordinators(ctx context.Context, req *coordsvcv1.FindCoordinatorsRequest) (*coordsvcv1.FindCoordinatorsResponse, error) {
	f.saw(req)
	if f.find != nil {
		return f.find(ctx, req)
	}
	resp := &coordsvcv1.FindCoordinatorsResponse{}
	for _, key := range req.GetKeys() {
		resp.Results = append(resp.Results, found(key))
	}
	return resp, nil
}

func (f *fakeService) GetCoordinator(ctx context.Context, req *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
	f.saw(req)
	if f.get != nil {
		return f.get(ctx, req)
	}
	return &coordsvcv1.GetCoordinatorResponse{Result: found(req.GetKey())}, nil
}

func (f *fakeService) ListBrokers(_ context.Context, req *coordsvcv1.ListBrokersRequest) (*coordsvcv1.ListBrokersResponse, error) {
	f.saw(req)
	return &coordsvcv1.ListBrokersResponse{Brokers: []*coordsvcv1.Broker{{
		NodeId: -1, Host: "kafka-1.example", Port: 9092, Connections: &coordsvcv1.BrokerConnections{},
	}}}, nil
}

func found(key string) *coordsvcv1.CoordinatorResult {
	return &coordsvcv1.CoordinatorResult{
		Key: key, ApiVersion: 6, AnsweredBy: "kafka-1.example:9092",
		Outcome: &coordsvcv1.CoordinatorResult_Coordinator{
			Coordinator: &coordsvcv1.Coordinator{NodeId: 0, Host: "kafka-2.example", Port: 9092},
		},
	}
}

// running is a whole server on real listeners, and clients of it.
type running struct {
	*Server
	ready *atomic.Bool
	log   *logBuffer
	level *slog.LevelVar
	grpc  coordsvcv1.CoordinatorServiceClient
	conn  *grpc.ClientConn
	http  *http.Client

	stop    context.CancelFunc
	stopped chan error
}

// start starts a server of svc that stops, and must stop well, at the end of the test.
func start(t *testing.T, svc coordsvcv1.CoordinatorServiceServer, changes ...func(*Config)) *running {
	t.Helper()
	cfg := DefaultConfig()
	cfg.GRPCAddress, cfg.HTTPAddress, cfg.AdminAddress = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.DrainDelay, cfg.DrainTimeout = 0, 10*time.Second
	for _, change := range changes {
		change(&cfg)
	}
	r := &running{ready: new(atomic.Bool), log: new(logBuffer), level: new(slog.LevelVar), stopped: make(chan error, 1)}
	r.ready.Store(true)
	logger := slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: r.level}))
	var err error
	r.Server, err = New(cfg, svc, r.ready.Load, logger)
	require.NoError(t, err)
	require.NoError(t, r.Listen())

	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.stopped <- r.Run(ctx) }()

	transport := &http.Transport{}
	r.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r.conn, err = grpc.NewClient(r.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	r.grpc = coordsvcv1.NewCoordinatorServiceClient(r.conn)
	t.Cleanup(func() {
		stop()
		select {
		case err := <-r.stopped:
			require.NoError(t, err)
		case <-time.After(20 * time.Second):
			t.Error("the server did not stop")
		}
		transport.CloseIdleConnections()
		require.NoError(t, r.conn.Close())
	})
	return r
}

// waitStopped waits for Run; the cleanup of start finds its result again.
func (r *running) waitStopped(t *testing.T) {
	t.Helper()
	select {
	case err := <-r.stopped:
		require.NoError(t, err)
		r.stopped <- nil
	case <-time.After(20 * time.Second):
		t.Fatal("the server did not stop")
	}
}

// answer is an HTTP answer, read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// json is the body as a JSON object.
func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal(a.body, &v), "body: %s", a.body)
	return v
}

// do sends a request to the REST port. headers are name, value, name, value.
func (r *running) do(t *testing.T, method, target, body string, headers ...string) answer {
	t.Helper()
	return r.doAt(t, r.HTTPAddr(), method, target, body, headers...)
}

func (r *running) doAt(t *testing.T, at net.Addr, method, target, body string, headers ...string) answer {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+at.String()+target, reader)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.http.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp.StatusCode, resp.Header, text}
}

// logBuffer is a log that tests read.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestConfigIsChecked(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"MaxTimeout":       func(c *Config) { c.MaxTimeout = 0 },
		"MaxMessageBytes":  func(c *Config) { c.MaxMessageBytes = -1 },
		"MaxCallsInFlight": func(c *Config) { c.MaxCallsInFlight = 0 },
		"MaxConnectionAge": func(c *Config) { c.MaxConnectionAge = 0 },
		"DrainDelay":       func(c *Config) { c.DrainDelay = -time.Second },
		"DrainTimeout":     func(c *Config) { c.DrainTimeout = 0 },
	} {
		cfg := DefaultConfig()
		spoil(&cfg)
		_, err := New(cfg, &fakeService{}, func() bool { return true }, nil)
		require.ErrorContains(t, err, name)
	}
	_, err := New(DefaultConfig(), nil, nil, nil)
	require.Error(t, err)
}

func TestDefaults(t *testing.T) {
	cfg := DefaultConfig()
	require.NoError(t, cfg.validate())
	require.Equal(t, 8*1024*1024, cfg.MaxMessageBytes)
	require.GreaterOrEqual(t, cfg.DrainTimeout, cfg.MaxTimeout, "a call that was let in can end")
	require.Greater(t, maxHeaderBytes, 3*32767, "the longest key fits into a path")
}

func TestListenNamesTheSetting(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	cfg := DefaultConfig()
	cfg.GRPCAddress, cfg.AdminAddress = "127.0.0.1:0", "127.0.0.1:0"
	cfg.HTTPAddress = taken.Addr().String()
	s, err := New(cfg, &fakeService{}, func() bool { return true }, nil)
	require.NoError(t, err)
	require.Nil(t, s.GRPCAddr())

	err = s.Listen()
	require.ErrorContains(t, err, "http.address")
	require.ErrorContains(t, err, taken.Addr().String())
	require.Nil(t, s.GRPCAddr(), "the port that was open is closed again")
	require.ErrorContains(t, s.Run(t.Context()), "before Listen")
}

func TestFreePortsAreNamed(t *testing.T) {
	r := start(t, &fakeService{})
	for _, a := range []net.Addr{r.GRPCAddr(), r.HTTPAddr(), r.AdminAddr()} {
		require.NotZero(t, a.(*net.TCPAddr).Port)
		require.Contains(t, r.log.String(), a.String())
	}
}

func (b *logBuffer) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}
