package kafkawire

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFrames(t *testing.T) {
	eachVersion(t, func(t *testing.T, m message, v Version) {
		filled, body := sample(t, m, v)
		if m.response {
			frame, err := AppendResponse([]byte("before"), 7, v, filled)
			require.NoError(t, err)
			require.EqualValues(t, len(frame)-len("before")-4, frame[9], "size of a short frame")
			id, got, err := DecodeResponseHeader(frame[len("before")+4:], m.key, v)
			require.NoError(t, err)
			require.EqualValues(t, 7, id)
			require.Equal(t, string(body), string(got))
			return
		}
		want := RequestHeader{Version: v, CorrelationID: -2, ClientID: "coordsvc"}
		frame, err := AppendRequest([]byte("before"), want, filled)
		require.NoError(t, err)
		require.EqualValues(t, len(frame)-len("before")-4, frame[9], "size of a short frame")
		key, h, got, err := DecodeRequestHeader(frame[len("before")+4:])
		require.NoError(t, err)
		require.Equal(t, m.key, key)
		require.Equal(t, want, h)
		require.Equal(t, string(body), string(got))
	})
}

func TestRefusedFramesLeaveTheBuffer(t *testing.T) {
	ok := RequestHeader{Version: 4}
	for name, c := range map[string]struct {
		header RequestHeader
		body   Request
		want   error
	}{
		"body":             {ok, &FindCoordinatorRequest{Keys: []string{strings.Repeat("k", MaxKeyLength+1)}}, ErrKeyTooLong},
		"version":          {RequestHeader{Version: 7}, &FindCoordinatorRequest{}, ErrVersion},
		"negative version": {RequestHeader{Version: -1}, &FindCoordinatorRequest{}, ErrVersion},
		"API":              {RequestHeader{}, verbatim{key: 0}, ErrVersion},
		"client id":        {RequestHeader{Version: 4, ClientID: strings.Repeat("c", 32768)}, &FindCoordinatorRequest{}, ErrTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			dst := append(make([]byte, 0, 100), "before"...)
			got, err := AppendRequest(dst, c.header, c.body)
			require.ErrorIs(t, err, c.want)
			require.Equal(t, "before", string(got))
		})
	}
	for name, c := range map[string]struct {
		version Version
		body    Response
		want    error
	}{
		"body":    {3, &FindCoordinatorResponse{}, ErrKeyCount},
		"version": {7, &FindCoordinatorResponse{}, ErrVersion},
	} {
		t.Run("response "+name, func(t *testing.T) {
			got, err := AppendResponse([]byte("before"), 7, c.version, c.body)
			require.ErrorIs(t, err, c.want)
			require.Equal(t, "before", string(got))
		})
	}
}

func TestFrameSize(t *testing.T) {
	n, err := frameSize(math.MaxInt32)
	require.NoError(t, err)
	require.EqualValues(t, math.MaxInt32, n)
	if math.MaxInt > math.MaxInt32 {
		large := math.MaxInt32
		_, err = frameSize(large + 1)
		require.ErrorIs(t, err, ErrTooLong)
	}
}

func TestRequestHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		frame string
		key   APIKey
		want  RequestHeader
		body  string
		err   error
	}{
		"v1":                    {"000a0002 00000007 0001 63 aabb", 10, RequestHeader{2, 7, "c"}, "aabb", nil},
		"null client id":        {"000a0002 00000007 ffff aabb", 10, RequestHeader{2, 7, ""}, "aabb", nil},
		"v2":                    {"000a0003 00000007 0001 63 00 aabb", 10, RequestHeader{3, 7, "c"}, "aabb", nil},
		"v2 with tagged fields": {"000a0003 00000007 0001 63 02 00 02 ffff 05 00 aabb", 10, RequestHeader{3, 7, "c"}, "aabb", nil},
		"ApiVersions of tomorrow": {"00120063 00000007 0001 63 00 aabb", 18, RequestHeader{99, 7, "c"},
			"aabb", nil},
		"unknown API":              {"00000009 00000007 0001 63 00 aabb", 0, RequestHeader{9, 7, "c"}, "", ErrUnknownAPI},
		"empty":                    {"", 0, RequestHeader{}, "", ErrTruncated},
		"no client id":             {"000a0002 00000007", 0, RequestHeader{}, "", ErrTruncated},
		"client id longer":         {"000a0002 00000007 0003 63", 0, RequestHeader{}, "", ErrTruncated},
		"negative length":          {"000a0002 00000007 fffe", 0, RequestHeader{}, "", ErrInvalidLength},
		"v2 without tagged fields": {"000a0003 00000007 0001 63", 0, RequestHeader{}, "", ErrTruncated},
		"tagged field longer":      {"000a0003 00000007 0001 63 01 00 05 aa", 0, RequestHeader{}, "", ErrTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			key, h, body, err := DecodeRequestHeader(unhex(t, c.frame))
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.key, key)
			require.Equal(t, c.want, h)
			require.Equal(t, string(unhex(t, c.body)), string(body))
		})
	}
}

func TestResponseHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		frame   string
		key     APIKey
		version Version
		id      int32
		body    string
		err     error
	}{
		"v0":                    {"00000007 aabb", APIKeyFindCoordinator, 2, 7, "aabb", nil},
		"v1":                    {"00000007 00 aabb", APIKeyFindCoordinator, 3, 7, "aabb", nil},
		"v1 with tagged fields": {"00000007 01 05 03 010203 aabb", APIKeyFindCoordinator, 3, 7, "aabb", nil},
		"ApiVersions is v0":     {"00000007 0000", APIKeyAPIVersions, 5, 7, "0000", nil},
		"unknown API":           {"00000007 aabb", 99, 5, 7, "aabb", nil},
		"empty":                 {"", APIKeyFindCoordinator, 0, 0, "", ErrTruncated},
		"three bytes":           {"000007", APIKeyFindCoordinator, 0, 0, "", ErrTruncated},
		"no tagged fields":      {"00000007", APIKeyFindCoordinator, 3, 0, "", ErrTruncated},
		"six bytes of varint":   {"00000007 808080808000", APIKeyFindCoordinator, 3, 0, "", ErrInvalidVarint},
	} {
		t.Run(name, func(t *testing.T) {
			id, body, err := DecodeResponseHeader(unhex(t, c.frame), c.key, c.version)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.id, id)
			require.Equal(t, string(unhex(t, c.body)), string(body))
		})
	}
}
