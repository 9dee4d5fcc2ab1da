package server

import (
	"context"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// inProcess is the client that the REST gateway calls: it runs the chain and the
// service in the caller's goroutine, as if the call had come over gRPC. Unlike
// there the request message is shared with the gateway. Its size was checked by the
// front, with the same limiter that checks what comes over gRPC.
type inProcess struct {
	svc   coordsvcv1.CoordinatorServiceServer
	chain grpc.UnaryServerInterceptor
}

var _ coordsvcv1.CoordinatorServiceClient = (*inProcess)(nil)

func newInProcess(svc coordsvcv1.CoordinatorServiceServer, chain grpc.UnaryServerInterceptor) *inProcess {
	return &inProcess{svc: svc, chain: chain}
}

func (c *inProcess) FindCoordinators(ctx context.Context, req *coordsvcv1.FindCoordinatorsRequest, opts ...grpc.CallOption) (*coordsvcv1.FindCoordinatorsResponse, error) {
	return call(ctx, c, coordsvcv1.CoordinatorService_FindCoordinators_FullMethodName, c.svc.FindCoordinators, req, opts)
}

func (c *inProcess) GetCoordinator(ctx context.Context, req *coordsvcv1.GetCoordinatorRequest, opts ...grpc.CallOption) (*coordsvcv1.GetCoordinatorResponse, error) {
	return call(ctx, c, coordsvcv1.CoordinatorService_GetCoordinator_FullMethodName, c.svc.GetCoordinator, req, opts)
}

func (c *inProcess) ListBrokers(ctx context.Context, req *coordsvcv1.ListBrokersRequest, opts ...grpc.CallOption) (*coordsvcv1.ListBrokersResponse, error) {
	return call(ctx, c, coordsvcv1.CoordinatorService_ListBrokers_FullMethodName, c.svc.ListBrokers, req, opts)
}

// call does what the two ends of a connection would: what the client sent becomes
// what the server received, and the headers and trailers that the server set
// become those that the client asked for.
func call[Req, Resp any](ctx context.Context, c *inProcess, method string, handle func(context.Context, *Req) (*Resp, error), req *Req, opts []grpc.CallOption) (*Resp, error) {
	if r := restCallOf(ctx); r != nil {
		r.reachedChain = true
	}
	sent, _ := metadata.FromOutgoingContext(ctx)
	ctx = metadata.NewIncomingContext(ctx, sent)
	var stream runtime.ServerTransportStream
	ctx = grpc.NewContextWithServerTransportStream(ctx, &stream)

	info := &grpc.UnaryServerInfo{Server: c.svc, FullMethod: method}
	resp, err := c.chain(ctx, req, info, func(ctx context.Context, req any) (any, error) {
		return handle(ctx, req.(*Req))
	})
	for _, opt := range opts {
		switch o := opt.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = stream.Header()
		case grpc.TrailerCallOption:
			*o.TrailerAddr = stream.Trailer()
		}
	}
	if err != nil {
		return nil, err
	}
	return resp.(*Resp), nil
}
