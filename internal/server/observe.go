package server

import (
	"context"
	"net/http"
	"net/http/pprof"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordsvc/coordsvc/internal/telemetry"
)

// metrics counts every call, also those that a later step refuses. A stream is
// counted when it ends; how long somebody watches health is no news.
func metrics(m *telemetry.Metrics) step {
	s := step{name: "metrics"}
	if m == nil {
		return s
	}
	s.unaryStep = func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		calls, start := m.Calls(info.FullMethod, protocolOf(ctx)), time.Now()
		calls.Begin()
		code := codes.Internal // what a panic becomes
		defer func() { calls.End(code, time.Since(start)) }()
		resp, err = handler(ctx, req)
		code = status.Code(err)
		return resp, err
	}
	s.streamStep = func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		code := codes.Internal
		defer func() { m.Calls(info.FullMethod, telemetry.GRPC).Count(code) }()
		err := handler(srv, ss)
		code = status.Code(err)
		return err
	}
	return s
}

// tracing makes a span of every call of ours. Health checks would drown the rest.
func tracing(t *telemetry.Tracing) step {
	s := step{name: "tracing"}
	if t == nil {
		return s
	}
	s.unaryStep = func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		if !isOurs(info.FullMethod) {
			return handler(ctx, req)
		}
		ctx, span := t.Call(ctx, info.FullMethod, protocolOf(ctx), requestIDOf(ctx))
		if !span.Recording() { // most are not
			return handler(ctx, req)
		}
		if keyType, keys := whatIsAsked(req); keys != nil {
			span.Asked(keyType, len(keys))
		}
		code, reason := codes.Internal, "panic"
		defer func() { span.End(code, reason) }()
		resp, err = handler(ctx, req)
		if code = status.Code(err); err != nil {
			reason = reasonOf(err)
		}
		return resp, err
	}
	return s
}

// adminPages are the pages of the admin port that not every server has:
//
//	/metrics       for Prometheus
//	/configz       the settings in force, without secrets, as JSON
//	/debug/pprof/  Go's profiles, but for cmdline, which would show what flags were given
func adminPages(cfg Config) map[string]http.HandlerFunc {
	pages := make(map[string]http.HandlerFunc)
	if cfg.Metrics != nil {
		pages["/metrics"] = cfg.Metrics.Handler().ServeHTTP
	}
	if cfg.Settings != nil {
		pages["/configz"] = func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, cfg.Settings) }
	}
	if !cfg.Pprof {
		return pages
	}
	pages["/debug/pprof/"] = pprof.Index
	pages["/debug/pprof/profile"] = pprof.Profile
	pages["/debug/pprof/trace"] = pprof.Trace
	for _, name := range []string{"allocs", "block", "goroutine", "heap", "mutex", "threadcreate"} {
		pages["/debug/pprof/"+name] = pprof.Index
	}
	return pages
}
