package server

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"
)

// chainOrder is the order of the interceptors, outermost first. A step that is
// not built has its place all the same. Why this order:
//
//	recovery    outermost: a panic in any step below is an answer, not an exit
//	request id  before whatever writes it somewhere
//	metrics, tracing, logging
//	            around everything that can refuse, so that refusals are seen
//	status      below logging, so that what is logged is what is answered
//	deadline    before the first step that may wait
//	auth        before admission: a stranger must not use up places
//	admission   before anything is spent on the request; lets it be read
//	validation  innermost: looks at the request itself, whether the policy allows it
//	drain       streams only: ends them when the server stops
var chainOrder = []string{
	"recovery", "request id", "metrics", "tracing", "logging", "status",
	"deadline", "auth", "admission", "validation", "drain",
}

// step is one interceptor with the name that chainOrder knows it by. Unary or
// stream may be nil where the step has nothing to do. (The API is unary; health
// and reflection are streams.)
type step struct {
	name       string
	unaryStep  grpc.UnaryServerInterceptor
	streamStep grpc.StreamServerInterceptor
}

// chain is the steps that every call passes, outermost first.
type chain []step

// newChain refuses steps that are unknown, doubled or out of order.
func newChain(steps ...step) (chain, error) {
	last := -1
	for _, s := range steps {
		place := slices.Index(chainOrder, s.name)
		if place < 0 {
			return nil, fmt.Errorf("server: interceptor %q has no place in chainOrder", s.name)
		}
		if place <= last {
			return nil, fmt.Errorf("server: interceptor %q must come before %q", s.name, chainOrder[last])
		}
		last = place
	}
	return steps, nil
}

// unary is the chain as one interceptor.
func (c chain) unary() grpc.UnaryServerInterceptor {
	var steps []grpc.UnaryServerInterceptor
	for _, s := range c {
		if s.unaryStep != nil {
			steps = append(steps, s.unaryStep)
		}
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		p := &passage{steps: steps, info: info, handler: handler}
		p.inner = p.next
		return p.next(ctx, req)
	}
}

// passage is a call on its way through the steps, each of which calls the next at most
// once. It is made for the whole way: a function for each step would be a quarter of what
// the chain allocates.
type passage struct {
	steps   []grpc.UnaryServerInterceptor // those still to come
	info    *grpc.UnaryServerInfo
	handler grpc.UnaryHandler
	inner   grpc.UnaryHandler // next, as a value
}

func (p *passage) next(ctx context.Context, req any) (any, error) {
	if len(p.steps) == 0 {
		return p.handler(ctx, req)
	}
	step := p.steps[0]
	p.steps = p.steps[1:]
	return step(ctx, req, p.info, p.inner)
}

// streams is what the chain does to streams, outermost first.
func (c chain) streams() []grpc.StreamServerInterceptor {
	var list []grpc.StreamServerInterceptor
	for _, s := range c {
		if s.streamStep != nil {
			list = append(list, s.streamStep)
		}
	}
	return list
}
