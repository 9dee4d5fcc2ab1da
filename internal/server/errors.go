package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
)

// errorDomain is the domain of every ErrorInfo that coordsvc sends.
const errorDomain = "coordsvc"

// newStatus is a status with an ErrorInfo and further details.
func newStatus(code codes.Code, reason, message string, details ...protoadapt.MessageV1) *status.Status {
	s := status.New(code, message)
	all := append([]protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason, Domain: errorDomain}}, details...)
	if detailed, err := s.WithDetails(all...); err == nil {
		return detailed
	}
	return s // only if a detail could not be encoded: text that is not UTF-8
}

// internalError says no more than the request id, by which the log has the rest.
func internalError(requestID string) *status.Status {
	return newStatus(codes.Internal, "INTERNAL", "a fault in coordsvc: its log has more under request id "+requestID,
		&errdetails.RequestInfo{RequestId: requestID})
}

// statusOf is the status that err carries or stands for, with an ErrorInfo; ok is
// false for an error that has none.
func statusOf(err error) (s *status.Status, ok bool) {
	s, ok = status.FromError(err)
	switch {
	case ok:
	case errors.Is(err, context.DeadlineExceeded):
		s = status.New(codes.DeadlineExceeded, "the call's deadline came before an answer: allow more time")
	case errors.Is(err, context.Canceled):
		s = status.New(codes.Canceled, "the caller has left")
	default:
		return nil, false
	}
	if !utf8.ValidString(s.Message()) { // text of a broker: neither protocol could carry it
		p := proto.CloneOf(s.Proto())
		p.Message = strings.ToValidUTF8(p.GetMessage(), "\ufffd")
		s = status.FromProto(p)
	}
	if errorInfoOf(s) != nil {
		return s, true
	}
	detailed, err := s.WithDetails(&errdetails.ErrorInfo{Reason: codeName(s.Code()), Domain: errorDomain})
	if err != nil {
		return s, true
	}
	return detailed, true
}

func errorInfoOf(s *status.Status) *errdetails.ErrorInfo {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}

// reasonOf is the reason in the ErrorInfo of err, or the name of its code.
func reasonOf(err error) string {
	if e, ok := preparedOf(err); ok {
		return e.reason
	}
	s := status.Convert(err)
	if info := errorInfoOf(s); info != nil {
		return info.GetReason()
	}
	return codeName(s.Code())
}

// causeOf is why a caller was refused, "" for other errors.
func causeOf(err error) string {
	if _, ok := preparedOf(err); ok {
		return ""
	}
	return errorInfoOf(status.Convert(err)).GetMetadata()["cause"]
}

// codeName is the name of a code as the protocol writes it: INVALID_ARGUMENT.
func codeName(c codes.Code) string {
	if name, ok := rpccode.Code_name[int32(c)]; ok { //nolint:gosec // 0 to 16
		return name
	}
	return "CODE_" + strconv.FormatUint(uint64(c), 10)
}

// preparedError is a refusal whose every form is made once: to refuse a call must
// cost little, just when there are many to refuse.
type preparedError struct {
	status     *status.Status
	reason     string
	retryAfter string
	body       []byte // for REST
}

func prepare(s *status.Status) *preparedError {
	seconds, _ := retryAfter(s)
	return &preparedError{s, errorInfoOf(s).GetReason(), strconv.FormatInt(seconds, 10), statusJSON(s)}
}

func (e *preparedError) Error() string { return e.status.Err().Error() }

// GRPCStatus is what grpc-go looks for.
func (e *preparedError) GRPCStatus() *status.Status { return e.status }

func (e *preparedError) write(w http.ResponseWriter) {
	w.Header().Set("Retry-After", e.retryAfter)
	writeJSON(w, httpStatusOf(e.status.Code()), e.body)
}

// preparedOf is err where it is one as it was made, not wrapped.
func preparedOf(err error) (e *preparedError, ok bool) {
	e, ok = err.(*preparedError) //nolint:errorlint // a wrapped one is a status like any other
	return e, ok
}

// refusal is an answer of the HTTP side to a request that is no call: the HTTP
// status is its own, not the one that the gRPC code would give (405, 413, 415).
type refusal struct {
	httpStatus int
	status     *status.Status
}

// refuse makes a refusal of a whole request.
func refuse(httpStatus int, code codes.Code, reason, format string, args ...any) *refusal {
	return &refusal{httpStatus, newStatus(code, reason, fmt.Sprintf(format, args...))}
}

// refuseField makes a refusal for one field of a request, 400.
func refuseField(reason, field, format string, args ...any) *refusal {
	message := fmt.Sprintf(format, args...)
	return &refusal{http.StatusBadRequest, newStatus(codes.InvalidArgument, reason, message,
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: message}}})}
}

func writeRefusal(w http.ResponseWriter, r *refusal) { writeStatus(w, r.httpStatus, r.status) }

// writeStatus writes s as a JSON google.rpc.Status.
func writeStatus(w http.ResponseWriter, httpStatus int, s *status.Status) {
	if seconds, ok := retryAfter(s); ok {
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if s.Code() == codes.Unauthenticated {
		w.Header().Set("WWW-Authenticate", challenge(s))
	}
	writeJSON(w, httpStatus, statusJSON(s))
}

// statusJSON leaves the details out where one is of a type that is not linked in.
func statusJSON(s *status.Status) []byte {
	p := s.Proto()
	body, err := marshalLine(p)
	if err != nil {
		p = proto.CloneOf(p)
		p.Details = nil
		body, _ = marshalLine(p) // the message is UTF-8: see statusOf
	}
	return body
}

func writeJSON(w http.ResponseWriter, httpStatus int, body []byte) {
	w.Header().Set("Content-Type", jsonContentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(httpStatus)
	_, _ = w.Write(body) // an error means that the client has left
}

// retryAfter is the RetryInfo of s in whole seconds, rounded up, 1 at least.
func retryAfter(s *status.Status) (seconds int64, ok bool) {
	for _, d := range s.Details() {
		if info, isRetry := d.(*errdetails.RetryInfo); isRetry {
			wait := info.GetRetryDelay().AsDuration().Seconds()
			return int64(math.Max(1, math.Ceil(wait))), true
		}
	}
	return 0, false
}

// httpStatusOf is the HTTP status of a gRPC code: google.rpc.Code's own table.
func httpStatusOf(code codes.Code) int { return runtime.HTTPStatusFromCode(code) }
