package test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

// A release is what lookups on one Kafka release are expected to bring.
type release struct {
	version string
	// highest is the FindCoordinator version in use with it.
	highest int16
	// transaction and share are the reasons with which lookups of these types
	// end; empty where they succeed. Lookups of groups always do.
	transaction, share string
	// dialTimeout is set where the default (5 s) would make each command wait:
	// 0.9.0 never answers ApiVersions, and each new process must find out.
	dialTimeout time.Duration
	// brokers and bulk are how many to start and how many keys a large call has;
	// 0 means 1 and 1,000.
	brokers, bulk int
}

const (
	cannotCarry = "UNSUPPORTED_KEY_TYPE"
	neverThere  = "COORDINATOR_NOT_AVAILABLE"
	refused     = "INVALID_REQUEST" // by 4.0, where share groups are off unless unstable APIs are on
)

// releases are the expected outcomes on real Kafka, of which the table in README.md
// is made. Below 0.10 there is no ApiVersions: 0.8.2 closes the connection, 0.9.0
// says nothing, and only what no broker can mistake is sent (FindCoordinator v0, for
// groups). TRANSACTION needs v1 (KIP-98), many keys a request v4 (KIP-699), SHARE v6
// (KIP-932). 3.9 takes SHARE but has no coordinator for it, ever.
var releases = []release{
	{version: "0.8.2.2", highest: 0, transaction: cannotCarry, share: cannotCarry},
	{version: "0.9.0.1", highest: 0, transaction: cannotCarry, share: cannotCarry, dialTimeout: time.Second},
	{version: "0.10.1.1", highest: 0, transaction: cannotCarry, share: cannotCarry},
	{version: "0.10.2.2", highest: 0, transaction: cannotCarry, share: cannotCarry},
	{version: "1.1.1", highest: 1, share: cannotCarry},
	{version: "2.3.1", highest: 2, share: cannotCarry},
	{version: "2.4.1", highest: 3, share: cannotCarry},
	{version: "2.8.2", highest: 3, share: cannotCarry},
	{version: "3.0.2", highest: 4, share: cannotCarry},
	{version: "3.7.2", highest: 4, share: cannotCarry},
	{version: "3.9.2", highest: 6, share: neverThere},
	{version: "4.4.0", highest: 6, brokers: 3, bulk: 5_000},
}

// keyTypes are the types of keys and their number in the protocol.
var keyTypes = []struct {
	api    coordsvcv1.KeyType
	number int8
}{
	{coordsvcv1.KeyType_GROUP, 0}, {coordsvcv1.KeyType_TRANSACTION, 1}, {coordsvcv1.KeyType_SHARE, 2},
}

func numberOf(t coordsvcv1.KeyType) int8 { return int8(t) - int8(coordsvcv1.KeyType_GROUP) }

// reason is why a lookup of the type fails, or empty.
func (r *release) reason(t coordsvcv1.KeyType) string {
	switch t {
	case coordsvcv1.KeyType_TRANSACTION:
		return r.transaction
	case coordsvcv1.KeyType_SHARE:
		return r.share
	default:
		return ""
	}
}

// timeout is how long to wait for the type; 0 leaves the default. What never comes
// is not waited for long.
func (r *release) timeout(t coordsvcv1.KeyType) time.Duration {
	if r.reason(t) == neverThere {
		return time.Second
	}
	return 0
}

// flags are what commands need on this release.
func (r *release) flags() []string {
	if r.dialTimeout == 0 {
		return nil
	}
	return []string{"--kafka-dial-timeout", r.dialTimeout.String()}
}

// A releaseRow is one row of the table in README.md.
type releaseRow struct {
	version, highest          string
	group, transaction, share string
	how                       string
}

// expected is the row that the expectations make.
func (r *release) expected() releaseRow {
	return releaseRow{
		version: r.version, highest: fmt.Sprint(r.highest),
		group: outcomeText(""), transaction: outcomeText(r.transaction), share: outcomeText(r.share),
		how: howText(r.highest >= 4),
	}
}

func outcomeText(reason string) string {
	switch reason {
	case "":
		return "yes"
	case cannotCarry:
		return "no: `" + reason + "`"
	default:
		return "`" + reason + "`, always"
	}
}

func howText(batched bool) string {
	if batched {
		return "many keys a request"
	}
	return "one key a request, pipelined"
}

// The block of README.md that holds the table.
const (
	readme      = "../README.md"
	tableBegins = "<!-- releases:begin -->\n"
	tableEnds   = "<!-- releases:end -->"
)

func releaseTable(rows []releaseRow) string {
	var b strings.Builder
	b.WriteString("| Kafka | FindCoordinator | GROUP | TRANSACTION | SHARE | asked with |\n|---|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | v%s | %s | %s | %s | %s |\n", r.version, r.highest, r.group, r.transaction, r.share, r.how)
	}
	return b.String()
}

var updateReleases = flag.Bool("update-releases", false, "write what a run on all releases met into the table of README.md")

// observed are the rows that this run met, in the order of releases.
type observed []releaseRow

// publish writes the table, if it was asked for and the run was complete and good.
func (o observed) publish(t *testing.T) {
	t.Helper()
	if !*updateReleases {
		return
	}
	require.False(t, t.Failed(), "README.md is left as it was: not all outcomes are as expected")
	require.Len(t, o, len(releases), "README.md is left as it was: its table needs a run on all releases")
	before, after := aroundTable(t)
	require.NoError(t, os.WriteFile(readme, []byte(before+releaseTable(o)+after), 0o644))
}

// aroundTable is what stands before and after the table.
func aroundTable(t *testing.T) (string, string) {
	t.Helper()
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), tableBegins)
	require.True(t, ok, "README.md lacks %q", tableBegins)
	_, after, ok := strings.Cut(rest, tableEnds)
	require.True(t, ok, "README.md lacks %q", tableEnds)
	return before + tableBegins, tableEnds + after
}

// What README.md says of each release is what the tests on real Kafka expect.
func TestReadmeReleases(t *testing.T) {
	var rows []releaseRow
	var versions []string
	for i := range releases {
		rows = append(rows, releases[i].expected())
		versions = append(versions, releases[i].version)
	}
	require.Equal(t, kafkatest.Releases, versions)
	before, after := aroundTable(t)
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	require.Equal(t, before+releaseTable(rows)+after, string(text), "run make test-kafka-table")
}

// expectationsFor is the row of releases for a version, or one made of when Kafka's
// APIs changed: KAFKA_VERSIONS may name any release since 0.8.2.
func expectationsFor(t *testing.T, version string) release {
	t.Helper()
	if i := slices.IndexFunc(releases, func(r release) bool { return r.version == version }); i >= 0 {
		return releases[i]
	}
	apis, err := kafkatest.ReleaseAPIs(version)
	require.NoError(t, err)
	r := release{version: version, highest: int16(apis[kafkawire.APIKeyFindCoordinator].Max)}
	if r.highest < 1 {
		r.transaction = cannotCarry
	}
	switch {
	case r.highest < 6:
		r.share = cannotCarry
	case strings.HasPrefix(version, "3."):
		r.share = neverThere
	case strings.HasPrefix(version, "4.0."):
		r.share = refused
	}
	if strings.HasPrefix(version, "0.9.") {
		r.dialTimeout = time.Second
	}
	return r
}

// TestExpectationsForOtherReleases holds the derived rows against those written down.
func TestExpectationsForOtherReleases(t *testing.T) {
	written := releases
	defer func() { releases = written }()
	releases = nil
	for _, w := range written {
		derived := expectationsFor(t, w.version)
		derived.brokers, derived.bulk = w.brokers, w.bulk
		require.Equal(t, w, derived)
	}
}
