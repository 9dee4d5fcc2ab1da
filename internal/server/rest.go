package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/telemetry"
)

// front is the handler of the REST port. It lets a request through to the gateway
// once nothing in it is left to be guessed at: path, method, query, headers, body.
type front struct {
	routes     []*route
	gateway    *runtime.ServeMux
	maxTimeout time.Duration
	gate       *gate
	client     *inProcess
	limits     *limiter
	maxAge     time.Duration
	stopping   *atomic.Bool
	metrics    *telemetry.Metrics // nil: none
	logger     *slog.Logger
}

func newFront(cfg Config, client *inProcess, gate *gate, limits *limiter, stopping *atomic.Bool, logger *slog.Logger) (*front, error) {
	f := &front{
		routes:     routes(cfg.Docs),
		maxTimeout: cfg.MaxTimeout,
		gate:       gate,
		client:     client,
		limits:     limits,
		maxAge:     cfg.MaxConnectionAge,
		stopping:   stopping,
		metrics:    cfg.Metrics,
		logger:     logger,
	}
	f.gateway = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, gatewayJSON{}),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptReserved),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithIncomingHeaderMatcher(incomingHeader),
		runtime.WithOutgoingHeaderMatcher(outgoingHeader),
		runtime.WithErrorHandler(f.writeError),
		runtime.WithRoutingErrorHandler(f.routingFault),
		runtime.WithWriteContentLength(),
	)
	if err := coordsvcv1.RegisterCoordinatorServiceHandlerClient(context.Background(), f.gateway, client); err != nil {
		return nil, fmt.Errorf("registering the REST routes: %w", err)
	}
	return f, nil
}

// incomingHeader names the HTTP headers that become gRPC metadata: an allow-list,
// since metadata is what the service may come to trust. (The gateway adds
// authorization and x-forwarded-for by itself.)
func incomingHeader(name string) (string, bool) {
	if strings.EqualFold(name, requestIDHeader) {
		return requestIDHeader, true
	}
	for _, header := range telemetry.TraceHeaders() {
		if strings.EqualFold(name, header) {
			return header, true
		}
	}
	return "", false
}

// outgoingHeader names the metadata that becomes HTTP headers: all, with the
// prefix that gateways use, but the request id, which the front has written.
func outgoingHeader(name string) (string, bool) {
	if name == requestIDHeader {
		return "", false
	}
	return runtime.MetadataHeaderPrefix + name, true
}

// restCall is what the front, the gateway's error handler and the in-process
// client know of the same request.
type restCall struct {
	requestID    string
	reachedChain bool // the chain has logged it
	peer         *peer.Peer
	verdict      *verdict // of the gate
	place        *place   // nil until it has asked for one, which it may only then need
	answer       answerWriter

	answeredAhead bool // before its body was read
}

type restCallKey struct{}

// restCallOf is nil for a call that did not come by REST.
func restCallOf(ctx context.Context) *restCall {
	c, _ := ctx.Value(restCallKey{}).(*restCall)
	return c
}

func protocolOf(ctx context.Context) string {
	if restCallOf(ctx) != nil {
		return telemetry.REST
	}
	return telemetry.GRPC
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := &restCall{requestID: saneRequestID(r.Header.Get(requestIDHeader))}
	h := w.Header()
	h.Set("X-Request-Id", call.requestID)
	h.Set("Cache-Control", "no-store") // an answer is never older than its question
	h.Set("X-Content-Type-Options", "nosniff")
	if f.stopping.Load() || isOld(r, f.maxAge) {
		h.Set("Connection", "close") // the client's next call goes to another instance
	}
	defer f.recovered(w, call)

	problem := f.serve(w, r, call)
	answeredAhead := call.answeredAhead
	if problem != nil {
		answeredAhead = problem.httpStatus == http.StatusTooManyRequests && answerAhead(w, r)
		writeRefusal(w, problem)
		f.logRefusal(r, call, problem)
	}
	if answeredAhead {
		f.discardBody(w, r)
	}
}

// netHTTPReads is how much of a body net/http reads by itself, before it answers.
const netHTTPReads = 256 << 10

// isLong reports whether the client may be sending a body that nobody will read.
func isLong(r *http.Request) bool {
	waits := r.Header.Get("Expect") != ""
	return !waits && (r.ContentLength < 0 || r.ContentLength > netHTTPReads)
}

// answerAhead prepares to answer before a long body has come in, on a connection
// that is closed then.
func answerAhead(w http.ResponseWriter, r *http.Request) bool {
	if !isLong(r) {
		return false
	}
	w.Header().Set("Connection", "close")
	return http.NewResponseController(w).EnableFullDuplex() == nil
}

// discardTimeout is how long a client may go on sending a body that was refused.
const discardTimeout = time.Second

// discardBody reads what is left of a body that is answered already, and throws it
// away. To close the connection while the client still sends would make the client's
// kernel forget the answer, and an overloaded server must be heard.
func (f *front) discardBody(w http.ResponseWriter, r *http.Request) {
	connection := http.NewResponseController(w)
	_ = connection.Flush()
	_ = connection.SetReadDeadline(time.Now().Add(discardTimeout))
	_, _ = io.CopyN(io.Discard, r.Body, int64(f.limits.maxMessageBytes))
}

// verbFor names the route that answers the method at the same path with a verb, if there is one.
func (f *front) verbFor(matched *route, method string) string {
	for _, r := range f.routes {
		if r.method == method && strings.HasPrefix(r.path, matched.path+":") {
			return "; " + method + " goes to " + r.path
		}
	}
	return ""
}

// serve answers r, or says why not; then nothing is written yet.
func (f *front) serve(w http.ResponseWriter, r *http.Request, call *restCall) *refusal {
	if r.Method == http.MethodOptions && r.URL.Path == "*" {
		w.Header().Set("Allow", "GET, HEAD, OPTIONS, POST")
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	matched, inPath, problem := match(f.routes, pathAsSent(r.URL))
	if problem != nil {
		return problem
	}
	switch {
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", matched.allow())
		w.WriteHeader(http.StatusNoContent)
		return nil
	case r.Method != matched.method && (r.Method != http.MethodHead || matched.method != http.MethodGet):
		w.Header().Set("Allow", matched.allow())
		return refuse(http.StatusMethodNotAllowed, codes.Unimplemented, "METHOD_NOT_ALLOWED",
			"%s is answered to %s only, not to %s%s", matched.path, matched.method, clip(r.Method), f.verbFor(matched, r.Method))
	}
	if matched.request != nil {
		if !f.admit(w, r, matched, call) {
			return nil
		}
		defer f.leave(call)
		if err := call.place.share.take(memoryPerByte * int64(len(r.RequestURI))); err != nil {
			return f.overLimit(err)
		}
	}
	values, problem := parseQuery(matched, r.URL.RawQuery)
	if problem != nil {
		return problem
	}
	for name, value := range inPath {
		if problem := addValue(values, matched.request.Fields().ByTextName(name), value); problem != nil {
			return problem
		}
	}
	if keys := values["keys"]; keys != nil {
		if err := f.limits.keys(len(keys), &call.place.share); err != nil {
			return f.overLimit(err)
		}
	}
	body, problem := f.body(w, r, matched, call)
	if problem != nil {
		return problem
	}
	if matched.page != nil {
		matched.page(w, r)
		return nil
	}
	return f.askGateway(w, r, matched, values, body, call)
}

func (f *front) body(w http.ResponseWriter, r *http.Request, matched *route, call *restCall) (*checkedBody, *refusal) {
	if matched.method == http.MethodPost {
		return f.readBody(w, r, matched.params, &call.place.share)
	}
	return newCheckedBody(nil), f.noBody(w, r, matched)
}

// askGateway hands the gateway a request of nothing but what was checked. Its
// ParseForm finds the form filled and reads nothing again.
func (f *front) askGateway(w http.ResponseWriter, r *http.Request, matched *route, values url.Values, body *checkedBody, call *restCall) *refusal {
	timeout, problem := f.timeout(r.Header)
	if problem != nil {
		return problem
	}
	ctx := r.Context()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	ctx = context.WithValue(ctx, restCallKey{}, call)
	ctx = peer.NewContext(ctx, call.peer)

	checked := r.WithContext(ctx)
	checked.Method = matched.method
	checked.URL = &url.URL{Path: matched.gatewayPath}
	checked.Form, checked.PostForm = values, url.Values{}
	checked.Body, checked.ContentLength = body, int64(len(body.text))
	checked.Header.Del("Grpc-Timeout") // it is in ctx
	checked.Header.Set(requestIDHeader, call.requestID)
	call.answer = answerWriter{w, f.logger, call.requestID}
	f.gateway.ServeHTTP(&call.answer, checked)
	return nil
}

// answerWriter keeps to itself that a client has gone amid its answer. The gateway would
// write so to stderr, past the log.
type answerWriter struct {
	http.ResponseWriter
	logger    *slog.Logger
	requestID string
}

func (w *answerWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	if err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		w.logger.Debug("a REST answer did not arrive", "request_id", w.requestID, "error", err)
		return len(p), nil
	}
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// timeoutUnits are those of gRPC's own header: 1500m is a second and a half.
var timeoutUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second,
	'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// timeout is the Grpc-Timeout header, capped; 0 without one.
func (f *front) timeout(h http.Header) (time.Duration, *refusal) {
	given := strings.Join(h.Values("Grpc-Timeout"), ", ") // of two, which are refused, neither would be right
	if given == "" {
		return 0, nil
	}
	digits, unit := given[:len(given)-1], timeoutUnits[given[len(given)-1]]
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || unit == 0 || n == 0 || len(digits) > 8 {
		return 0, refuse(http.StatusBadRequest, codes.InvalidArgument, "INVALID_ARGUMENT",
			"the header Grpc-Timeout is %q: write 1 to 8 digits and one of H, M, S, m, u, n; 2500m is 2.5 seconds", clip(given))
	}
	if float64(n)*float64(unit) >= float64(f.maxTimeout) {
		return f.maxTimeout, nil
	}
	return time.Duration(n) * unit, nil //nolint:gosec // n has 8 digits at most
}

// peerOf is the peer as a gRPC call would have it.
func peerOf(r *http.Request) *peer.Peer {
	p := &peer.Peer{}
	if remote, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		p.Addr = net.TCPAddrFromAddrPort(remote)
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		p.LocalAddr = local
	}
	if c, ok := r.Context().Value(tlsConnKey{}).(*tls.Conn); ok {
		p.AuthInfo = credentials.TLSInfo{
			State:          c.ConnectionState(),
			CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		}
	}
	return p
}

// writeError answers a call that failed, in the chain or in the gateway's decoder.
func (f *front) writeError(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	call := restCallOf(r.Context())
	if e, ok := preparedOf(err); ok {
		e.write(w)
		return
	}
	s, ok := statusOf(err)
	if !ok { // an answer that cannot be written as JSON
		f.logger.Error("a REST answer cannot be written", "request_id", call.requestID, "error", err)
		s = internalError(call.requestID)
	}
	if md, ok := runtime.ServerMetadataFromContext(ctx); ok {
		for name, values := range md.HeaderMD {
			if header, forward := outgoingHeader(name); forward {
				w.Header()[http.CanonicalHeaderKey(header)] = values
			}
		}
	}
	answer := &refusal{httpStatusOf(s.Code()), s}
	writeRefusal(w, answer)
	if !call.reachedChain {
		f.logRefusal(r, call, answer)
	}
}

// routingFault is for a path that is in routes but not in the gateway.
func (f *front) routingFault(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, httpStatus int) {
	call := restCallOf(r.Context())
	f.logger.Error("the REST routes and the gateway do not agree", "path", r.URL.Path, "status", httpStatus, "request_id", call.requestID)
	writeStatus(w, http.StatusInternalServerError, internalError(call.requestID))
}

// logRefusal logs and counts a request that did not become a call. Its path and query may
// hold keys: they are not logged.
func (f *front) logRefusal(r *http.Request, call *restCall, answer *refusal) {
	f.refused(r.Context(), answer, slog.String("request_id", call.requestID), slog.String("peer", r.RemoteAddr))
}

// unread is logRefusal for a request that net/http could not read.
func (f *front) unread(answer *refusal, peer string) {
	f.refused(context.Background(), answer, slog.String("peer", peer))
}

func (f *front) refused(ctx context.Context, answer *refusal, who ...slog.Attr) {
	if f.metrics != nil {
		f.metrics.Refused(answer.httpStatus)
	}
	f.logger.LogAttrs(ctx, slog.LevelInfo, "request refused", append([]slog.Attr{
		slog.Int("status", answer.httpStatus), slog.String("reason", reasonOf(answer.status.Err())), slog.String("protocol", "REST")}, who...)...)
}

// recovered answers a panic of the front or the gateway; those of the service
// were met in the chain.
func (f *front) recovered(w http.ResponseWriter, call *restCall) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
		panic(p)
	}
	f.logger.Error("panic in a REST request", "request_id", call.requestID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	writeStatus(w, http.StatusInternalServerError, internalError(call.requestID))
}
