package server

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

func TestAnswersAreWrittenAsTheGeneralWriterDoes(t *testing.T) {
	row := func(key, host, by string) *coordsvcv1.CoordinatorResult {
		return &coordsvcv1.CoordinatorResult{Key: key, ApiVersion: 6, AnsweredBy: by, Outcome: &coordsvcv1.CoordinatorResult_Coordinator{
			Coordinator: &coordsvcv1.Coordinator{NodeId: -1, Host: host, Port: 9092},
		}}
	}
	for name, r := range map[string]*coordsvcv1.CoordinatorResult{
		"plain":               row("orders", "kafka-1", "kafka-2:9092"),
		"zero values":         {Outcome: &coordsvcv1.CoordinatorResult_Coordinator{Coordinator: &coordsvcv1.Coordinator{}}},
		"no outcome":          {Key: "orders"},
		"nothing":             {},
		"an error":            {Key: "orders", Outcome: &coordsvcv1.CoordinatorResult_Error{Error: &coordsvcv1.LookupError{Reason: "X", Message: `of "orders"`, Retriable: true}}},
		"an outcome of none":  {Outcome: &coordsvcv1.CoordinatorResult_Coordinator{}},
		"escapes":             row("a\"b\\c\n\x00\x1f", "h", "b"),
		"what HTML escapes":   row("<a>&\u2028\u2029\x7f", "h", "b"),
		"other alphabets":     row("заказы-注文-🛒", "брокер", "ブローカー"),
		"escapes in a host":   row("k", `h"`, "b"),
		"escapes in a broker": row("k", "h", `b\`),
	} {
		t.Run(name, func(t *testing.T) {
			sameJSON(t, &coordsvcv1.GetCoordinatorResponse{Result: r})
			sameJSON(t, &coordsvcv1.FindCoordinatorsResponse{Results: []*coordsvcv1.CoordinatorResult{r, row("k", "h", "b"), r}, Failed: 1})
		})
	}
	sameJSON(t, &coordsvcv1.FindCoordinatorsResponse{})
	sameJSON(t, &coordsvcv1.GetCoordinatorResponse{})
	sameJSON(t, (*coordsvcv1.GetCoordinatorResponse)(nil))
	sameJSON(t, (*coordsvcv1.FindCoordinatorsResponse)(nil))
	sameJSON(t, row("\xff", "h", "b"))
}

// sameJSON compares MarshalJSON with the general writer, in what either refuses too.
func sameJSON(t *testing.T, m proto.Message) {
	t.Helper()
	want, refused := generalJSON(m)
	got, err := MarshalJSON(m)
	require.Equal(t, refused == nil, err == nil, "%v, but the general writer: %v", err, refused)
	require.Equal(t, string(want), string(got))
}

func FuzzAnswerJSON(f *testing.F) {
	for _, m := range []proto.Message{
		&coordsvcv1.FindCoordinatorsResponse{Results: []*coordsvcv1.CoordinatorResult{found("orders"), found("ж\"")}, Failed: 3},
		&coordsvcv1.GetCoordinatorResponse{Result: found("orders")},
	} {
		seed, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		for _, m := range []proto.Message{new(coordsvcv1.FindCoordinatorsResponse), new(coordsvcv1.GetCoordinatorResponse)} {
			if proto.Unmarshal(wire, m) == nil {
				sameJSON(t, m)
			}
		}
	})
}
