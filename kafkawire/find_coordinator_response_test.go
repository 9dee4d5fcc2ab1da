package kafkawire

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Rows are read into the room of the rows before, which must not shine through;
// strings taken out of them stay what they were.
func TestDecodeReusesRows(t *testing.T) {
	var answer FindCoordinatorResponse
	require.NoError(t, answer.Decode(batchAnswer(t, 100, 6), 6))
	taken := answer.Coordinators[7]
	room := answer.Coordinators

	short := &FindCoordinatorResponse{Coordinators: []Coordinator{{Key: "a", ErrorCode: ErrNotCoordinator, ErrorMessage: "m"}, {NodeID: 1}, {NodeID: 2}}}
	body, err := short.Encode(nil, 6)
	require.NoError(t, err)
	require.NoError(t, answer.Decode(body, 6))
	require.Equal(t, short.Coordinators, answer.Coordinators)
	require.Same(t, &room[0], &answer.Coordinators[0])
	require.Equal(t, make([]Coordinator, 97), room[3:], "nothing of the old answer is kept alive")

	require.NoError(t, answer.Decode(batchAnswer(t, 2, 6), 6))
	require.Len(t, answer.Coordinators, 2)
	require.Empty(t, answer.Coordinators[0].ErrorMessage)
	require.Zero(t, room[2])
	require.Equal(t, Coordinator{Key: "consumer-group-00007", NodeID: 2, Host: "kafka-2.kafka.svc.cluster.local", Port: 9092}, taken)

	require.Error(t, answer.Decode(body[:len(body)-1], 6))
	require.Zero(t, answer)
}

// Rows that are plain and rows that are not, in every order, are read alike.
func TestPlainAndOtherRows(t *testing.T) {
	long := string(make([]byte, 127))
	kinds := []Coordinator{
		{Key: "plain", NodeID: 1, Host: "b1", Port: 9092},
		{Key: "message", NodeID: NoNode, Port: -1, ErrorCode: ErrInvalidRequest, ErrorMessage: "text"},
		{Key: long, NodeID: 2, Host: "b2", Port: 9092},
		{Key: "long host", NodeID: 2, Host: long, Port: 9092},
		{Key: "long message", ErrorMessage: long},
		{Key: long[:126], NodeID: 3, Host: long[:126], Port: 1, ErrorMessage: long[:126]},
		{},
	}
	for code := range len(kinds) * len(kinds) * len(kinds) {
		a, b, c := code%len(kinds), code/len(kinds)%len(kinds), code/len(kinds)/len(kinds)
		want := FindCoordinatorResponse{Coordinators: []Coordinator{kinds[a], kinds[b], kinds[c]}}
		body, err := want.Encode(nil, 4)
		require.NoError(t, err)
		var got FindCoordinatorResponse
		require.NoError(t, got.Decode(body, 4))
		require.Equal(t, want, got, fmt.Sprint(a, b, c))
	}
}
