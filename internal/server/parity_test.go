package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// TestErrorsAreTheSameOnBothProtocols has one case a way in which a call can fail:
// both protocols answer the same status, and REST the HTTP status for it.
func TestErrorsAreTheSameOnBothProtocols(t *testing.T) {
	cases := []struct {
		name   string
		err    error
		code   codes.Code
		http   int
		reason string
	}{
		{"with details", newStatus(codes.Unavailable, "COORDINATOR_NOT_AVAILABLE", "try again",
			&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}).Err(), codes.Unavailable, 503, "COORDINATOR_NOT_AVAILABLE"},
		{"wrapped", fmt.Errorf("looking up: %w", newStatus(codes.PermissionDenied, "GROUP_AUTHORIZATION_FAILED", "DESCRIBE is missing").Err()),
			codes.PermissionDenied, 403, "GROUP_AUTHORIZATION_FAILED"},
		{"bad request", newStatus(codes.InvalidArgument, "INVALID_GROUP_ID", "no").Err(), codes.InvalidArgument, 400, "INVALID_GROUP_ID"},
		{"unsupported", newStatus(codes.Unimplemented, "UNSUPPORTED_KEY_TYPE", "no").Err(), codes.Unimplemented, 501, "UNSUPPORTED_KEY_TYPE"},
		{"overload", newStatus(codes.ResourceExhausted, "OVERLOADED", "no").Err(), codes.ResourceExhausted, 429, "OVERLOADED"},
		{"other Kafka code", newStatus(codes.Unknown, "KAFKA_999", "no").Err(), codes.Unknown, 500, "KAFKA_999"},
		{"deadline", newStatus(codes.DeadlineExceeded, "DEADLINE_EXCEEDED", "no").Err(), codes.DeadlineExceeded, 504, "DEADLINE_EXCEEDED"},
		{"bare status", status.Error(codes.Unauthenticated, "who are you?"), codes.Unauthenticated, 401, "UNAUTHENTICATED"},
		{"bare deadline", fmt.Errorf("waiting: %w", context.DeadlineExceeded), codes.DeadlineExceeded, 504, "DEADLINE_EXCEEDED"},
		{"bare cancellation", context.Canceled, codes.Canceled, 499, "CANCELLED"},
		{"no status", errors.New("the secret of the house"), codes.Internal, 500, "INTERNAL"},
		{"panic", nil, codes.Internal, 500, "INTERNAL"},
		{"an answer that is not UTF-8", errors.ErrUnsupported, codes.Internal, 500, "INTERNAL"},
	}
	var current int
	svc := &fakeService{get: func(context.Context, *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
		switch cases[current].name {
		case "panic":
			panic("the secret of the house")
		case "an answer that is not UTF-8":
			return &coordsvcv1.GetCoordinatorResponse{Result: found("\xff")}, nil
		}
		return nil, cases[current].err
	}}
	r := start(t, svc)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			current = i
			_, err := r.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: "a"})
			overGRPC := status.Convert(err)
			require.Equal(t, c.code, overGRPC.Code())

			got := r.do(t, "GET", "/v1/coordinator?key=a", "")
			require.Equal(t, c.http, got.status)
			require.Equal(t, c.code == codes.Unavailable, got.header.Get("Retry-After") == "1")
			overREST := requireStatus(t, got, c.reason)
			require.Equal(t, c.code, overREST.Code())
			require.NotContains(t, string(got.body), "secret")
			require.NotContains(t, overGRPC.Message(), "secret")
			if c.reason == "INTERNAL" {
				require.Contains(t, overREST.Message(), got.header.Get("X-Request-Id"))
				require.Contains(t, r.log.String(), got.header.Get("X-Request-Id"))
				return // the request ids differ; the last case grpc-go words itself
			}
			require.True(t, proto.Equal(overGRPC.Proto(), overREST.Proto()), "gRPC: %v\nREST: %v", overGRPC.Proto(), overREST.Proto())
		})
	}
	require.Contains(t, r.log.String(), "the secret of the house", "the log has what the caller must not see")
}

func TestAnswersAreTheSameOnBothProtocols(t *testing.T) {
	svc := &fakeService{find: func(_ context.Context, req *coordsvcv1.FindCoordinatorsRequest) (*coordsvcv1.FindCoordinatorsResponse, error) {
		resp := &coordsvcv1.FindCoordinatorsResponse{Failed: 1}
		for _, key := range req.GetKeys() {
			resp.Results = append(resp.Results, found(key))
		}
		resp.Results[0].Outcome = &coordsvcv1.CoordinatorResult_Error{Error: &coordsvcv1.LookupError{Reason: "KAFKA_-1", KafkaCode: -1}}
		return resp, nil
	}}
	r := start(t, svc)
	req := &coordsvcv1.FindCoordinatorsRequest{KeyType: coordsvcv1.KeyType_TRANSACTION, Keys: []string{"b", "a/b", "b", ""}, Timeout: durationpb.New(1500 * time.Millisecond)}
	want, err := r.grpc.FindCoordinators(t.Context(), req)
	require.NoError(t, err)
	seenByGRPC := svc.lastRequest()

	body, err := protojson.Marshal(req)
	require.NoError(t, err)
	for _, ask := range []func() answer{
		func() answer {
			return r.do(t, "POST", "/v1/coordinators:find", string(body), "Content-Type", asJSON)
		},
		func() answer {
			return r.do(t, "GET", "/v1/coordinators?keyType=TRANSACTION&keys=b&keys=a/b&keys=b&keys=&timeout=1.500s", "")
		},
	} {
		got := ask()
		require.Equal(t, 200, got.status, "%s", got.body)
		var resp coordsvcv1.FindCoordinatorsResponse
		require.NoError(t, protojson.Unmarshal(got.body, &resp))
		require.True(t, proto.Equal(want, &resp))
		require.True(t, proto.Equal(seenByGRPC.(proto.Message), svc.lastRequest().(proto.Message)))
		require.NotContains(t, string(got.body), "null")
		require.Contains(t, string(got.body), `"error":{"reason":"KAFKA_-1","kafkaCode":-1,"message":"","retriable":false}`)

		require.True(t, json.Valid(got.body))
		again, err := MarshalJSON(want)
		require.NoError(t, err)
		require.Equal(t, string(again)+"\n", string(got.body), "MarshalJSON is what REST answers")
	}
}

// TestCallerLeaves: a caller that hangs up ends its call, on both protocols.
func TestCallerLeaves(t *testing.T) {
	entered, left := make(chan struct{}), make(chan error)
	svc := &fakeService{get: func(ctx context.Context, _ *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
		entered <- struct{}{}
		<-ctx.Done()
		left <- ctx.Err()
		return nil, ctx.Err()
	}}
	r := start(t, svc)
	for _, call := range bothProtocols(r) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- call(ctx, "a") }()
		<-entered
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		require.Error(t, <-done)
	}
}
