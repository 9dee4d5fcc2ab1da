package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// The limits that callers can meet here, by their settings. Config.OnLimit is told
// one of these.
const (
	LimitCallsInFlight = "limits.max-calls-in-flight"
	LimitMessageBytes  = "limits.max-message-bytes"
)

// Limits that nobody needs to set.
const (
	// maxHeaderBytes bounds the headers of a request on both ports. The longest
	// key, 32,767 bytes, is 98,301 bytes in a path when each is percent-encoded.
	maxHeaderBytes = 128 << 10

	// maxConcurrentStreams is per connection. A thousand callers that share one
	// connection do not wait for one another; more wait in their client, which is no error.
	maxConcurrentStreams = 1000

	// streamWorkers are goroutines that take gRPC calls one after the other: their
	// stacks have grown to what a call needs. Calls beyond them get new ones.
	streamWorkers = 64
	// readHeaderTimeout and readBodyTimeout end connections that trickle.
	readHeaderTimeout = 5 * time.Second
	readBodyTimeout   = 20 * time.Second

	// writeSlack is what writing the largest answer may take beyond the call.
	writeSlack = 20 * time.Second

	idleTimeout = 2 * time.Minute

	// minKeepaliveInterval is how often a client may ping. A client that pings more
	// often is disconnected (too_many_pings); the default of five minutes disconnects decent ones.
	minKeepaliveInterval = 10 * time.Second

	// pingAfter and pingTimeout find out that a silent gRPC client is gone.
	pingAfter   = time.Minute
	pingTimeout = 20 * time.Second

	// ageGraceSlack is what a call of MaxTimeout may take beyond that on a
	// connection that has reached its age.
	ageGraceSlack = 5 * time.Second
)

// grpcLimits are the limits that grpc-go sees to. A message that is too large it
// refuses in its own words, which name the sizes but not the setting
// ("received message larger than max (9437184 vs. 8388608)"), before a status
// of ours could reach the client; log and metrics have REQUEST_TOO_LARGE.
//
// Connections have an age, so that callers behind a balancer of connections find
// new instances. The grace is longer than any call: none is lost to it.
func grpcLimits(cfg Config) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(cfg.MaxMessageBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxConcurrentStreams),
		grpc.ConnectionTimeout(readHeaderTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             minKeepaliveInterval,
			PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge:      cfg.MaxConnectionAge,
			MaxConnectionAgeGrace: cfg.MaxTimeout + ageGraceSlack,
			Time:                  pingAfter,
			Timeout:               pingTimeout,
		}),
	}
}

// limiter counts calls in, and tells who asked to know what was refused.
type limiter struct {
	inFlight        *inFlight
	onLimit         func(setting string)
	maxMessageBytes int
}

// enter is inFlight.enter.
func (l *limiter) enter() error {
	err := l.inFlight.enter()
	if err != nil && err != errStopped { //nolint:errorlint // it is this one or it is not
		l.onLimit(LimitCallsInFlight)
	}
	return err
}

// admission lets no more calls in than the limit, and none once the server has
// stopped. The request of a gRPC call is read and decoded only then: what is
// refused has cost its head. A REST call has its place already: the front takes
// it before it reads the body.
func admission(l *limiter) step {
	return step{
		name: "admission",
		unaryStep: func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if isOpen(info.FullMethod) {
				return handler(ctx, req)
			}
			if r := restCallOf(ctx); r != nil && r.place != nil {
				if err := r.place.err; err != nil {
					return nil, err
				}
				return handler(ctx, req)
			}
			if err := l.enter(); err != nil {
				return nil, err
			}
			defer l.inFlight.leave()
			if err := l.decode(ctx); err != nil {
				return nil, err
			}
			return handler(ctx, req)
		},
	}
}

// decode reads the request of a gRPC call; see grpcLimits for one that is too large.
func (l *limiter) decode(ctx context.Context) error {
	err := decodeNow(ctx)
	if status.Code(err) == codes.ResourceExhausted {
		l.onLimit(LimitMessageBytes)
		return newStatus(codes.ResourceExhausted, "REQUEST_TOO_LARGE", fmt.Sprintf(
			"the message is over the limit of %d bytes (setting %s): ask for fewer keys at a time", l.maxMessageBytes, LimitMessageBytes)).Err()
	}
	return err
}

// place is what a REST call was told when it asked to be let in.
type place struct{ err error }

type connectedKey struct{}

// connected notes when a REST connection was made.
func connected(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(withTLSConn(ctx, c), connectedKey{}, time.Now())
}

// isOld reports whether the connection of r has had its time; it is closed after
// the answer then, which costs no call.
func isOld(r *http.Request, maxAge time.Duration) bool {
	since, ok := r.Context().Value(connectedKey{}).(time.Time)
	return ok && time.Since(since) > maxAge
}
