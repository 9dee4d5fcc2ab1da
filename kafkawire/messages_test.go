package kafkawire

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A message is one row of the table that the tests of bad input and the fuzz
// targets run over.
type message struct {
	name     string
	key      APIKey
	response bool
	new      func() Request // an empty message; the methods of Response are the same
}

var messages = []message{
	{"ApiVersionsRequest", APIKeyAPIVersions, false, func() Request { return new(APIVersionsRequest) }},
	{"ApiVersionsResponse", APIKeyAPIVersions, true, func() Request { return new(APIVersionsResponse) }},
	{"FindCoordinatorRequest", APIKeyFindCoordinator, false, func() Request { return new(FindCoordinatorRequest) }},
	{"FindCoordinatorResponse", APIKeyFindCoordinator, true, func() Request { return new(FindCoordinatorResponse) }},
	{"MetadataRequest", APIKeyMetadata, false, func() Request { return new(MetadataRequest) }},
	{"MetadataResponse", APIKeyMetadata, true, func() Request { return new(MetadataResponse) }},
	{"SaslAuthenticateRequest", APIKeySaslAuthenticate, false, func() Request { return new(SaslAuthenticateRequest) }},
	{"SaslAuthenticateResponse", APIKeySaslAuthenticate, true, func() Request { return new(SaslAuthenticateResponse) }},
	{"SaslHandshakeRequest", APIKeySaslHandshake, false, func() Request { return new(SaslHandshakeRequest) }},
	{"SaslHandshakeResponse", APIKeySaslHandshake, true, func() Request { return new(SaslHandshakeResponse) }},
}

func messageNamed(t testing.TB, name string) message {
	t.Helper()
	i := slices.IndexFunc(messages, func(m message) bool { return m.name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return messages[i]
}

// eachVersion runs a subtest for every version of every message.
func eachVersion(t *testing.T, test func(t *testing.T, m message, v Version)) {
	for _, m := range messages {
		versions := Supported(m.key)
		for v := versions.Min; v <= versions.Max; v++ {
			t.Run(located(m.name, v, ""), func(t *testing.T) { test(t, m, v) })
		}
	}
}

func TestMessagesKnowTheirAPI(t *testing.T) {
	for _, m := range messages {
		require.Equal(t, m.key, m.new().APIKey(), m.name)
	}
	require.Len(t, messages, 2*len(apis), "every API of the table has a request and a response here")
}

// sample returns a message of the version that has something in every field.
func sample(t testing.TB, m message, v Version) (Request, []byte) {
	t.Helper()
	filled := samples[m.name](v)
	encoded, err := filled.Encode(nil, v)
	require.NoError(t, err)
	return filled, encoded
}

var samples = map[string]func(v Version) Request{
	"ApiVersionsRequest": func(v Version) Request {
		m := &APIVersionsRequest{NodeID: NoNode}
		if v >= 3 {
			m.ClientSoftwareName, m.ClientSoftwareVersion = "coordsvc", "1.0.0"
		}
		if v >= 5 {
			cluster := "nT3i4OXyR0mr0my1RZx9pQ"
			m.ClusterID, m.NodeID = &cluster, 3
		}
		return m
	},
	"ApiVersionsResponse": func(v Version) Request {
		m := &APIVersionsResponse{APIs: []APIVersionRange{{APIKeyFindCoordinator, 0, 6}, {APIKeyAPIVersions, 0, 4}}}
		if v >= 1 {
			m.ThrottleMillis = 25
		}
		return m
	},
	"FindCoordinatorRequest": func(v Version) Request {
		m := &FindCoordinatorRequest{Keys: []string{"orders"}}
		if v >= 1 {
			m.KeyType = KeyTypeTransaction
		}
		if v >= 4 {
			m.Keys = append(m.Keys, "", "gruppe-ä")
		}
		return m
	},
	"FindCoordinatorResponse": func(v Version) Request {
		m := &FindCoordinatorResponse{Coordinators: []Coordinator{{NodeID: 1, Host: "b1", Port: 9092}}}
		if v >= 1 {
			m.ThrottleMillis = 25
			m.Coordinators[0].ErrorMessage = "NONE"
		}
		if v >= 4 {
			m.Coordinators[0].Key = "orders"
			m.Coordinators = append(m.Coordinators, Coordinator{Key: "other", NodeID: NoNode, Port: -1, ErrorCode: ErrCoordinatorNotAvailable})
		}
		return m
	},
	"MetadataRequest": func(v Version) Request {
		return &MetadataRequest{Topics: []string{"__consumer_offsets", "orders"}, AllowAutoTopicCreation: v < 4}
	},
	"MetadataResponse": func(v Version) Request { return sampleMetadata(v) },
	"SaslAuthenticateRequest": func(Version) Request {
		return &SaslAuthenticateRequest{AuthBytes: []byte("\x00alice\x00secret")}
	},
	"SaslAuthenticateResponse": func(v Version) Request {
		m := &SaslAuthenticateResponse{ErrorCode: ErrSaslAuthenticationFailed, ErrorMessage: "no", AuthBytes: []byte("e=other-error")}
		if v >= 1 {
			m.SessionLifetimeMillis = 3_600_000
		}
		return m
	},
	"SaslHandshakeRequest": func(Version) Request { return &SaslHandshakeRequest{Mechanism: "SCRAM-SHA-256"} },
	"SaslHandshakeResponse": func(Version) Request {
		return &SaslHandshakeResponse{ErrorCode: ErrUnsupportedSaslMechanism, Mechanisms: []string{"PLAIN", "OAUTHBEARER"}}
	},
}

func sampleMetadata(v Version) *MetadataResponse {
	m := &MetadataResponse{
		Brokers:      []MetadataBroker{{NodeID: 1, Host: "b1", Port: 9092}, {NodeID: 2, Host: "b2", Port: 9092}},
		ControllerID: NoNode,
		Topics: []MetadataTopic{
			{ErrorCode: ErrUnknownTopicOrPartition, Name: "absent"},
			{Name: "__consumer_offsets", Partitions: []MetadataPartition{
				{Partition: 0, Leader: 1, LeaderEpoch: -1, Replicas: []int32{1, 2}, ISR: []int32{1}},
				{Partition: 1, Leader: NoNode, LeaderEpoch: -1, ErrorCode: ErrLeaderNotAvailable, Replicas: []int32{3}},
			}},
		},
	}
	offsets := &m.Topics[1]
	if v >= 1 {
		m.Brokers[0].Rack, m.ControllerID, offsets.Internal = "r1", 2, true
	}
	if v >= 2 {
		m.ClusterID = "nT3i4OXyR0mr0my1RZx9pQ"
	}
	if v >= 3 {
		m.ThrottleMillis = 25
	}
	if v >= 5 {
		offsets.Partitions[1].OfflineReplicas = []int32{3}
	}
	if v >= 7 {
		offsets.Partitions[0].LeaderEpoch = 4
	}
	if v >= 10 {
		offsets.TopicID = [16]byte{1, 2, 15: 16}
	}
	return m
}

func TestRoundTrip(t *testing.T) {
	eachVersion(t, func(t *testing.T, m message, v Version) {
		want, encoded := sample(t, m, v)
		got := m.new()
		src := append([]byte(nil), encoded...)
		require.NoError(t, got.Decode(src, v))
		clear(src) // what was decoded must not depend on the caller's buffer
		require.Equal(t, want, got)

		// Into a message that held something else.
		other, _ := sample(t, m, Supported(m.key).Max)
		require.NoError(t, other.Decode(encoded, v))
		require.Equal(t, want, other)
	})
}

func TestEncodeAppends(t *testing.T) {
	eachVersion(t, func(t *testing.T, m message, v Version) {
		filled, encoded := sample(t, m, v)
		got, err := filled.Encode([]byte("before"), v)
		require.NoError(t, err)
		require.Equal(t, append([]byte("before"), encoded...), got)
	})
}

// Every message cut short anywhere is an error and leaves nothing behind.
func TestTruncated(t *testing.T) {
	eachVersion(t, func(t *testing.T, m message, v Version) {
		_, encoded := sample(t, m, v)
		for n := range encoded {
			if m.name == "ApiVersionsResponse" && (v == 1 || v == 2) && n == len(encoded)-4 {
				continue // the throttle time may be missing: see TestAPIVersionsWithoutThrottle
			}
			got, _ := sample(t, m, v)
			err := got.Decode(encoded[:n:n], v)
			require.ErrorIs(t, err, ErrTruncated, "first %d of %d bytes", n, len(encoded))
			require.Equal(t, m.new(), got, "first %d of %d bytes", n, len(encoded))
			checkDecodeError(t, err, m.name, v, n)
		}
	})
}

func checkDecodeError(t *testing.T, err error, name string, v Version, length int) {
	t.Helper()
	var decode *DecodeError
	require.ErrorAs(t, err, &decode)
	require.Equal(t, name, decode.Message)
	require.Equal(t, v, decode.Version)
	require.GreaterOrEqual(t, decode.Offset, 0)
	require.LessOrEqual(t, decode.Offset, length)
}

func TestTrailingBytes(t *testing.T) {
	eachVersion(t, func(t *testing.T, m message, v Version) {
		_, encoded := sample(t, m, v)
		got := m.new()
		err := got.Decode(append(encoded, 0), v)
		require.ErrorIs(t, err, ErrTrailingBytes)
		require.Equal(t, m.new(), got)
		checkDecodeError(t, err, m.name, v, len(encoded)+1)
	})
}

func TestVersionOutside(t *testing.T) {
	for _, m := range messages {
		for _, v := range []Version{-1, Supported(m.key).Max + 1, 32767, -32768} {
			filled, encoded := sample(t, m, 0)
			dst := []byte("before")
			got, err := filled.Encode(dst, v)
			require.ErrorIs(t, err, ErrVersion, m.name)
			require.Equal(t, []byte("before"), got, m.name)
			require.ErrorIs(t, filled.Decode(encoded, v), ErrVersion, m.name)
			require.Equal(t, m.new(), filled, m.name)
		}
	}
}

// withTags puts tagged fields at the end of the outermost struct, whose last byte
// says that there are none.
func withTags(encoded []byte, tags string) []byte {
	return append(append([]byte(nil), encoded[:len(encoded)-1]...), tags...)
}

func TestUnknownTaggedFieldsAreSkipped(t *testing.T) {
	eachVersion(t, func(t *testing.T, m message, v Version) {
		if !m.key.flexible(v) {
			return // no tagged fields
		}
		want, encoded := sample(t, m, v)
		got := m.new()
		require.NoError(t, got.Decode(withTags(encoded, "\x02\x00\x00\x85\x01\x03abc"), v))
		require.Equal(t, want, got)

		for name, tags := range map[string]string{
			"count without fields":  "\x01",
			"tag without size":      "\x01\x00",
			"size beyond the end":   "\x01\x00\x05abcd",
			"size of 4 GiB":         "\x01\x00\xff\xff\xff\xff\x0f",
			"4 Gi fields":           "\xff\xff\xff\xff\x0f",
			"count of 33 bits":      "\xff\xff\xff\xff\x1f",
			"count of six bytes":    "\x80\x80\x80\x80\x80\x00",
			"count cut off":         "\x80\x80",
			"tag of six bytes":      "\x01\x80\x80\x80\x80\x80\x00\x00",
			"field size six bytes":  "\x01\x00\x80\x80\x80\x80\x80\x00",
			"second field is short": "\x02\x00\x01a\x01\x02b",
		} {
			require.Error(t, got.Decode(withTags(encoded, tags), v), name)
		}
	})
}

// No field but a length may make a decoder allocate: whatever four or five bytes
// are overwritten with the largest length, little is allocated.
func TestHugeLengths(t *testing.T) {
	huge := []string{"\x7f\xff\xff\xff", "\xff\xff\xff\xff\x07", "\xff\xff\xff\xff\x0f", "\x7f\xff", "\x80\x00", "\xff\xff\xff\xfe", "\x80\x80\x04"}
	eachVersion(t, func(t *testing.T, m message, v Version) {
		_, encoded := sample(t, m, v)
		for at := range encoded {
			for _, h := range huge {
				src := append([]byte(nil), encoded...)
				copy(src[at:], h)
				checkAllocation(t, len(src), func() { _ = m.new().Decode(src, v) })
			}
		}
	})
}

// A struct that an array element decodes into is at most some times as large as
// its bytes, so that what is allocated stays in proportion to what came.
func TestElementsStayInProportion(t *testing.T) {
	const most = 10
	for name, size := range map[string]struct {
		element any
		bytes   int
	}{
		"Coordinator":       {Coordinator{}, minCoordinator},
		"APIVersionRange":   {APIVersionRange{}, 6},
		"MetadataBroker":    {MetadataBroker{}, 4 + 1 + 4},
		"MetadataTopic":     {MetadataTopic{}, minMetadataTopic},
		"MetadataPartition": {MetadataPartition{}, minMetadataPartition},
	} {
		require.LessOrEqual(t, int(reflect.TypeOf(size.element).Size()), most*size.bytes, name)
	}
}
