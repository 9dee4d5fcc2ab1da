package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/auth"
)

// callRecord is what the steps of a call tell each other.
type callRecord struct {
	requestID string
	caller    *auth.Caller // nil before the auth step, and of calls that are open to everybody
	request   any          // the message of a gRPC call that is still to be read, nil for others
}

// readLater is given to grpc-go for the function that would fill the request.
func (r *callRecord) readLater(request any) error {
	r.request = request
	return nil
}

type callRecordKey struct{}

// recordOf is the record of a call, or one that nobody sees where the context is no call's.
func recordOf(ctx context.Context) *callRecord {
	if r, ok := ctx.Value(callRecordKey{}).(*callRecord); ok {
		return r
	}
	return &callRecord{}
}

// withRecord makes the record of a call that has none.
func withRecord(ctx context.Context) context.Context {
	if _, ok := ctx.Value(callRecordKey{}).(*callRecord); ok {
		return ctx
	}
	return context.WithValue(ctx, callRecordKey{}, &callRecord{})
}

// requestIDOf is the request id of the call, "" before the request id step.
func requestIDOf(ctx context.Context) string { return recordOf(ctx).requestID }

// callerOf is who is calling, "" before it is known and where nobody is asked.
func callerOf(ctx context.Context) string {
	if caller := recordOf(ctx).caller; caller != nil {
		return caller.String()
	}
	return ""
}

// recovery turns a panic into INTERNAL with the request id, and logs the stack.
func recovery(logger *slog.Logger) step {
	recovered := func(ctx context.Context, method string, err *error) {
		if p := recover(); p != nil {
			logger.Error("panic in a call", "method", method, "request_id", requestIDOf(ctx),
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			*err = internalError(requestIDOf(ctx)).Err()
		}
	}
	return step{
		name: "recovery",
		unaryStep: func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
			ctx = withRecord(ctx)
			defer recovered(ctx, info.FullMethod, &err)
			return handler(ctx, req)
		},
		streamStep: func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
			ctx := withRecord(ss.Context())
			defer recovered(ctx, info.FullMethod, &err)
			return handler(srv, streamWithContext{ss, ctx})
		},
	}
}

type streamWithContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (s streamWithContext) Context() context.Context { return s.ctx }

// requestIDHeader carries the request id in both directions, in gRPC metadata
// and in HTTP headers.
const requestIDHeader = "x-request-id"

// requestID takes the caller's id of the call, or makes one, and returns it.
func requestID() step {
	// A header is copied where it is set, so the map that it is set by can be used again.
	headers := sync.Pool{New: func() any { return metadata.MD{requestIDHeader: {""}} }}
	identify := func(ctx context.Context, set func(metadata.MD) error) error {
		var offered string
		if ids := metadata.ValueFromIncomingContext(ctx, requestIDHeader); len(ids) > 0 {
			offered = ids[0]
		}
		id := saneRequestID(offered)
		recordOf(ctx).requestID = id

		header := headers.Get().(metadata.MD)
		defer headers.Put(header)
		header[requestIDHeader][0] = id
		if err := set(header); err != nil {
			return fmt.Errorf("setting the request id header: %w", err)
		}
		return nil
	}
	return step{
		name: "request id",
		unaryStep: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if err := identify(ctx, func(header metadata.MD) error { return grpc.SetHeader(ctx, header) }); err != nil {
				return nil, err
			}
			return handler(ctx, req)
		},
		streamStep: func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if err := identify(ss.Context(), ss.SetHeader); err != nil {
				return err
			}
			return handler(srv, ss)
		},
	}
}

// maxRequestIDLength is more than any tracing system needs and harmless in a log line.
const maxRequestIDLength = 128

// saneRequestID is offered if it is 1 to 128 visible ASCII characters without
// quotes or backslashes (which would be escaped in logs and headers, so that a
// search for the id would miss it), else an id made here.
func saneRequestID(offered string) string {
	unfit := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\'' || r == '\\' }
	if offered == "" || len(offered) > maxRequestIDLength || strings.ContainsFunc(offered, unfit) {
		return rand.Text()
	}
	return offered
}

// logging writes one line a call. Keys are text of strangers, and names of
// customers as often as not: they appear at debug level only, and so do error
// messages, which may quote them.
func logging(logger *slog.Logger) step {
	return step{
		name: "logging",
		unaryStep: func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
			start := time.Now()
			code := codes.Internal // what a panic becomes
			defer func() { logCall(ctx, logger, info.FullMethod, req, resp, code, err, time.Since(start)) }()
			resp, err = handler(ctx, req)
			code = status.Code(err)
			return resp, err
		},
		streamStep: func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			start := time.Now()
			err := handler(srv, ss)
			logger.LogAttrs(ss.Context(), slog.LevelDebug, "stream", slog.String("method", info.FullMethod),
				slog.String("code", codeName(status.Code(err))), slog.String("request_id", requestIDOf(ss.Context())),
				slog.Duration("duration", time.Since(start)))
			return err
		},
	}
}

func logCall(ctx context.Context, logger *slog.Logger, method string, req, resp any, code codes.Code, err error, took time.Duration) {
	level := callLevel(method, code)
	if !logger.Enabled(ctx, level) {
		return
	}
	var room [12]slog.Attr
	attrs := append(room[:0],
		slog.String("method", method), slog.String("code", codeName(code)),
		slog.String("protocol", protocolOf(ctx)), slog.String("request_id", requestIDOf(ctx)),
		slog.Duration("duration", took))
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		attrs = append(attrs, slog.String("peer", p.Addr.String()))
	}
	if caller := callerOf(ctx); caller != "" {
		attrs = append(attrs, slog.String("caller", caller))
	}
	keyType, keys := whatIsAsked(req)
	if keys != nil {
		attrs = append(attrs, slog.String("key_type", keyType), slog.Int("keys", len(keys)))
	}
	if found, ok := resp.(*coordsvcv1.FindCoordinatorsResponse); ok && found.GetFailed() > 0 { // the code is OK all the same
		attrs = append(attrs, slog.Uint64("failed", uint64(found.GetFailed())))
	}
	if err != nil {
		attrs = append(attrs, slog.String("reason", reasonOf(err)))
		if cause := causeOf(err); cause != "" {
			attrs = append(attrs, slog.String("cause", cause))
		}
	}
	// Not by LogAttrs, which finds out for each line where in the program it was called.
	line := slog.NewRecord(time.Now(), level, "call", 0)
	line.AddAttrs(attrs...)
	_ = logger.Handler().Handle(ctx, line)
	if logger.Enabled(ctx, slog.LevelDebug) && (keys != nil || err != nil) {
		const most = 10
		logger.LogAttrs(ctx, slog.LevelDebug, "call: what was asked", slog.String("request_id", requestIDOf(ctx)),
			slog.Any("first_keys", keys[:min(most, len(keys))]), slog.Any("error", err))
	}
}

// isOurs tells the methods of the API from gRPC health and reflection.
func isOurs(fullMethod string) bool {
	return strings.HasPrefix(fullMethod, "/"+coordsvcv1.CoordinatorService_ServiceDesc.ServiceName+"/")
}

func callLevel(method string, code codes.Code) slog.Level {
	if !isOurs(method) {
		return slog.LevelDebug // health checks would drown the rest
	}
	switch code {
	case codes.Internal, codes.DataLoss:
		return slog.LevelError
	case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Unknown:
		return slog.LevelWarn
	default:
		return slog.LevelInfo
	}
}

func whatIsAsked(req any) (keyType string, keys []string) {
	switch r := req.(type) {
	case *coordsvcv1.FindCoordinatorsRequest:
		return keyTypeName(r.GetKeyType()), r.GetKeys()
	case *coordsvcv1.GetCoordinatorRequest:
		return keyTypeName(r.GetKeyType()), []string{r.GetKey()}
	default:
		return "", nil
	}
}

// keyTypeName is the type that is asked for where none was given, too.
func keyTypeName(t coordsvcv1.KeyType) string {
	if t == coordsvcv1.KeyType_KEY_TYPE_UNSPECIFIED {
		t = coordsvcv1.KeyType_GROUP
	}
	return t.String()
}

// statuses makes every error a gRPC status with an ErrorInfo. An error that is
// neither a status nor the end of the context is a fault of ours: the caller
// gets INTERNAL and the request id, the log gets the error.
func statuses(logger *slog.Logger) step {
	return step{
		name: "status",
		unaryStep: func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			resp, err := handler(ctx, req)
			if err == nil {
				return resp, nil
			}
			if _, ok := preparedOf(err); ok {
				return nil, err
			}
			s, ok := statusOf(err)
			if !ok {
				logger.ErrorContext(ctx, "a call failed with an error that has no status", "method", info.FullMethod,
					"request_id", requestIDOf(ctx), "error", err)
				s = internalError(requestIDOf(ctx))
			}
			return nil, s.Err()
		},
	}
}

// deadline bounds what a caller asks for: its deadline, or most from now if that is
// earlier. A call without one gets none here: the service has a default for it,
// which could not be told from a caller's wish.
func deadline(most time.Duration) step {
	return step{
		name: "deadline",
		unaryStep: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if ends, given := ctx.Deadline(); !given || time.Until(ends) <= most {
				return handler(ctx, req)
			}
			ctx, cancel := context.WithTimeout(ctx, most)
			defer cancel()
			return handler(ctx, req)
		},
	}
}

// endOnDrain ends streams when draining is done: a client that watches health
// would otherwise keep the server from stopping until it is cut off.
func endOnDrain(draining context.Context) step {
	return step{
		name: "drain",
		streamStep: func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			ctx, cancel := context.WithCancel(ss.Context())
			defer cancel()
			defer context.AfterFunc(draining, cancel)()
			return handler(srv, endingStream{streamWithContext{ss, ctx}})
		},
	}
}

// endingStream gives up waiting for the client when its context ends.
type endingStream struct{ streamWithContext }

// RecvMsg leaves a goroutine behind when it gives up, which ends with the
// stream: that is, as soon as the handler has returned.
func (s endingStream) RecvMsg(m any) error {
	received := make(chan error, 1)
	go func() { received <- s.ServerStream.RecvMsg(m) }()
	select {
	case err := <-received:
		return err
	case <-s.ctx.Done():
		return newStatus(codes.Unavailable, "STOPPING", "this instance is stopping").Err()
	}
}
