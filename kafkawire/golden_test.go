package kafkawire

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

// The smallest request of FindCoordinator v6 with one key, byte by byte.
func TestWorkedExampleRequest(t *testing.T) {
	want := unhex(t, "0000000f"+ // size: 15
		"000a"+"0006"+ // FindCoordinator v6
		"00000000"+ // correlation id
		"0000"+ // client id ""
		"00"+ // tagged fields of the header
		"00"+ // KeyType GROUP
		"02"+"01"+ // one key, ""
		"00") // tagged fields
	require.Len(t, want, 19)
	request := &FindCoordinatorRequest{Keys: []string{""}}
	got, err := AppendRequest(nil, RequestHeader{Version: 6}, request)
	require.NoError(t, err)
	require.Equal(t, want, got)

	key, h, body, err := DecodeRequestHeader(want[4:])
	require.NoError(t, err)
	require.Equal(t, APIKeyFindCoordinator, key)
	require.Equal(t, RequestHeader{Version: 6}, h)
	decoded := new(FindCoordinatorRequest)
	require.NoError(t, decoded.Decode(body, 6))
	require.Equal(t, request, decoded)
}

// The smallest response of FindCoordinator v6 with one row, byte by byte.
func TestWorkedExampleResponse(t *testing.T) {
	want := unhex(t, "00000019"+ // size: 25
		"00000000"+ // correlation id
		"00"+ // tagged fields of the header
		"00000000"+ // ThrottleTimeMs
		"02"+ // one row
		"01"+"00000000"+"01"+"00000000"+"0000"+"01"+"00"+ // Key, NodeId, Host, Port, ErrorCode, ErrorMessage, tagged fields
		"00") // tagged fields
	require.Len(t, want, 29)
	response := &FindCoordinatorResponse{Coordinators: []Coordinator{{}}}
	got, err := AppendResponse(nil, 0, 6, response)
	require.NoError(t, err)
	require.Equal(t, want, got)

	id, body, err := DecodeResponseHeader(want[4:], APIKeyFindCoordinator, 6)
	require.NoError(t, err)
	require.Zero(t, id)
	decoded := new(FindCoordinatorResponse)
	require.NoError(t, decoded.Decode(body, 6))
	require.Equal(t, response, decoded)
}

// Frames from an encoder that was written on its own and reproduces published ones.
func TestGoldenRequests(t *testing.T) {
	for name, c := range map[string]struct {
		version Version
		keyType KeyType
		keys    []string
		frame   string
	}{
		"v0":        {0, KeyTypeGroup, []string{"g1"}, "00000016000a0000000000070008636f6f726473766300026731"},
		"v1":        {1, KeyTypeGroup, []string{"g1"}, "00000017000a0001000000070008636f6f72647376630002673100"},
		"v2":        {2, KeyTypeGroup, []string{"g1"}, "00000017000a0002000000070008636f6f72647376630002673100"},
		"v3":        {3, KeyTypeGroup, []string{"g1"}, "00000018000a0003000000070008636f6f7264737663000367310000"},
		"v4":        {4, KeyTypeGroup, []string{"g1", "g2"}, "0000001c000a0004000000070008636f6f726473766300000303673103673200"},
		"v5":        {5, KeyTypeGroup, []string{"g1", "g2"}, "0000001c000a0005000000070008636f6f726473766300000303673103673200"},
		"v6":        {6, KeyTypeGroup, []string{"g1", "g2"}, "0000001c000a0006000000070008636f6f726473766300000303673103673200"},
		"v4 no key": {4, KeyTypeGroup, nil, "00000016000a0004000000070008636f6f726473766300000100"},
		"v6 share": {6, KeyTypeShare, []string{"sg:nT3i4OXyR0mr0my1RZx9pQ:0"},
			"00000032000a0006000000070008636f6f72647376630002021c73673a6e543369344f587952306d72306d7931525a783970513a3000"},
	} {
		t.Run(name, func(t *testing.T) {
			want := unhex(t, c.frame)
			header := RequestHeader{Version: c.version, CorrelationID: 7, ClientID: "coordsvc"}
			request := &FindCoordinatorRequest{KeyType: c.keyType, Keys: c.keys}
			got, err := AppendRequest(nil, header, request)
			require.NoError(t, err)
			require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(got))

			_, h, body, err := DecodeRequestHeader(want[4:])
			require.NoError(t, err)
			require.Equal(t, header, h)
			decoded := new(FindCoordinatorRequest)
			require.NoError(t, decoded.Decode(body, c.version))
			require.Equal(t, request, decoded)
		})
	}
}

func TestGoldenResponses(t *testing.T) {
	found := Coordinator{Key: "g1", NodeID: 1, Host: "b1", Port: 9092}
	missing := Coordinator{Key: "g2", NodeID: NoNode, Port: -1, ErrorCode: ErrCoordinatorNotAvailable}
	for name, c := range map[string]struct {
		version  Version
		body     string
		want     FindCoordinatorResponse
		lossless bool
	}{
		"v4": {4, "0000000003036731000000010362310000238400000100036732ffffffff01ffffffff000f010000",
			FindCoordinatorResponse{Coordinators: []Coordinator{found, missing}}, true},
		"v6 null message": {6, "000000190203673100000001036231000023840000000000",
			FindCoordinatorResponse{ThrottleMillis: 25, Coordinators: []Coordinator{found}}, false},
		"v4 no row": {4, "000000000100", FindCoordinatorResponse{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			body := unhex(t, c.body)
			var got FindCoordinatorResponse
			require.NoError(t, got.Decode(body, c.version))
			require.Equal(t, c.want, got)
			again, err := got.Encode(nil, c.version)
			require.NoError(t, err)
			require.Equal(t, c.lossless, string(body) == string(again))
		})
	}
}

func TestCompactLengthEdges(t *testing.T) {
	for length, prefix := range map[int]string{126: "7f", 127: "8001", 128: "8101", MaxKeyLength: "808002"} {
		request := &FindCoordinatorRequest{Keys: []string{strings.Repeat("k", length)}}
		got, err := request.Encode(nil, 4)
		require.NoError(t, err)
		require.Equal(t, "0002"+prefix+"6b", hex.EncodeToString(got[:2+len(prefix)/2+1]))
		decoded := new(FindCoordinatorRequest)
		require.NoError(t, decoded.Decode(got, 4))
		require.Equal(t, request, decoded)
	}
	for count, prefix := range map[int]string{126: "7f", 127: "8001"} {
		request := &FindCoordinatorRequest{Keys: make([]string, count)}
		got, err := request.Encode(nil, 4)
		require.NoError(t, err)
		require.Equal(t, "00"+prefix+"01", hex.EncodeToString(got[:1+len(prefix)/2+1]))
	}
}

// Cases of ApiVersions that no schema tells of: see the comment on the message.
func TestAPIVersionsUnsupported(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want []APIVersionRange
	}{
		"no API":    {"0023 00000000", nil},
		"null list": {"0023 ffffffff", nil},
		"own key":   {"0023 00000001 001200000003", []APIVersionRange{{APIKeyAPIVersions, 0, 3}}},
		"all keys":  {"0023 00000002 000a00000003 001200000003", []APIVersionRange{{APIKeyFindCoordinator, 0, 3}, {APIKeyAPIVersions, 0, 3}}},
	} {
		for v := Version(0); v <= 5; v++ {
			got := new(APIVersionsResponse)
			require.NoError(t, got.Decode(unhex(t, c.body), v), "%s v%d", name, v)
			require.Equal(t, &APIVersionsResponse{ErrorCode: ErrUnsupportedVersion, APIs: c.want}, got)
			if name == "null list" {
				continue
			}
			again, err := got.Encode(nil, v)
			require.NoError(t, err)
			require.Equal(t, unhex(t, c.body), again)
		}
	}
}

func TestAPIVersionsWithoutThrottle(t *testing.T) {
	body := unhex(t, "0000 00000001 000300020001")
	want := &APIVersionsResponse{APIs: []APIVersionRange{{APIKeyMetadata, 2, 1}}}
	for v := Version(0); v <= 2; v++ {
		got := new(APIVersionsResponse)
		require.NoError(t, got.Decode(body, v))
		require.Equal(t, want, got)
	}
	require.Error(t, new(APIVersionsResponse).Decode(append(body, 0, 0, 0), 1), "a part of the throttle time")
}

func TestAPIVersionsRange(t *testing.T) {
	m := &APIVersionsResponse{APIs: []APIVersionRange{{APIKeyMetadata, 1, 12}, {APIKeyFindCoordinator, 0, 6}}}
	got, ok := m.Range(APIKeyFindCoordinator)
	require.True(t, ok)
	require.Equal(t, VersionRange{0, 6}, got)
	got, ok = m.Range(APIKeySaslHandshake)
	require.False(t, ok)
	_, err := Negotiate(Supported(APIKeySaslHandshake), got)
	require.ErrorIs(t, err, ErrNoCommonVersion)
}
