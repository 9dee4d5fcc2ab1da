package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadmeQuotesTheReport(t *testing.T) {
	document, err := os.ReadFile("../docs/performance.md")
	require.NoError(t, err)
	want, err := quoted(string(document))
	require.NoError(t, err)
	require.Equal(t, len(quotes), strings.Count(want, "\n"))
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), measuredBegins+"\n"+want+"\n"+measuredEnds, "make bench writes both")
}

func TestQuotedFiguresAreTheRows(t *testing.T) {
	document := `
### 3. 64 callers, one key a call

|                                | coordsvc            | compared with | theirs | ratio            | target    |
| ------------------------------ | ------------------- | ------------- | ------ | ---------------- | --------- |
| keys/s                         | 30,000 (29,000–31,000) | kadm service  | 10,000 | 3 (2.9–3.1)      | ≥ 2.5 met |
| FindCoordinator requests a key | 0.04                | kadm service  | 1      | 0.04             | ≤ 0.2 met |

### 4. Bulk, one key a request (3 brokers of Apache Kafka 2.4.1)

| one caller, 10,000 keys: p50, ms | 200 | direct kadm | 500 | 0.4 |  |
| one caller, 10,000 keys: p50, ms | 200 | kadm service | 800 | 0.25 |  |
`
	text, err := quoted(document)
	require.NoError(t, err)
	require.Contains(t, text, "get 30,000 answers a second, where the same service written over the client kadm gives them 10,000: **3 times**")
	require.Contains(t, text, "10,000 keys come in 200 ms, through that service in 800 ms: **0.25 times**")
	_, err = quoted(strings.ReplaceAll(document, "keys/s", "keys"))
	require.ErrorContains(t, err, "keys/s")
}
