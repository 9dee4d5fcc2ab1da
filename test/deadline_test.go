package test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

// A gRPC caller's own deadline, with no timeout in the request, ends a call in time for
// the caller to hear what is known: the keys that were found, and what a broker said of
// the others.
func TestOwnDeadlineLosesNothing(t *testing.T) {
	stub := kafkatest.NewStub(t, kafkatest.StubConfig{})
	stub.SetCoordinator(func(_ kafkawire.KeyType, key string) kafkawire.Coordinator {
		if key == "stuck" {
			return kafkawire.Coordinator{NodeID: -1, Port: -1, ErrorCode: kafkawire.ErrCoordinatorNotAvailable}
		}
		return kafkawire.Coordinator{NodeID: 1, Host: "broker-1", Port: 9092}
	})
	service := serve(t, []string{stub.Addr()})
	service.ready(t)
	client := service.client(t)
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		resp, err := client.FindCoordinators(ctx, &coordsvcv1.FindCoordinatorsRequest{Keys: []string{"good", "stuck"}})
		cancel()
		require.NoError(t, err)
		require.EqualValues(t, 1, resp.GetFailed())
		require.EqualValues(t, 1, resp.GetResults()[0].GetCoordinator().GetNodeId())
		require.Equal(t, "COORDINATOR_NOT_AVAILABLE", resp.GetResults()[1].GetError().GetReason())

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		_, err = client.GetCoordinator(ctx, &coordsvcv1.GetCoordinatorRequest{Key: "stuck"})
		cancel()
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		require.ErrorContains(t, err, "COORDINATOR_NOT_AVAILABLE")
	}
}
