package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/auth"
)

// authenticate lets nobody through who may not call. Health is open to everybody:
// it says what the admin port says. The request of a gRPC call is not decoded yet
// (decodeAfterAuth), and of a REST call the front has asked the gate before it
// read the body (front.admit).
func authenticate(g *gate) step {
	return step{
		name: "auth",
		unaryStep: func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if isOpen(info.FullMethod) {
				return handler(ctx, req)
			}
			v := verdictOf(ctx)
			if v == nil {
				v = g.judge(ctx, authorizationOf(ctx))
			}
			if v.refused != nil {
				return nil, refusalStatus(v.refused, nil)
			}
			recordOf(ctx).caller = &v.caller
			return handler(ctx, req)
		},
		streamStep: func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if isOpen(info.FullMethod) {
				return handler(srv, ss)
			}
			v := g.judge(ss.Context(), authorizationOf(ss.Context()))
			if v.refused != nil {
				return refusalStatus(v.refused, nil)
			}
			recordOf(ss.Context()).caller = &v.caller
			return handler(srv, ss)
		},
	}
}

// policy refuses what this caller may not ask. It stands behind admission, where
// the request is decoded.
func policy(g *gate) step {
	return step{
		name: "validation",
		unaryStep: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if caller := recordOf(ctx).caller; caller != nil {
				if err := g.authorize(*caller, req); err != nil {
					return nil, err
				}
			}
			return handler(ctx, req)
		},
	}
}

func isOpen(method string) bool {
	return strings.HasPrefix(method, "/"+healthv1.Health_ServiceDesc.ServiceName+"/")
}

// verdict is what the gate said of a call.
type verdict struct {
	caller  auth.Caller
	refused error
}

func (g *gate) judge(ctx context.Context, authorization []string) *verdict {
	caller, err := g.admit(ctx, authorization)
	return &verdict{caller, err}
}

// verdictOf is the verdict on a REST call, nil for others.
func verdictOf(ctx context.Context) *verdict {
	if r := restCallOf(ctx); r != nil {
		return r.verdict
	}
	return nil
}

// authorize asks the policy about the keys of a request. The brokers of the
// cluster may be listed by whoever may call: each answer names one anyway.
func (g *gate) authorize(caller auth.Caller, req any) error {
	var err error
	field := func(i int) string { return "keys[" + strconv.Itoa(i) + "]" }
	switch r := req.(type) {
	case *coordsvcv1.FindCoordinatorsRequest:
		err = g.auth.Authorize(caller, r.GetKeyType(), r.GetKeys())
	case *coordsvcv1.GetCoordinatorRequest:
		err = g.auth.Authorize(caller, r.GetKeyType(), []string{r.GetKey()})
		field = func(int) string { return "key" }
	}
	if err == nil {
		return nil
	}
	return refusalStatus(err, field)
}

// decodeAfterAuth has grpc-go hand each request to the chain empty; the
// admission step fills it. Otherwise strangers could have requests read and decoded: millions of
// empty keys, two bytes each on the wire, sixteen in memory.
func decodeAfterAuth(service *grpc.ServiceDesc) *grpc.ServiceDesc {
	late := *service
	late.Methods = slices.Clone(service.Methods)
	for i, method := range service.Methods {
		late.Methods[i].Handler = func(srv any, ctx context.Context, _ func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			record := &callRecord{}
			return method.Handler(srv, context.WithValue(ctx, callRecordKey{}, record), record.readLater, interceptor)
		}
	}
	return &late
}

// admit asks the gate, and for a place, before anything of the request is read but
// its head. A call that is refused goes through the chain all the same, which logs
// and counts it. One that is not must leave its place.
func (f *front) admit(w http.ResponseWriter, r *http.Request, matched *route, call *restCall) bool {
	call.peer = peerOf(r)
	ctx := peer.NewContext(context.WithValue(r.Context(), restCallKey{}, call), call.peer)
	call.verdict = f.gate.judge(ctx, r.Header.Values("Authorization"))
	if call.verdict.refused == nil {
		call.place = &place{err: f.limits.enter(), share: share{of: f.limits.memory}}
		if call.place.err == nil {
			return true
		}
		call.answeredAhead = answerAhead(w, r)
	}
	err := f.client.refused(ctx, methodOf(matched.request), call)
	f.writeError(ctx, nil, nil, w, r.WithContext(ctx), err)
	return false
}

// refused runs the chain for a call that it will refuse.
func (c *inProcess) refused(ctx context.Context, method string, call *restCall) error {
	call.reachedChain = true
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(requestIDHeader, call.requestID))
	ctx = grpc.NewContextWithServerTransportStream(ctx, &runtime.ServerTransportStream{})
	_, err := c.chain(ctx, nil, &grpc.UnaryServerInfo{Server: c.svc, FullMethod: method}, func(context.Context, any) (any, error) {
		return nil, errors.New("a call that the gate refused went through the chain")
	})
	return err
}

// methodOf is the RPC that takes this request.
func methodOf(request protoreflect.MessageDescriptor) string {
	service := coordsvcv1.File_coordsvc_v1_coordinators_proto.Services().ByName("CoordinatorService")
	for i := range service.Methods().Len() {
		if m := service.Methods().Get(i); m.Input() == request {
			return "/" + string(service.FullName()) + "/" + string(m.Name())
		}
	}
	return ""
}

// maxDeniedKeys is how many keys a refusal names.
const maxDeniedKeys = 50

// issuerRetry is when a call that met an issuer's silence should be made again.
const issuerRetry = time.Second

// refusalStatus is the status of a refusal. It names keys by their field of the
// request, not by their text: fifty long ones would not fit into the headers that
// gRPC carries a status in.
func refusalStatus(err error, field func(i int) string) error {
	var refused *auth.RefusalError
	if !errors.As(err, &refused) {
		return err
	}
	var code codes.Code
	info := &errdetails.ErrorInfo{Domain: errorDomain, Metadata: map[string]string{"cause": refused.Cause}}
	details := []protoadapt.MessageV1{info}
	switch refused.Kind {
	case auth.Unauthenticated:
		code, info.Reason = codes.Unauthenticated, "UNAUTHENTICATED"
	case auth.Denied:
		code, info.Reason = codes.PermissionDenied, "PERMISSION_DENIED"
	case auth.Unavailable:
		code, info.Reason = codes.Unavailable, refused.Cause
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(issuerRetry)})
	}
	if len(refused.Denied) > 0 {
		info.Metadata["denied"] = strconv.Itoa(len(refused.Denied))
		details = append(details, deniedKeys(refused.Denied, field))
	}
	s, detailsErr := status.New(code, refused.Message).WithDetails(details...)
	if detailsErr != nil {
		return status.Error(code, refused.Message)
	}
	return s.Err()
}

func deniedKeys(indexes []int, field func(i int) string) *errdetails.BadRequest {
	list := &errdetails.BadRequest{}
	for _, i := range indexes[:min(len(indexes), maxDeniedKeys)] {
		list.FieldViolations = append(list.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: field(i), Description: "the policy does not let this caller look up this key"})
	}
	return list
}

// challenge is the WWW-Authenticate header of an answer 401 (RFC 6750, section 3).
func challenge(s *status.Status) string {
	const realm = `Bearer realm="coordsvc"`
	switch errorInfoOf(s).GetMetadata()["cause"] {
	case "", auth.CauseNoCredentials, auth.CauseCertificateRefused:
		return realm
	default:
		return realm + `, error="invalid_token"`
	}
}
