package kafkawire

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// An exchange is one line of testdata/brokers.jsonl: see testdata/README.md.
type exchange struct {
	Broker   string   `json:"broker"`
	State    string   `json:"state"`
	API      string   `json:"api"`
	Version  Version  `json:"version"`
	KeyType  KeyType  `json:"key_type"`
	Keys     []string `json:"keys"`
	Request  hexBytes `json:"request"`
	Response hexBytes `json:"response"`
	Outcome  string   `json:"outcome"`
}

type hexBytes []byte

func (b *hexBytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.DecodeString(string(text))
	return err
}

func (x exchange) key() APIKey {
	if x.API == "ApiVersions" {
		return APIKeyAPIVersions
	}
	return APIKeyFindCoordinator
}

// answered is the version that the answer is in. Kafka 0.8.2 takes every
// FindCoordinator for v0.
func (x exchange) answered() Version {
	if x.Broker == "Apache Kafka 0.8.2.2" {
		return 0
	}
	return x.Version
}

func recordedExchanges(t testing.TB) []exchange {
	t.Helper()
	file, err := os.Open("testdata/brokers.jsonl")
	require.NoError(t, err)
	defer file.Close()
	var all []exchange
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var x exchange
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(&x))
		all = append(all, x)
	}
	require.NoError(t, lines.Err())
	return all
}

// A recordedBody is a body to start a fuzz target from.
type recordedBody struct {
	version Version
	bytes   []byte
}

func recordedBodies(t testing.TB, m message) []recordedBody {
	var bodies []recordedBody
	for _, x := range recordedExchanges(t) {
		switch {
		case x.key() != m.key:
		case !m.response:
			_, h, body, err := DecodeRequestHeader(x.Request[sizeLength:])
			require.NoError(t, err)
			bodies = append(bodies, recordedBody{h.Version, body})
		case x.Response != nil:
			_, body, err := DecodeResponseHeader(x.Response[sizeLength:], m.key, x.answered())
			require.NoError(t, err)
			bodies = append(bodies, recordedBody{x.answered(), body})
		}
	}
	return bodies
}

// What the recording holds, so that a row cannot get lost unseen.
func TestRecordingIsComplete(t *testing.T) {
	type count struct{ answered, closed, silent int }
	want := map[string]count{
		"Apache Kafka 0.8.2.2":                          {answered: 90, closed: 10}, // answers every FindCoordinator as if it were v0
		"Apache Kafka 0.9.0.1":                          {answered: 6, silent: 24},
		"Apache Kafka 0.10.1.1":                         {answered: 12, closed: 46},
		"Apache Kafka 1.1.1":                            {answered: 20, closed: 42},
		"Apache Kafka 2.4.1":                            {answered: 42, closed: 28},
		"Apache Kafka 2.8.2":                            {answered: 42, closed: 28},
		"Apache Kafka 3.7.2":                            {answered: 52, closed: 21},
		"Apache Kafka 4.4.0":                            {answered: 74, closed: 7},
		"Apache Kafka 4.4.0, DESCRIBE on secret denied": {answered: 13},
	}
	total := 0
	got := make(map[string]count)
	for _, x := range recordedExchanges(t) {
		c := got[x.Broker]
		switch {
		case x.Outcome == "closed without an answer" && x.Response == nil:
			c.closed++
		case x.Outcome == "no answer in 4 s" && x.Response == nil:
			c.silent++
		case x.Outcome == "" && x.Response != nil:
			c.answered++
		default:
			t.Errorf("%s: outcome %q with an answer of %d bytes", x.Broker, x.Outcome, len(x.Response))
		}
		got[x.Broker] = c
		total++
	}
	require.Equal(t, want, got)
	require.Equal(t, 557, total)
}

// Every recorded answer decodes, and encodes to the same bytes again unless it
// holds what the package skips.
func TestRecordedAnswers(t *testing.T) {
	var decoded, identical, features, nullMessage int
	codes := make(map[ErrorCode]int)
	for _, x := range recordedExchanges(t) {
		if x.Response == nil {
			continue
		}
		v := x.answered()
		id, body, err := DecodeResponseHeader(x.Response[sizeLength:], x.key(), v)
		require.NoError(t, err)
		require.EqualValues(t, 7, id)
		var m Response
		if x.key() == APIKeyAPIVersions {
			answer := new(APIVersionsResponse)
			require.NoError(t, answer.Decode(body, v), "%s v%d", x.Broker, v)
			codes[answer.ErrorCode]++
			m = answer
		} else {
			answer := new(FindCoordinatorResponse)
			require.NoError(t, answer.Decode(body, v), "%s v%d", x.Broker, v)
			checkCoordinators(t, x, answer, codes)
			m = answer
		}
		decoded++
		again, err := AppendResponse(nil, id, v, m)
		require.NoError(t, err)
		switch {
		case bytes.Equal(x.Response, again):
			identical++
		case x.key() == APIKeyAPIVersions && v >= 3:
			features++
		case x.Broker == "Apache Kafka 1.1.1" && v == 1: // null messages come back as ""
			require.Len(t, again, len(x.Response))
			nullMessage++
		default:
			require.Equal(t, []byte(x.Response), again, "%s %s v%d", x.Broker, x.API, v)
		}
	}
	require.Equal(t, 351, decoded)
	require.Equal(t, 338, identical)
	require.Equal(t, 5, features)
	require.Equal(t, 8, nullMessage)
	require.Equal(t, map[ErrorCode]int{
		ErrNone:                               179,
		ErrUnknownServerError:                 6, // Kafka 2.4 to a key type that it does not know
		ErrCoordinatorNotAvailable:            149,
		ErrGroupAuthorizationFailed:           7,
		ErrUnsupportedVersion:                 15,
		ErrInvalidRequest:                     40,
		ErrTransactionalIDAuthorizationFailed: 6,
	}, codes)
}

func checkCoordinators(t *testing.T, x exchange, answer *FindCoordinatorResponse, codes map[ErrorCode]int) {
	t.Helper()
	if x.answered() >= firstBatched {
		require.Len(t, answer.Coordinators, len(x.Keys))
	}
	for i, row := range answer.Coordinators {
		codes[row.ErrorCode]++
		require.True(t, row.ErrorCode.Known())
		if x.answered() >= firstBatched {
			require.Equal(t, x.Keys[i], row.Key)
		}
		if row.ErrorCode == ErrNone {
			require.NotEqual(t, NoNode, row.NodeID)
			require.NotEmpty(t, row.Host)
			require.Positive(t, row.Port)
			continue
		}
		require.Equal(t, []any{NoNode, "", int32(-1)}, []any{row.NodeID, row.Host, row.Port})
	}
}

// Every recorded request that the package would send is reproduced byte for byte;
// the others are refused, for the reason one would expect.
func TestRecordedRequests(t *testing.T) {
	header := RequestHeader{CorrelationID: 7, ClientID: "coordsvc"}
	var reproduced, refusedVersion, refusedType int
	for _, x := range recordedExchanges(t) {
		header.Version = x.Version
		var m Request = &FindCoordinatorRequest{KeyType: x.KeyType, Keys: x.Keys}
		if x.key() == APIKeyAPIVersions {
			m = &APIVersionsRequest{ClientSoftwareName: "coordsvc", ClientSoftwareVersion: "1.0.0", NodeID: NoNode}
		}
		got, err := AppendRequest(nil, header, m)
		switch {
		case x.Version > Supported(x.key()).Max:
			require.ErrorIs(t, err, ErrVersion)
			refusedVersion++
		case x.KeyType > KeyTypeShare || x.KeyType == KeyTypeShare && x.Version < 6 || x.KeyType == KeyTypeTransaction && x.Version < 1:
			require.ErrorIs(t, err, ErrKeyType)
			refusedType++
		default:
			require.NoError(t, err)
			require.Equal(t, []byte(x.Request), got, "%s %s v%d", x.Broker, x.API, x.Version)
			checkRecordedRequest(t, x, m)
			reproduced++
		}
		if err != nil {
			require.Nil(t, got)
		}
	}
	require.Equal(t, 395, reproduced)
	require.Equal(t, 55, refusedVersion)
	require.Equal(t, 107, refusedType)
}

// checkRecordedRequest reads a request as a broker would.
func checkRecordedRequest(t *testing.T, x exchange, want Request) {
	t.Helper()
	key, h, body, err := DecodeRequestHeader(x.Request[sizeLength:])
	require.NoError(t, err)
	require.Equal(t, x.key(), key)
	require.Equal(t, RequestHeader{Version: x.Version, CorrelationID: 7, ClientID: "coordsvc"}, h)
	if asked, ok := want.(*FindCoordinatorRequest); ok {
		got := new(FindCoordinatorRequest)
		require.NoError(t, got.Decode(body, h.Version))
		require.Equal(t, asked.KeyType, got.KeyType)
		require.Equal(t, append([]string{}, asked.Keys...), append([]string{}, got.Keys...))
		return
	}
	require.NoError(t, new(APIVersionsRequest).Decode(body, h.Version))
}
