package server

import (
	"context"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/socket"
)

func newGRPCServer(cfg Config, svc coordsvcv1.CoordinatorServiceServer, h *health.Server, calls chain, gate *gate, logger *slog.Logger) *grpc.Server {
	g := grpc.NewServer(append(grpcLimits(cfg),
		grpc.Creds(gate.grpcCredentials(logger)),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.ForceServerCodecV2(codec{}),
		grpc.UnaryInterceptor(calls.unary()),
		grpc.ChainStreamInterceptor(calls.streams()...),
	)...)
	g.RegisterService(decodeAfterAuth(&coordsvcv1.CoordinatorService_ServiceDesc), svc)
	healthv1.RegisterHealthServer(g, h)
	if cfg.Reflection {
		reflection.Register(g)
	}
	return g
}

// unreadListener bounds how long a client may leave unread what it was sent. grpc-go does
// so with the time of its pings, but only to a connection that it knows as a TCPConn.
type unreadListener struct{ net.Listener }

func (l unreadListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*socket.Conn); ok && err == nil {
		_ = tcp.SetUserTimeout(pingTimeout) // it fails where the connection has ended already
	}
	return c, err
}

// healthServices are the names that gRPC health answers for: the server as a
// whole, and the service.
var healthServices = []string{"", coordsvcv1.CoordinatorService_ServiceDesc.ServiceName}

func newHealth() *health.Server {
	h := health.NewServer()
	for _, name := range healthServices {
		h.SetServingStatus(name, healthv1.HealthCheckResponse_NOT_SERVING)
	}
	return h
}

// readinessInterval is how much gRPC health may lag behind /readyz.
const readinessInterval = 100 * time.Millisecond

// followReadiness keeps gRPC health equal to ready until ctx is done.
func followReadiness(ctx context.Context, h *health.Server, ready func() bool) {
	ticker := time.NewTicker(readinessInterval)
	defer ticker.Stop()
	for was := false; ; {
		if now := ready(); now != was {
			serving := healthv1.HealthCheckResponse_NOT_SERVING
			if now {
				serving = healthv1.HealthCheckResponse_SERVING
			}
			for _, name := range healthServices {
				h.SetServingStatus(name, serving)
			}
			was = now
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
