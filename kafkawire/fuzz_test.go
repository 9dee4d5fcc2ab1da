package kafkawire

import (
	"errors"
	"os"
	"runtime/metrics"
	"testing"

	"github.com/stretchr/testify/require"
)

// One fuzz target a decoder. Each takes a version and a body, and checks that the
// decoder neither panics nor allocates out of proportion, that an error leaves the
// message empty and lies inside the body, and that what was decoded survives being
// encoded and decoded again. Run them with -fuzzminimizetime 200x: without it most
// of a short run goes into making interesting inputs smaller.

func FuzzAPIVersionsRequest(f *testing.F)       { fuzzMessage(f, "ApiVersionsRequest") }
func FuzzAPIVersionsResponse(f *testing.F)      { fuzzMessage(f, "ApiVersionsResponse") }
func FuzzFindCoordinatorRequest(f *testing.F)   { fuzzMessage(f, "FindCoordinatorRequest") }
func FuzzFindCoordinatorResponse(f *testing.F)  { fuzzMessage(f, "FindCoordinatorResponse") }
func FuzzMetadataRequest(f *testing.F)          { fuzzMessage(f, "MetadataRequest") }
func FuzzMetadataResponse(f *testing.F)         { fuzzMessage(f, "MetadataResponse") }
func FuzzSaslAuthenticateRequest(f *testing.F)  { fuzzMessage(f, "SaslAuthenticateRequest") }
func FuzzSaslAuthenticateResponse(f *testing.F) { fuzzMessage(f, "SaslAuthenticateResponse") }
func FuzzSaslHandshakeRequest(f *testing.F)     { fuzzMessage(f, "SaslHandshakeRequest") }
func FuzzSaslHandshakeResponse(f *testing.F)    { fuzzMessage(f, "SaslHandshakeResponse") }

func fuzzMessage(f *testing.F, name string) {
	m := messageNamed(f, name)
	addSeeds(f, m)
	f.Fuzz(func(t *testing.T, version int16, src []byte) {
		checkMessage(t, m, Version(version), src)
	})
}

func TestEachMessageHasAFuzzTarget(t *testing.T) {
	source, err := os.ReadFile("fuzz_test.go")
	require.NoError(t, err)
	for _, m := range messages {
		require.Contains(t, string(source), "{ fuzzMessage(f, \""+m.name+"\") }")
	}
}

func addSeeds(f *testing.F, m message) {
	versions := Supported(m.key)
	for v := versions.Min; v <= versions.Max; v++ {
		_, encoded := sample(f, m, v)
		f.Add(int16(v), encoded)
		f.Add(int16(v), encoded[:len(encoded)/2])
	}
	for _, body := range recordedBodies(f, m) {
		f.Add(int16(body.version), body.bytes)
	}
}

func checkMessage(t *testing.T, m message, v Version, src []byte) {
	first := m.new()
	var err error
	checkAllocation(t, len(src), func() { err = first.Decode(src, v) })
	if err != nil {
		require.Equal(t, m.new(), first, "a failed decode leaves nothing behind")
		checkDecodeError(t, err, m.name, v, len(src))
		return
	}
	encoded, err := first.Encode(nil, v)
	if errors.Is(err, ErrKeyType) || errors.Is(err, ErrNotExpressible) {
		return // read for a broker to refuse, never sent
	}
	require.NoError(t, err)
	second, _ := sample(t, m, v) // what it held must not shine through
	require.NoError(t, second.Decode(encoded, v))
	require.Equal(t, first, second)
	again, err := second.Encode(nil, v)
	require.NoError(t, err)
	require.Equal(t, encoded, again)
}

// checkAllocation fails where decode allocates out of proportion to the bytes that
// it was given. The runtime counts small allocations late, and those of the test
// itself too, hence the margin: it is meant to catch an allocation by a length
// that was not checked, which is of megabytes.
func checkAllocation(t testing.TB, bytes int, decode func()) {
	before := allocated()
	decode()
	if grown := allocated() - before; grown > uint64(1<<20+16*bytes) {
		t.Errorf("decoding %d bytes allocated %d", bytes, grown)
	}
}

func allocated() uint64 {
	sample := [1]metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample[:])
	return sample[0].Value.Uint64()
}

// What is at hand already changes nothing in what is read.
func FuzzFindCoordinatorSharing(f *testing.F) {
	addSeeds(f, messageNamed(f, "FindCoordinatorResponse"))
	f.Fuzz(func(t *testing.T, version int16, src []byte) { checkSharing(t, src, Version(version)) })
}

func FuzzRequestHeader(f *testing.F) {
	for _, m := range messages {
		if m.response {
			continue
		}
		versions := Supported(m.key)
		for v := versions.Min; v <= versions.Max; v++ {
			filled, _ := sample(f, m, v)
			frame, err := AppendRequest(nil, RequestHeader{Version: v, CorrelationID: 7, ClientID: "coordsvc"}, filled)
			require.NoError(f, err)
			f.Add(frame[sizeLength:])
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		key, h, body, err := DecodeRequestHeader(frame)
		if err != nil {
			var decode *DecodeError
			require.ErrorAs(t, err, &decode)
			require.Nil(t, body)
			return
		}
		if !Supported(key).Contains(h.Version) {
			return
		}
		again, err := AppendRequest(nil, h, verbatim{key, body})
		require.NoError(t, err)
		key2, h2, body2, err := DecodeRequestHeader(again[sizeLength:])
		require.NoError(t, err)
		require.Equal(t, []any{key, h}, []any{key2, h2})
		require.Equal(t, string(body), string(body2))
	})
}

func FuzzResponseHeader(f *testing.F) {
	for _, m := range messages {
		if !m.response {
			continue
		}
		versions := Supported(m.key)
		for v := versions.Min; v <= versions.Max; v++ {
			filled, _ := sample(f, m, v)
			frame, err := AppendResponse(nil, 7, v, filled)
			require.NoError(f, err)
			f.Add(int16(m.key), int16(v), frame[sizeLength:])
		}
	}
	f.Fuzz(func(t *testing.T, k, v int16, frame []byte) {
		key, version := APIKey(k), Version(v)
		id, body, err := DecodeResponseHeader(frame, key, version)
		if err != nil {
			var decode *DecodeError
			require.ErrorAs(t, err, &decode)
			require.Nil(t, body)
			return
		}
		if !Supported(key).Contains(version) {
			return
		}
		again, err := AppendResponse(nil, id, version, verbatim{key, body})
		require.NoError(t, err)
		id2, body2, err := DecodeResponseHeader(again[sizeLength:], key, version)
		require.NoError(t, err)
		require.Equal(t, id, id2)
		require.Equal(t, string(body), string(body2))
	})
}

// verbatim is a body of given bytes.
type verbatim struct {
	key  APIKey
	body []byte
}

func (m verbatim) APIKey() APIKey                               { return m.key }
func (m verbatim) Encode(dst []byte, _ Version) ([]byte, error) { return append(dst, m.body...), nil }
func (m verbatim) Decode([]byte, Version) error                 { panic("not for decoding") }

func FuzzSharePartition(f *testing.F) {
	for _, key := range []string{"sg:nT3i4OXyR0mr0my1RZx9pQ:0", "a:b:nT3i4OXyR0mr0my1RZx9pQ:2147483647", "::", "", " :nT3i4OXyR0mr0my1RZx9pQ:1"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		p, err := ParseSharePartition(key)
		if err != nil {
			require.ErrorIs(t, err, ErrSharePartitionKey)
			require.Equal(t, SharePartition{}, p)
			require.Less(t, len(err.Error()), 2000)
			return
		}
		again, err := ParseSharePartition(p.String())
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}
