package kafkawire

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

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
		checkSharing(t, body, 4)
	}
}

// A row that answers a key in its place has the caller's own string, whichever way
// the row is read, and rows of one broker have one host.
func TestDecodeSharing(t *testing.T) {
	long := strings.Repeat("k", MaxKeyLength)
	keys := []string{"a", "b", long, "d", ""}
	want := []Coordinator{
		{Key: "a", NodeID: 1, Host: "b1", Port: 9092},
		{Key: "other", NodeID: 257, Host: "b257", Port: 9092}, // whose host takes the place of b1
		{Key: long, NodeID: 1, Host: "b1", Port: 9092},
		{Key: "d", NodeID: NoNode, Port: -1, ErrorCode: ErrInvalidRequest, ErrorMessage: "text"},
		{NodeID: 1, Host: "b1", Port: 9092},
		{Key: "a", NodeID: 1, Host: strings.Repeat("h", longestHost+1), Port: 9092}, // a row too many, and no host
	}
	body, err := (&FindCoordinatorResponse{Coordinators: want}).Encode(nil, 6)
	require.NoError(t, err)
	var answer FindCoordinatorResponse
	var hosts Hosts
	require.NoError(t, answer.DecodeSharing(body, 6, keys, &hosts))
	clear(body)
	require.Equal(t, want, answer.Coordinators)
	for _, i := range []int{0, 2, 3} {
		require.Same(t, unsafe.StringData(keys[i]), unsafe.StringData(answer.Coordinators[i].Key), i)
	}
	require.Same(t, unsafe.StringData(answer.Coordinators[2].Host), unsafe.StringData(answer.Coordinators[4].Host))
	require.Equal(t, "b1", hosts.byNode[1], "what is no host is not kept")

	// A broker may repeat itself, but not for ever.
	most := FindCoordinatorResponse{Coordinators: slices.Repeat(want[:1], mostRows(len(keys)))}
	body, err = most.Encode(nil, 6)
	require.NoError(t, err)
	require.NoError(t, answer.DecodeSharing(body, 6, keys, &hosts))
	require.ErrorIs(t, answer.DecodeSharing(body, 6, keys[:len(keys)-1], &hosts), ErrInvalidLength)
	require.ErrorContains(t, answer.DecodeSharing(body, 6, keys[:1], &hosts), "Coordinators at byte 4: invalid length: 11 rows for 1 keys")

	// Below v4 no key is repeated.
	row := Coordinator{NodeID: 1, Host: "b1", Port: 9092}
	for v := Version(0); v < firstBatched; v++ {
		body, err := (&FindCoordinatorResponse{Coordinators: []Coordinator{row}}).Encode(nil, v)
		require.NoError(t, err)
		require.NoError(t, answer.DecodeSharing(body, v, keys[:1], &hosts))
		require.Equal(t, []Coordinator{{Key: "a", NodeID: 1, Host: "b1", Port: 9092}}, answer.Coordinators)
		require.NoError(t, answer.DecodeSharing(body, v, nil, &hosts))
		require.Equal(t, []Coordinator{row}, answer.Coordinators)
	}
}

// checkSharing decodes a body with and without strings to share, which must not
// make a difference, whether they are the right ones or not.
func checkSharing(t *testing.T, body []byte, v Version) {
	var want FindCoordinatorResponse
	wantErr := want.Decode(body, v)
	asked := make([]string, len(want.Coordinators))
	for i := range want.Coordinators {
		asked[i] = strings.Clone(want.Coordinators[i].Key)
	}
	var hosts Hosts // the second round finds them known
	for _, keys := range [][]string{nil, asked, append([]string{"x"}, asked...), asked[:len(asked)/2]} {
		src := bytes.Clone(body)
		got := FindCoordinatorResponse{Coordinators: []Coordinator{{Key: "old", Host: "old", ErrorMessage: "old"}}}
		err := got.DecodeSharing(src, v, keys, &hosts)
		clear(src)
		require.Equal(t, wantErr, err)
		if v < firstBatched && err == nil && len(keys) > 0 {
			require.Equal(t, keys[0], got.Coordinators[0].Key)
			got.Coordinators[0].Key = ""
		}
		require.Equal(t, want, got)
	}
}
