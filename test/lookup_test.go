package test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
)

// A release is what one Kafka release is expected to answer.
type release struct {
	version string
	brokers int
	// highest is the FindCoordinator version in use with it.
	highest int16
	// transaction and share are the reasons with which lookups of these types
	// end; empty where they succeed.
	transaction, share string
}

// releases are the expected outcomes on real Kafka. The README's table says the same.
var releases = []release{
	{version: "0.10.1.1", brokers: 1, highest: 0, transaction: "UNSUPPORTED_KEY_TYPE", share: "UNSUPPORTED_KEY_TYPE"},
	{version: "1.1.1", brokers: 1, highest: 1, share: "UNSUPPORTED_KEY_TYPE"},
	{version: "2.8.2", brokers: 1, highest: 3, share: "UNSUPPORTED_KEY_TYPE"},
	{version: "4.4.0", brokers: 3, highest: 6},
}

// An environment is a cluster, what to expect of it, and coordsvc in front of it.
type environment struct {
	release
	bootstrap []string
	askers    []asker
	service   *process
}

// keyTypes are the types by their number in the protocol.
var keyTypes = map[coordsvcv1.KeyType]int8{
	coordsvcv1.KeyType_GROUP: 0, coordsvcv1.KeyType_TRANSACTION: 1, coordsvcv1.KeyType_SHARE: 2,
}

func (r release) reason(t coordsvcv1.KeyType) string {
	switch t {
	case coordsvcv1.KeyType_TRANSACTION:
		return r.transaction
	case coordsvcv1.KeyType_SHARE:
		return r.share
	default:
		return ""
	}
}

// want is what the cluster itself says, asked one raw request a key.
func (e *environment) want(t *testing.T, keyType coordsvcv1.KeyType, keys []string) []row {
	t.Helper()
	rows := make([]row, len(keys))
	if reason := e.reason(keyType); reason != "" {
		for i, key := range keys {
			rows[i] = row{Key: key, Reason: reason}
		}
		return rows
	}
	raw, err := kafkatest.RawFindAll(e.bootstrap[0], e.highest, keyTypes[keyType], keys)
	require.NoError(t, err)
	for i, key := range keys {
		require.Zero(t, raw[i].Code, "the cluster is warm")
		rows[i] = row{Key: key, Node: raw[i].Node, Addr: fmt.Sprintf("%s:%d", raw[i].Host, raw[i].Port)}
	}
	return rows
}

// oddKeys are group and transactional ids that tools get wrong.
var oddKeys = []string{
	"", " ", strings.Repeat("x", 249), "😀-group", "gruppe-ä", "a/b", "100%", "%2F", "a%2Fb", "a:b", "a#b", "a?b=c&d",
	".", "..", "a//b", "/lead", "trail/", `back\slash`, `"quoted"`, "{}", "a b", "a\tb", "-x", "--help", "null", "find",
	"coordinators:find", "2147483646", "a,b", "é́", "polygenelubricants",
}

// lookupCases are asked of every cluster, in every way.
var lookupCases = []struct {
	name string
	keys func(keyType coordsvcv1.KeyType) []string
}{
	{"one key", func(t coordsvcv1.KeyType) []string { return kafkatest.WellFormedKeys(keyTypes[t], "one", 1) }},
	{"5,000 keys", func(t coordsvcv1.KeyType) []string { return kafkatest.WellFormedKeys(keyTypes[t], "many", 5_000) }},
	{"duplicates", func(t coordsvcv1.KeyType) []string {
		keys := kafkatest.WellFormedKeys(keyTypes[t], "twice", 3)
		return slices.Concat(keys, keys[1:], keys[:1])
	}},
	{"odd keys", func(t coordsvcv1.KeyType) []string {
		if t != coordsvcv1.KeyType_SHARE {
			return oddKeys
		}
		keys := []string{"a/b:nT3i4OXyR0mr0my1RZx9pQ:0", "😀:nT3i4OXyR0mr0my1RZx9pQ:2147483647", "100%:___________________8_A:7"}
		return keys
	}},
}

func runLookupCases(t *testing.T, e *environment) {
	for keyType := range keyTypes {
		for _, c := range lookupCases {
			keys := c.keys(keyType)
			want := e.want(t, keyType, keys)
			for _, a := range e.askers {
				t.Run(fmt.Sprintf("%v/%s/%s", keyType, c.name, a.name), func(t *testing.T) {
					got := a.ask(t, keyType, keys)
					require.Len(t, got, len(want))
					for i := range want {
						require.Equal(t, want[i], got[i])
					}
				})
			}
		}
		t.Run(fmt.Sprintf("%v/key in the path", keyType), func(t *testing.T) {
			keys := lookupCases[len(lookupCases)-1].keys(keyType)
			for i, want := range e.want(t, keyType, keys) {
				status, got, body := getOne(t, e.service, keyType.String(), keys[i])
				if want.Reason != "" {
					require.Equal(t, http.StatusNotImplemented, status)
					require.Contains(t, body, want.Reason)
					continue
				}
				require.Equal(t, http.StatusOK, status, "%q: %s", keys[i], body)
				require.Equal(t, want, row{Key: got.GetKey(), Node: got.GetCoordinator().GetNodeId(),
					Addr: fmt.Sprintf("%s:%d", got.GetCoordinator().GetHost(), got.GetCoordinator().GetPort())})
				require.EqualValues(t, e.highest, got.GetApiVersion())
				require.Contains(t, e.bootstrap, got.GetAnsweredBy())
			}
		})
	}
}

func TestLookupsOnAnInProcessCluster(t *testing.T) {
	fake := kafkatest.Fake(t, 3)
	service := serve(t, fake.ListenAddrs())
	service.ready(t)
	runLookupCases(t, &environment{
		release: release{version: "fake", highest: 6}, bootstrap: fake.ListenAddrs(),
		askers: askers(t, service, fake.ListenAddrs()), service: service,
	})
}

func TestKafkaLookups(t *testing.T) {
	kafkatest.EachRelease(t, func(t *testing.T, version string) {
		i := slices.IndexFunc(releases, func(r release) bool { return r.version == version })
		require.GreaterOrEqual(t, i, 0, "no expectations are written down for Kafka %s", version)
		r := releases[i]
		cluster := kafkatest.Start(t, kafkatest.Options{Version: version, Brokers: r.brokers})
		service := serve(t, cluster.Bootstrap())
		service.ready(t)
		e := &environment{release: r, bootstrap: cluster.Bootstrap(), askers: askers(t, service, cluster.Bootstrap()), service: service}
		t.Run("cold", func(t *testing.T) { askCold(t, e) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, cluster.Warm(ctx))
		runLookupCases(t, e)
	})
}

// askCold asks while the internal topics do not exist: Kafka makes them on the
// first lookup, and the call waits for it within its timeout.
func askCold(t *testing.T, e *environment) {
	for keyType, number := range keyTypes {
		deadline := time.Now().Add(30 * time.Second)
		for {
			rows := e.askers[0].ask(t, keyType, kafkatest.WellFormedKeys(number, "cold", 1))
			if reason := e.reason(keyType); reason != "" {
				require.Equal(t, reason, rows[0].Reason)
				break
			}
			if rows[0].Reason == "" {
				break
			}
			require.Equal(t, "COORDINATOR_NOT_AVAILABLE", rows[0].Reason)
			require.True(t, time.Now().Before(deadline), "%v: still %s after 30 s", keyType, rows[0].Reason)
		}
	}
}
