package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The limits that callers can meet here, by their settings. Config.OnLimit is told
// one of these.
const (
	LimitCallsInFlight = "limits.max-calls-in-flight"
	LimitMemory        = "limits.max-calls-memory"
	LimitMessageBytes  = "limits.max-message-bytes"
	LimitKeys          = "lookup.max-keys"
	LimitWaitingKeys   = "limits.max-waiting-keys" // the service's
)

// Limits that nobody needs to set.
const (
	// maxHeaderBytes bounds the headers of a request on both ports. The longest
	// key, 32,767 bytes, is 98,301 bytes in a path when each is percent-encoded.
	maxHeaderBytes = 128 << 10

	// maxConcurrentStreams is per connection. A thousand callers that share one
	// connection do not wait for one another; more wait in their client, which is no error.
	maxConcurrentStreams = 1000

	// maxOtherMessageBytes bounds what strangers may send to gRPC health, and
	// callers to reflection; both ask by names.
	maxOtherMessageBytes = 64 << 10

	// streamWindow is what a client may send on a stream unread, connWindow what may
	// be on its way on all streams of a connection: at 10 ms of round trip, 400 MB/s.
	streamWindow = 64 << 10
	connWindow   = 4 << 20

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

	// pingAfter and pingTimeout find out that a silent gRPC client is gone; one that does
	// not read what it was sent, whatever it says, has pingTimeout too (unreadListener).
	pingAfter   = time.Minute
	pingTimeout = 20 * time.Second

	// ageGraceSlack is what a call of MaxTimeout may take beyond that on a
	// connection that has reached its age.
	ageGraceSlack = 5 * time.Second
)

// grpcLimits are the limits that grpc-go sees to. Requests of ours are received by
// limiter.receive; the size here is for those of health and reflection.
//
// Windows are static: those that grow let a client send up to 16 MiB that nobody
// has asked for, on each stream. A message longer than its window is not slowed
// down: reading it opens the window as far as it needs.
//
// Connections have an age, so that callers behind a balancer of connections find
// new instances. The grace is longer than any call: none is lost to it.
func grpcLimits(cfg Config) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxOtherMessageBytes),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
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

// limiter knows what may be asked for, and tells who wants to know what was refused.
type limiter struct {
	inFlight        *inFlight
	memory          *memory
	streams         *openStreams
	onLimit         func(setting string)
	maxMessageBytes int
	maxKeys         int
	bodyTimeout     time.Duration
	bodyLimits      sync.Pool // of *bodyLimit that are not running
}

// newLimiter needs a cfg whose memory is chosen.
func newLimiter(cfg Config) *limiter {
	l := &limiter{
		inFlight: newInFlight(cfg.MaxCallsInFlight), memory: newMemory(cfg.MaxMemory), streams: &openStreams{of: map[string]int{}}, onLimit: cfg.OnLimit,
		maxMessageBytes: cfg.MaxMessageBytes, maxKeys: cfg.MaxKeys, bodyTimeout: cfg.bodyTimeout,
	}
	if l.onLimit == nil {
		l.onLimit = func(string) {}
	}
	return l
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
// stopped. The request of a gRPC call is read only then, within the limits of size
// and memory: what is refused has cost its head. A REST call has its place already: the front takes
// it before it reads the body. Streams, which are not of the API, are bounded for each
// connection.
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
				return l.counting(handler(ctx, req))
			}
			if err := l.enter(); err != nil {
				return nil, err
			}
			defer l.inFlight.leave()
			memory := share{of: l.memory}
			defer memory.giveBack()
			if err := l.receive(ctx, &memory); err != nil {
				return l.counting(nil, err)
			}
			return l.counting(handler(ctx, req))
		},
		streamStep: func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			leave, err := l.streams.enter(ss.Context())
			if err != nil {
				return err
			}
			defer leave()
			return handler(srv, ss)
		},
	}
}

// counting is what it is given; refusals for a limit are counted.
func (l *limiter) counting(resp any, err error) (any, error) {
	if err != nil {
		l.tell(err)
	}
	return resp, err
}

// tell counts a refusal if it is for a limit.
func (l *limiter) tell(err error) {
	if setting := errorInfoOf(status.Convert(err)).GetMetadata()["setting"]; setting != "" {
		l.onLimit(setting)
	}
}

// tooLarge refuses a message; its size is -1 where only the limit is known.
func (l *limiter) tooLarge(size int64) error {
	given := ""
	if size >= 0 {
		given = fmt.Sprintf(" of %d bytes", size)
	}
	return limitStatus(codes.ResourceExhausted, "REQUEST_TOO_LARGE", false, LimitMessageBytes, int64(l.maxMessageBytes), fmt.Sprintf(
		"the request%s is over the limit of %d bytes (setting %s): ask for fewer keys at a time", given, l.maxMessageBytes, LimitMessageBytes)).Err()
}

// tooSlow refuses a request that trickles.
func (l *limiter) tooSlow() *status.Status {
	return newStatus(codes.DeadlineExceeded, "REQUEST_TOO_SLOW", fmt.Sprintf("the request did not arrive whole within %v", l.bodyTimeout))
}

// keys refuses too many, and takes the memory for those that are not.
func (l *limiter) keys(n int, memory *share) error {
	if n <= l.maxKeys {
		return memory.take(memoryPerKey * int64(n))
	}
	// As the service would, whose limit it is.
	description := fmt.Sprintf("has %d keys; at most %d a call (%s): ask in several calls", n, l.maxKeys, LimitKeys)
	return limitStatus(codes.InvalidArgument, "INVALID_ARGUMENT", false, LimitKeys, int64(l.maxKeys), "keys: "+description,
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "keys", Description: description}}}).Err()
}

// overloaded refuses a call for a limit of what all calls take together.
func overloaded(setting string, limit int64, message string) *status.Status {
	return limitStatus(codes.ResourceExhausted, "OVERLOADED", true, setting, limit, message, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
}

// limitStatus refuses a request for a limit, and names it. retriable says whether to
// ask again may help: not where the limit is for what the request is itself.
func limitStatus(code codes.Code, reason string, retriable bool, setting string, limit int64, message string, details ...protoadapt.MessageV1) *status.Status {
	info := &errdetails.ErrorInfo{Reason: reason, Domain: errorDomain, Metadata: map[string]string{
		"retriable": strconv.FormatBool(retriable), "setting": setting, "limit": strconv.FormatInt(limit, 10),
	}}
	s, err := status.New(code, message).WithDetails(append([]protoadapt.MessageV1{info}, details...)...)
	if err != nil {
		panic("server: " + err.Error()) // only for a detail that cannot be encoded
	}
	return s
}

// place is what a REST call was told when it asked to be let in, and what it takes.
type place struct {
	err   error
	share share
}

func (f *front) leave(call *restCall) {
	call.place.share.giveBack()
	f.limits.inFlight.leave()
}

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
