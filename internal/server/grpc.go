package server

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// maxConcurrentStreams is per connection. A thousand callers that share one
// connection do not wait for one another; more wait in their client, which is no error.
const maxConcurrentStreams = 1000

// minKeepaliveInterval is how often a client may ping. A client that pings more
// often is disconnected (too_many_pings); the default of five minutes disconnects decent ones.
const minKeepaliveInterval = 10 * time.Second

func newGRPCServer(cfg Config, svc coordsvcv1.CoordinatorServiceServer, h *health.Server, calls chain, gate *gate) *grpc.Server {
	g := grpc.NewServer(
		grpc.Creds(gate.grpcCredentials()),
		grpc.UnaryInterceptor(calls.unary()),
		grpc.ChainStreamInterceptor(calls.streams()...),
		grpc.MaxRecvMsgSize(cfg.MaxMessageBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxConcurrentStreams),
		grpc.ConnectionTimeout(readHeaderTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             minKeepaliveInterval,
			PermitWithoutStream: true,
		}),
	)
	g.RegisterService(decodeAfterAuth(&coordsvcv1.CoordinatorService_ServiceDesc), svc)
	healthv1.RegisterHealthServer(g, h)
	if cfg.Reflection {
		reflection.Register(g)
	}
	return g
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
