package server

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// requireAsProtojson compares what is written by hand with what protojson writes.
func requireAsProtojson(t *testing.T, m proto.Message) {
	t.Helper()
	want, err := marshalAny(m)
	got, ok := appendAnswer([]byte("before "), m)
	if err != nil { // text that is not UTF-8
		require.False(t, ok)
		require.Equal(t, "before ", string(got))
		_, err := MarshalJSON(m)
		require.Error(t, err)
		return
	}
	require.True(t, ok)
	require.Equal(t, "before "+string(want), string(got))
}

// TestAnswersHaveEveryField fails for a field that is in the .proto but not in
// jsonanswer.go: each field of each message is set, one oneof member at a time.
func TestAnswersHaveEveryField(t *testing.T) {
	for _, m := range []proto.Message{&coordsvcv1.FindCoordinatorsResponse{}, &coordsvcv1.GetCoordinatorResponse{}, &coordsvcv1.CoordinatorResult{}} {
		requireAsProtojson(t, m)
		for variant := range 4 {
			full := m.ProtoReflect().New()
			fill(t, full, variant)
			require.NotEqual(t, "{}", full.Interface())
			requireAsProtojson(t, full.Interface())
		}
	}
}

// fill sets every field of m; of a oneof the member that variant picks.
func fill(t *testing.T, m protoreflect.Message, variant int) {
	t.Helper()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if o := f.ContainingOneof(); o != nil && o.Fields().Get(variant%o.Fields().Len()) != f {
			continue
		}
		switch {
		case f.IsList() && f.Message() != nil:
			fill(t, m.Mutable(f).List().AppendMutable().Message(), variant)
			fill(t, m.Mutable(f).List().AppendMutable().Message(), variant+1)
		case f.Message() != nil:
			fill(t, m.Mutable(f).Message(), variant)
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(string(f.Name())))
		case f.Kind() == protoreflect.Int32Kind:
			m.Set(f, protoreflect.ValueOfInt32(-int32(f.Number())))
		case f.Kind() == protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(1<<31))
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		default:
			t.Fatalf("%s: this test knows no %s", f.FullName(), f.Kind())
		}
	}
}

// oddAnswers are those that hand-written code gets wrong first.
func oddAnswers() []*coordsvcv1.FindCoordinatorsResponse {
	var all strings.Builder
	for r := range rune(0x3000) {
		all.WriteRune(r)
	}
	list := func(results ...*coordsvcv1.CoordinatorResult) *coordsvcv1.FindCoordinatorsResponse {
		return &coordsvcv1.FindCoordinatorsResponse{Results: results}
	}
	return []*coordsvcv1.FindCoordinatorsResponse{
		nil,
		list(nil),
		list(found(all.String()), found("\u2028\u2029\ufffd\U0001f600</script>&"), found(strings.Repeat(`"\`, 100))),
		list(found("\xff")), list(found("\xed\xa0\x80")), list(found("a\xc3")),
		list(&coordsvcv1.CoordinatorResult{Outcome: (*coordsvcv1.CoordinatorResult_Coordinator)(nil)}),
		list(&coordsvcv1.CoordinatorResult{Outcome: (*coordsvcv1.CoordinatorResult_Error)(nil)}),
		list(&coordsvcv1.CoordinatorResult{Outcome: &coordsvcv1.CoordinatorResult_Coordinator{}}),
		list(&coordsvcv1.CoordinatorResult{Outcome: &coordsvcv1.CoordinatorResult_Error{}}),
		list(&coordsvcv1.CoordinatorResult{Outcome: &coordsvcv1.CoordinatorResult_Error{Error: &coordsvcv1.LookupError{
			Reason: "KAFKA_-1", KafkaCode: -1 << 31, Message: "a\nb\x00\x7f", Retriable: true}}, ApiVersion: 1<<31 - 1}),
	}
}

func TestOddAnswers(t *testing.T) {
	for _, m := range oddAnswers() {
		requireAsProtojson(t, m)
		for _, r := range m.GetResults() {
			requireAsProtojson(t, r)
			requireAsProtojson(t, &coordsvcv1.GetCoordinatorResponse{Result: r})
		}
	}
	requireAsProtojson(t, (*coordsvcv1.GetCoordinatorResponse)(nil))
	requireAsProtojson(t, (*coordsvcv1.CoordinatorResult)(nil))
}

// FuzzAnswer compares with protojson for every message that the bytes are.
func FuzzAnswer(f *testing.F) {
	for _, m := range oddAnswers() {
		wire, _ := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
		f.Add(wire, "key")
	}
	f.Fuzz(func(t *testing.T, wire []byte, key string) {
		for _, m := range []proto.Message{&coordsvcv1.FindCoordinatorsResponse{}, &coordsvcv1.GetCoordinatorResponse{}, &coordsvcv1.CoordinatorResult{}} {
			if proto.Unmarshal(wire, m) == nil {
				requireAsProtojson(t, m)
			}
		}
		requireAsProtojson(t, found(key))
	})
}
