package server

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// filled sets every field of a message, those that it may have yet to come included;
// of a oneof it sets the one that comes choice-th.
func filled(m protoreflect.Message, choice int) protoreflect.Message {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if one := f.ContainingOneof(); one != nil && one.Fields().Get(choice%one.Fields().Len()) != f {
			continue
		}
		if f.IsList() {
			list := m.Mutable(f).List()
			for choice := range 2 {
				list.Append(protoreflect.ValueOfMessage(filled(list.NewElement().Message(), choice)))
			}
			continue
		}
		m.Set(f, anyValue(m, f, choice))
	}
	return m
}

func anyValue(m protoreflect.Message, f protoreflect.FieldDescriptor, choice int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return protoreflect.ValueOfMessage(filled(m.NewField(f).Message(), choice))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("value of " + string(f.FullName()))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(-int32(f.Number()))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(math.MaxUint32)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	default:
		panic("a kind of field that this test does not know yet: " + f.Kind().String())
	}
}

func requireSameAsProtobuf(t *testing.T, m *coordsvcv1.FindCoordinatorsResponse) {
	t.Helper()
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	require.NoError(t, err)
	got, err := codec{}.Marshal(m)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got.Materialize()), "not the bytes that protobuf-go writes")

	var back coordsvcv1.FindCoordinatorsResponse
	require.NoError(t, codec{}.Unmarshal(got, &back))
	require.True(t, proto.Equal(m, &back))
	got.Free()
}

func TestCodecWritesEveryField(t *testing.T) {
	m := &coordsvcv1.FindCoordinatorsResponse{}
	filled(m.ProtoReflect(), 0)
	require.NotNil(t, m.GetResults()[0].GetCoordinator())
	require.NotNil(t, m.GetResults()[1].GetError())
	requireSameAsProtobuf(t, m)
}

func TestCodecWritesWhatProtobufWrites(t *testing.T) {
	coordinator := func(c *coordsvcv1.Coordinator) *coordsvcv1.CoordinatorResult_Coordinator {
		return &coordsvcv1.CoordinatorResult_Coordinator{Coordinator: c}
	}
	rows := map[string]*coordsvcv1.CoordinatorResult{
		"nothing":           {},
		"a key":             {Key: "orders"},
		"empty coordinator": {Key: "orders", Outcome: coordinator(&coordsvcv1.Coordinator{})},
		"no coordinator":    {Key: "orders", Outcome: coordinator(nil)},
		"empty error":       {Outcome: &coordsvcv1.CoordinatorResult_Error{Error: &coordsvcv1.LookupError{}}},
		"small numbers":     {ApiVersion: 6, Outcome: coordinator(&coordsvcv1.Coordinator{NodeId: 127, Port: 128})},
		"large numbers":     {ApiVersion: math.MinInt32, Outcome: coordinator(&coordsvcv1.Coordinator{NodeId: math.MaxInt32, Port: -1})},
		"a long key":        {Key: strings.Repeat("ü", 1<<14), AnsweredBy: strings.Repeat("h", 127), Outcome: coordinator(&coordsvcv1.Coordinator{Host: strings.Repeat("h", 128)})},
	}
	all := &coordsvcv1.FindCoordinatorsResponse{Failed: 3}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			requireSameAsProtobuf(t, &coordsvcv1.FindCoordinatorsResponse{Results: []*coordsvcv1.CoordinatorResult{row}})
		})
		all.Results = append(all.Results, row)
	}
	requireSameAsProtobuf(t, all)
	requireSameAsProtobuf(t, &coordsvcv1.FindCoordinatorsResponse{})
	for len(all.Results) < 1<<10 { // more than is pooled
		all.Results = append(all.Results, rows["a long key"])
	}
	requireSameAsProtobuf(t, all)
}

func TestCodecRefusesWhatProtobufRefuses(t *testing.T) {
	const invalid = "a\xffb"
	for _, row := range []*coordsvcv1.CoordinatorResult{
		{Key: invalid},
		{AnsweredBy: invalid},
		{Outcome: &coordsvcv1.CoordinatorResult_Coordinator{Coordinator: &coordsvcv1.Coordinator{Host: invalid}}},
		{Outcome: &coordsvcv1.CoordinatorResult_Error{Error: &coordsvcv1.LookupError{Reason: invalid}}},
		{Outcome: &coordsvcv1.CoordinatorResult_Error{Error: &coordsvcv1.LookupError{Message: invalid}}},
	} {
		m := &coordsvcv1.FindCoordinatorsResponse{Results: []*coordsvcv1.CoordinatorResult{row}}
		_, err := proto.Marshal(m)
		require.Error(t, err)
		_, err = codec{}.Marshal(m)
		require.ErrorContains(t, err, "not UTF-8")
	}
	_, err := codec{}.Marshal("no message")
	require.Error(t, err)
	require.Error(t, codec{}.Unmarshal(nil, "no message"))
	require.Error(t, codec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer{0x0a, 0x05}}, &coordsvcv1.FindCoordinatorsResponse{}))
}

func TestBufferPoolGivesWhatIsAskedFor(t *testing.T) {
	var p bufferPool
	for _, n := range []int{0, 1, 2, 3, 1023, 1024, 1025, 1 << 20, 1<<20 + 1} {
		b := p.Get(n)
		require.Len(t, *b, n)
		(*b) = (*b)[:0]
		p.Put(b)
		require.Len(t, *p.Get(n), n)
	}
	p.Put(new([]byte))
}

// BenchmarkCodec writes the answer to 1,000 keys.
func BenchmarkCodec(b *testing.B) {
	m := &coordsvcv1.FindCoordinatorsResponse{}
	for range 1000 {
		m.Results = append(m.Results, found("consumer-group-000001"))
	}
	b.Run("codec", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			data, err := codec{}.Marshal(m)
			if err != nil {
				b.Fatal(err)
			}
			data.Free()
		}
	})
	b.Run("protobuf", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := proto.Marshal(m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
