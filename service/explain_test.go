package service

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// A gRPC client takes 4 MiB unless it is told otherwise. If the largest call fails, in part
// too, its answer must not be lost for its explanations.
func TestLargestFailureFitsADefaultClient(t *testing.T) {
	const clientTakes = 4 << 20
	const keys = 10_000
	silence := failure(ReasonDeadlineExceeded, strings.Repeat("kafka-1.example:9092 is connected and has not answered; ", 20))
	noCoordinator := &LookupError{Contract: ContractOfCode(kafkawire.ErrCoordinatorNotAvailable)}
	denied := &LookupError{Contract: ContractOfCode(kafkawire.ErrGroupAuthorizationFailed), Detail: strings.Repeat("d", 300)}
	results := make([]Result, keys)
	for i := range results {
		r := &results[i]
		r.Key = fmt.Sprintf("%s-%d", strings.Repeat("k", 95), i)
		switch {
		case i%10 == 9:
			r.Coordinator = Coordinator{NodeID: 1, Host: "kafka-1.example", Port: 9092}
			r.AnsweredBy = "kafka-1.example:9092"
		case i%2 == 0:
			r.Err, r.AnsweredBy = noCoordinator, "kafka-1.example:9092"
		case i == keys-3:
			r.Err, r.AnsweredBy = denied, "kafka-2.example:9092"
		default:
			r.Err = silence
		}
	}
	resp := toProto(kafkawire.KeyTypeGroup, results)
	require.Less(t, proto.Size(resp), clientTakes)
	require.EqualValues(t, keys*9/10, resp.GetFailed())

	at := func(i int) string { return resp.GetResults()[i].GetError().GetMessage() }
	whole := func(i int) string {
		return results[i].Err.Message(kafkawire.KeyTypeGroup, results[i].Key, results[i].AnsweredBy)
	}
	require.Equal(t, whole(0), at(0))
	require.Equal(t, whole(1), at(1))
	require.Equal(t, whole(keys-3), at(keys-3), "the first of its reason")
	require.Equal(t, "COORDINATOR_NOT_AVAILABLE from kafka-1.example:9092; an earlier key of this answer with the same reason has a longer message", at(keys-2))
	require.True(t, strings.HasPrefix(at(keys-5), "DEADLINE_EXCEEDED; an earlier key"), at(keys-5))
	require.True(t, resp.GetResults()[keys-2].GetError().GetRetriable())
	require.EqualValues(t, 15, resp.GetResults()[keys-2].GetError().GetKafkaCode())
}
