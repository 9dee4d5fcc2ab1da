package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// requireReadAsProtojson: what readQuestion reads, protojson reads to the same message.
func requireReadAsProtojson(t *testing.T, text []byte) (fast bool) {
	t.Helper()
	before := string(text)
	var got, want coordsvcv1.FindCoordinatorsRequest
	fast = readQuestion(text, &got)
	require.Equal(t, before, string(text))
	if !fast {
		require.True(t, proto.Equal(&got, &want), "left as it was")
		return false
	}
	require.NoError(t, protojson.Unmarshal(text, &want), "%s", text)
	require.True(t, proto.Equal(&want, &got), "%s\nwant %v\ngot %v", text, &want, &got)
	return true
}

var questions = []struct {
	text string
	fast bool
}{
	{`{"keyType":"GROUP","keys":["orders","payments"]}`, true},
	{`{"keyType":"TRANSACTION","keys":["a"],"timeout":"2.5s"}`, true},
	{" {\n\t\"key_type\" : \"SHARE\" ,\r\n \"keys\" : [ \"a\" , \"b\" ] } \n", true},
	{`{"timeout":"1s","keys":["","ünï😀","` + "\u007f\u2028" + `"]}`, true},
	{`{}`, true},
	{`{"keys":[]}`, true},
	{`{"keyType":"group","keys":["a"]}`, false}, // checkObject has put it into upper case before
	{`{"keyType":1,"keys":["a"]}`, false},
	{`{"keys":["a\/b"]}`, false},
	{`{"keys":["a\u0000"]}`, false},
	{"{\"keys\":[\"a\x00\"]}", false},
	{"{\"keys\":[\"a\xff\"]}", false},
	{`{"keys":["a"],"keys":["b"]}`, false},
	{`{"keyType":"GROUP","key_type":"GROUP"}`, false},
	{`{"keyType":"KEY_TYPE_UNSPECIFIED","keyType":"GROUP"}`, false},
	{`{"timeout":"1s","timeout":"1s"}`, false},
	{`{"timeout":"1"}`, false}, {`{"timeout":1}`, false}, {`{"timeout":null}`, false},
	{`{"keys":null}`, false}, {`{"keys":"a"}`, false}, {`{"keys":[1]}`, false}, {`{"keys":["a",]}`, false}, {`{"keys":[,"a"]}`, false},
	{`{"keys":["a" "b"]}`, false}, {`{"keys":["a"]`, false}, {`{"keys":["a"}`, false}, {`{"keys":["a`, false},
	{`{"keys":["a"],}`, false}, {`{,"keys":["a"]}`, false}, {`{"keys":["a"]} {}`, false},
	{`{"other":1}`, false}, {``, false}, {`[]`, false}, {`{`, false}, {`{"keys"}`, false}, {`null`, false},
}

func TestQuestions(t *testing.T) {
	for _, q := range questions {
		require.Equal(t, q.fast, requireReadAsProtojson(t, []byte(q.text)), "%s", q.text)
	}
	require.False(t, readQuestion([]byte(`{}`), &coordsvcv1.ListBrokersRequest{}))
}

// TestQuestionsHaveEveryField fails for a field that is in the .proto but not in
// jsonquestion.go, which would cost its callers time, not a wrong answer.
func TestQuestionsHaveEveryField(t *testing.T) {
	fields := (&coordsvcv1.FindCoordinatorsRequest{}).ProtoReflect().Descriptor().Fields()
	require.Equal(t, 3, fields.Len())
	text := fmt.Appendf(nil, `{"%s":"GROUP","%s":["a"],"%s":"1s"}`, fields.Get(0).JSONName(), fields.Get(1).JSONName(), fields.Get(2).JSONName())
	require.True(t, requireReadAsProtojson(t, text))
}

func FuzzQuestion(f *testing.F) {
	for _, q := range questions {
		f.Add([]byte(q.text), "a key")
	}
	f.Fuzz(func(t *testing.T, text []byte, key string) {
		requireReadAsProtojson(t, text)
		asJSON, err := json.Marshal(map[string][]string{"keys": {key, key}})
		require.NoError(t, err)
		requireReadAsProtojson(t, asJSON)
	})
}

func manyKeysJSON(n int) string {
	var b strings.Builder
	b.WriteString(`{"keyType":"GROUP","keys":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"orders-consumer-%d"`, i)
	}
	b.WriteString(`]}`)
	return b.String()
}

// BenchmarkQuestion reads 10,000 keys from JSON, with what the front checks before,
// and, to compare, from protobuf.
func BenchmarkQuestion(b *testing.B) {
	text := []byte(manyKeysJSON(10_000))
	var params params
	for _, r := range routes(true) {
		if r.method == "POST" {
			params = r.params
		}
	}
	var req coordsvcv1.FindCoordinatorsRequest
	require.NoError(b, protojson.Unmarshal(text, &req))
	wire, err := proto.Marshal(&req)
	require.NoError(b, err)
	b.Run("JSON", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, problem := checkObject(text, params); problem != nil || (gatewayJSON{}).Unmarshal(text, new(coordsvcv1.FindCoordinatorsRequest)) != nil {
				b.Fatal("not read")
			}
		}
	})
	b.Run("protobuf", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if proto.Unmarshal(wire, new(coordsvcv1.FindCoordinatorsRequest)) != nil {
				b.Fatal("not read")
			}
		}
	})
}
