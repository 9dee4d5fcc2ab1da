package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/auth"
	"github.com/coordsvc/coordsvc/internal/reload"
	"github.com/coordsvc/coordsvc/internal/socket"
	"github.com/coordsvc/coordsvc/internal/telemetry"
)

// Config is what the server needs to know. Start from DefaultConfig.
type Config struct {
	// GRPCAddress, HTTPAddress and AdminAddress are what to listen on, as
	// host:port. Port 0 picks a free one; Server.GRPCAddr and its siblings say which.
	GRPCAddress, HTTPAddress, AdminAddress string

	// MaxTimeout bounds every call: the smaller of it and the caller's own
	// deadline holds. How long a caller without a deadline waits is the service's choice.
	MaxTimeout time.Duration

	// MaxMessageBytes bounds a request on both ports: a gRPC message, a REST
	// body. A call with the most keys allowed (10,000), each as long as Kafka
	// can carry (32,767 bytes), would be 330 MB; the default of 8 MiB has room
	// for 10,000 keys of 800 bytes.
	MaxMessageBytes int

	// MaxKeys is how many keys a call may have. The service has the same limit; here
	// it is known before they are decoded.
	MaxKeys int

	// MaxMemory bounds what all calls inside take together, in bytes, estimated:
	// four for each byte of a request and 512 for each key. 0 chooses: half of
	// the memory limit of the Go runtime, or 1 GiB where it has none.
	MaxMemory int64

	// MaxCallsInFlight is how many calls may be inside the service at a time, of
	// both protocols together; more are refused at once with OVERLOADED.
	MaxCallsInFlight int

	// MaxConnectionAge is how long a connection of a caller is used. A gRPC client
	// is then asked to make another one; a REST connection is closed after an answer.
	MaxConnectionAge time.Duration

	// OnLimit is told the setting of each limit that a call has met, one of the
	// constants Limit...; nil: nobody wants to know.
	OnLimit func(setting string)

	// TLS is for gRPC and REST alike. Auth says who may call, on both.
	TLS  TLS
	Auth auth.Config

	// ReloadInterval is how often the files of TLS and Auth are read again.
	ReloadInterval time.Duration

	// Reflection serves gRPC reflection, to those who may call. Docs serves the
	// OpenAPI document on the REST port, to everybody: it is the same everywhere.
	Reflection, Docs bool
	// Metrics, Tracing and Settings are what can be seen of the server; each may be
	// left out. Settings is what /configz shows, with no secret in it. Pprof serves
	// Go's profiles on the admin port.
	Metrics  *telemetry.Metrics
	Tracing  *telemetry.Tracing
	Settings json.RawMessage
	Pprof    bool

	// DrainDelay is how long the server goes on taking calls after it says that
	// it is not ready, so that whoever sends it calls can notice. 0 is no delay.
	DrainDelay time.Duration

	// DrainTimeout is how long calls in flight may take to end after that.
	// What is not done by then is cut off.
	DrainTimeout time.Duration

	bodyTimeout time.Duration // readBodyTimeout, but in tests
}

// DefaultConfig has the default of each setting.
func DefaultConfig() Config {
	return Config{
		GRPCAddress:      ":9090",
		HTTPAddress:      ":8080",
		AdminAddress:     ":8081",
		MaxTimeout:       30 * time.Second,
		MaxMessageBytes:  8 << 20,
		MaxKeys:          10_000,
		MaxCallsInFlight: 2000,
		MaxConnectionAge: 5 * time.Minute,
		ReloadInterval:   reload.Interval,
		Reflection:       true,
		Docs:             true,
		DrainDelay:       5 * time.Second,
		DrainTimeout:     35 * time.Second, // a call of MaxTimeout can end
		bodyTimeout:      readBodyTimeout,
	}
}

func (c Config) validate() error {
	switch {
	case c.MaxTimeout <= 0:
		return fmt.Errorf("server: MaxTimeout is %v: it must be greater than zero", c.MaxTimeout)
	case c.MaxMessageBytes <= 0:
		return fmt.Errorf("server: MaxMessageBytes is %d: it must be greater than zero", c.MaxMessageBytes)
	case c.MaxKeys <= 0:
		return fmt.Errorf("server: MaxKeys is %d: it must be greater than zero", c.MaxKeys)
	case c.MaxMemory != 0 && c.MaxMemory < leastMemory(c.largestCall()):
		return &auth.SettingError{Setting: LimitMemory, Err: fmt.Errorf("%d bytes are less than the %d that are needed for a call of %d bytes "+
			"(limits.max-message-bytes) with %d keys (lookup.max-keys): it could never be answered", c.MaxMemory, leastMemory(c.largestCall()), c.MaxMessageBytes, c.MaxKeys)}
	case c.ReloadInterval <= 0:
		return fmt.Errorf("server: ReloadInterval is %v: it must be greater than zero", c.ReloadInterval)
	case c.MaxCallsInFlight <= 0:
		return fmt.Errorf("server: MaxCallsInFlight is %d: it must be greater than zero", c.MaxCallsInFlight)
	case c.MaxConnectionAge <= 0:
		return fmt.Errorf("server: MaxConnectionAge is %v: it must be greater than zero", c.MaxConnectionAge)
	case c.DrainDelay < 0:
		return fmt.Errorf("server: DrainDelay is %v: it must not be negative", c.DrainDelay)
	case c.DrainTimeout <= 0:
		return fmt.Errorf("server: DrainTimeout is %v: it must be greater than zero", c.DrainTimeout)
	}
	return nil
}

// Server serves one CoordinatorService over gRPC and REST.
type Server struct {
	cfg    Config
	logger *slog.Logger
	ready  func() bool

	gate     *gate
	inFlight *inFlight
	memory   *memory
	drain    drain
	health   *health.Server
	newGRPC  func() *grpc.Server // its workers run from then on
	grpc     *grpc.Server
	front    *front
	rest     *http.Server
	admin    *http.Server

	grpcListener, restListener, adminListener net.Listener
}

// drain is what a stopping server tells its parts. Stopping comes first: not
// ready, but serving. Then the streams that would never end by themselves are ended.
type drain struct {
	stopping   atomic.Bool
	streams    context.Context
	endStreams context.CancelFunc
}

// New makes a server of svc; nothing listens before Listen. ready says whether
// calls can be answered now; it is asked often and must return at once.
func New(cfg Config, svc coordsvcv1.CoordinatorServiceServer, ready func() bool, logger *slog.Logger) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if svc == nil || ready == nil {
		return nil, errors.New("server: New needs a service and a readiness function")
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	gate, err := newGate(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.MaxMemory == 0 {
		cfg.MaxMemory = chooseMemory(debug.SetMemoryLimit(-1), cfg.largestCall())
	}
	limits := newLimiter(cfg)
	s := &Server{cfg: cfg, logger: logger, ready: ready, gate: gate, inFlight: limits.inFlight, memory: limits.memory, health: newHealth()}
	s.drain.streams, s.drain.endStreams = context.WithCancel(context.Background())

	calls, err := newChain(
		recovery(logger),
		requestID(),
		metrics(cfg.Metrics),
		tracing(cfg.Tracing),
		logging(logger),
		statuses(logger),
		deadline(cfg.MaxTimeout),
		authenticate(gate),
		admission(limits),
		policy(gate),
		endOnDrain(s.drain.streams),
	)
	if err != nil {
		return nil, err
	}
	if s.front, err = newFront(cfg, newInProcess(svc, calls.unary()), gate, limits, &s.drain.stopping, logger); err != nil {
		return nil, err
	}
	s.newGRPC = func() *grpc.Server { return newGRPCServer(cfg, svc, s.health, calls, gate, logger) }
	s.rest = &http.Server{
		Handler:           s.front,
		ConnContext:       connected,
		ReadHeaderTimeout: readHeaderTimeout,
		// Both run from the start of the request and go on while it is
		// handled; the end of ReadTimeout would cancel the call.
		ReadTimeout:                  readBodyTimeout + cfg.MaxTimeout,
		WriteTimeout:                 readBodyTimeout + cfg.MaxTimeout + writeSlack,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true, // OPTIONS * is answered by the front
		ErrorLog:                     errorLog(logger),
	}
	s.admin = &http.Server{
		Handler:           newAdmin(ready, &s.drain.stopping, adminPages(cfg)),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readHeaderTimeout,
		WriteTimeout:      writeSlack,
		IdleTimeout:       idleTimeout,
		ErrorLog:          errorLog(logger),
	}
	if cfg.Metrics != nil {
		cfg.Metrics.Ready(func() bool { return ready() && !s.drain.stopping.Load() })
	}
	return s, nil
}

// Listen opens the three ports. Where one cannot be opened none stays open.
func (s *Server) Listen() error {
	ports := []struct {
		name, setting, address string
		listener               *net.Listener
	}{
		{"gRPC", "grpc.address", s.cfg.GRPCAddress, &s.grpcListener},
		{"REST", "http.address", s.cfg.HTTPAddress, &s.restListener},
		{"admin", "admin.address", s.cfg.AdminAddress, &s.adminListener},
	}
	for i, p := range ports {
		l, err := socket.Listen(p.address)
		if err != nil {
			for _, opened := range ports[:i] {
				_ = (*opened.listener).Close()
				*opened.listener = nil
			}
			return fmt.Errorf("cannot listen for %s on %q (setting %s): %w", p.name, p.address, p.setting, err)
		}
		*p.listener = l
	}
	for _, p := range ports {
		s.logger.Info("listening", "protocol", p.name, "address", (*p.listener).Addr().String())
	}
	s.logger.Info("limits of all calls in flight together", "calls", s.cfg.MaxCallsInFlight, "memory_bytes", s.cfg.MaxMemory)
	s.warn()
	return nil
}

// GRPCAddr is the address that gRPC is served on, nil before Listen.
func (s *Server) GRPCAddr() net.Addr { return addr(s.grpcListener) }

// HTTPAddr is the address that REST is served on, nil before Listen.
func (s *Server) HTTPAddr() net.Addr { return addr(s.restListener) }

// AdminAddr is the address of the admin port, nil before Listen.
func (s *Server) AdminAddr() net.Addr { return addr(s.adminListener) }

func addr(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}
