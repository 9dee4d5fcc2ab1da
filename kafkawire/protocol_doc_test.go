package kafkawire

import (
	"encoding/hex"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// documented is a block of docs/protocol.md: "```text BROKER API vVERSION SIDE", then
// lines of hex with a remark each, or "..." for bytes that are left out.
var documented = regexp.MustCompile("(?ms)^```text (\\S+) (\\S+) v(\\d+) (request|response)\n(.*?)^```$")

// Every frame that docs/protocol.md shows was recorded, and decodes; a request without
// an answer beside it got none. There is one worked exchange for each generation.
func TestProtocolDocumentIsTrue(t *testing.T) {
	text, err := os.ReadFile("../docs/protocol.md")
	require.NoError(t, err)
	recorded := recordedExchanges(t)
	answered := map[string]bool{}
	blocks := documented.FindAllStringSubmatch(string(text), -1)
	require.Len(t, blocks, strings.Count(string(text), "```text "), "every block must be read")
	for _, b := range blocks {
		answered[strings.Join(b[1:4], " ")] = answered[strings.Join(b[1:4], " ")] || b[4] == "response"
	}
	shown := map[string]int{}
	for _, b := range blocks {
		name := strings.Join(b[1:4], " ")
		x := recordedAs(t, recorded, b)
		switch {
		case b[4] == "response":
			decodeRecorded(t, x, name)
		case answered[name]:
			require.NotNil(t, x.Response, name)
			checkDocumentedRequest(t, x)
		default:
			require.Equal(t, "closed without an answer", x.Outcome, name)
		}
		if b[2] == "FindCoordinator" && b[4] == "response" {
			shown[b[1]]++
		}
	}
	require.Equal(t, map[string]int{"0.8.2.2": 1, "0.10.1.1": 1, "2.4.1": 1, "3.7.2": 1, "4.4.0": 1}, shown)
}

// recordedAs finds the exchange that a block shows.
func recordedAs(t *testing.T, recorded []exchange, block []string) exchange {
	t.Helper()
	var pattern strings.Builder
	for line := range strings.Lines(block[5]) {
		digits, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if digits == "..." {
			pattern.WriteString(".*")
			continue
		}
		_, err := hex.DecodeString(digits)
		require.NoError(t, err, "%s: %q", block[0], line)
		pattern.WriteString(digits)
	}
	frame := regexp.MustCompile("^" + pattern.String() + "$")
	for _, x := range recorded {
		bytes := x.Request
		if block[4] == "response" {
			bytes = x.Response
		}
		if x.Broker == "Apache Kafka "+block[1] && x.API == block[2] && strconv.Itoa(int(x.Version)) == block[3] && frame.MatchString(hex.EncodeToString(bytes)) {
			return x
		}
	}
	require.Fail(t, "this was not recorded", block[0])
	return exchange{}
}

func decodeRecorded(t *testing.T, x exchange, name string) {
	t.Helper()
	v := x.answered()
	_, body, err := DecodeResponseHeader(x.Response[sizeLength:], x.key(), v)
	require.NoError(t, err, name)
	var m Response = new(FindCoordinatorResponse)
	if x.key() == APIKeyAPIVersions {
		m = new(APIVersionsResponse)
	}
	require.NoError(t, m.Decode(body, v), name)
}

func checkDocumentedRequest(t *testing.T, x exchange) {
	t.Helper()
	var m Request = &FindCoordinatorRequest{KeyType: x.KeyType, Keys: x.Keys}
	if x.key() == APIKeyAPIVersions {
		m = new(APIVersionsRequest)
	}
	checkRecordedRequest(t, x, m)
}
