package test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

// An environment is a cluster, what to expect of it, and coordsvc in front of it.
type environment struct {
	release
	bootstrap []string
	askers    []asker
	service   *process
}

// newEnvironment starts coordsvc before a cluster.
func newEnvironment(t *testing.T, r release, bootstrap []string) *environment {
	t.Helper()
	service := serve(t, bootstrap, r.flags()...)
	service.ready(t)
	return &environment{release: r, bootstrap: bootstrap, service: service, askers: askers(t, service, bootstrap, r.flags()...)}
}

// question is one about keys, with the patience that the release deserves.
func (e *environment) question(t coordsvcv1.KeyType, keys []string) question {
	return question{keyType: t, keys: keys, timeout: e.timeout(t)}
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
	raw, err := kafkatest.RawFindAll(t.Context(), e.bootstrap[0], e.highest, numberOf(keyType), keys)
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

// oddShareKeys are the same for share partitions.
var oddShareKeys = []string{
	"a/b:nT3i4OXyR0mr0my1RZx9pQ:0", "😀:nT3i4OXyR0mr0my1RZx9pQ:2147483647", "100%:___________________8_A:7",
	strings.Repeat("x", 249) + ":nT3i4OXyR0mr0my1RZx9pQ:1",
}

func odd(t coordsvcv1.KeyType) []string {
	if t == coordsvcv1.KeyType_SHARE {
		return oddShareKeys
	}
	return oddKeys
}

// lookupCases are asked of every cluster, in every way.
var lookupCases = []struct {
	name string
	keys func(r *release, t coordsvcv1.KeyType) []string
}{
	{"one key", func(_ *release, t coordsvcv1.KeyType) []string {
		return kafkatest.WellFormedKeys(numberOf(t), "one", 1)
	}},
	{"many keys", func(r *release, t coordsvcv1.KeyType) []string {
		return kafkatest.WellFormedKeys(numberOf(t), "many", max(r.bulk, 1_000))
	}},
	{"duplicates", func(_ *release, t coordsvcv1.KeyType) []string {
		keys := kafkatest.WellFormedKeys(numberOf(t), "twice", 3)
		return slices.Concat(keys, keys[1:], keys[:1])
	}},
	{"odd keys", func(_ *release, t coordsvcv1.KeyType) []string { return odd(t) }},
}

func runLookupCases(t *testing.T, e *environment) {
	for _, keyType := range keyTypes {
		for _, c := range lookupCases {
			keys := c.keys(&e.release, keyType.api)
			want := e.want(t, keyType.api, keys)
			for _, a := range e.askers {
				t.Run(fmt.Sprintf("%v/%s/%s", keyType.api, c.name, a.name), func(t *testing.T) {
					got := a.ask(t, e.question(keyType.api, keys))
					require.Len(t, got, len(want))
					for i := range want {
						require.Equal(t, want[i], got[i])
					}
				})
			}
		}
		t.Run(fmt.Sprintf("%v/key in the path", keyType.api), func(t *testing.T) { askInPath(t, e, keyType.api) })
	}
}

// statusOf is the HTTP status with which GetCoordinator tells a reason.
var statusOf = map[string]int{cannotCarry: http.StatusNotImplemented, neverThere: http.StatusServiceUnavailable, refused: http.StatusBadRequest}

func askInPath(t *testing.T, e *environment, keyType coordsvcv1.KeyType) {
	keys := odd(keyType)
	for i, want := range e.want(t, keyType, keys) {
		status, got, body := getOne(t, e.service, e.question(keyType, keys[i:i+1]))
		if want.Reason != "" {
			require.Equal(t, statusOf[want.Reason], status, "%q: %s", keys[i], body)
			require.Contains(t, body, want.Reason)
			continue
		}
		require.Equal(t, http.StatusOK, status, "%q: %s", keys[i], body)
		require.Equal(t, want, row{Key: got.GetKey(), Node: got.GetCoordinator().GetNodeId(),
			Addr: fmt.Sprintf("%s:%d", got.GetCoordinator().GetHost(), got.GetCoordinator().GetPort())})
		require.EqualValues(t, e.highest, got.GetApiVersion())
		require.Contains(t, e.bootstrap, got.GetAnsweredBy())
	}
}

func TestLookupsOnAnInProcessCluster(t *testing.T) {
	fake := kafkatest.Fake(t, 3)
	runLookupCases(t, newEnvironment(t, release{version: "fake", highest: 6, bulk: 5_000}, fake.ListenAddrs()))
}

// TestKafkaLookups is the matrix: every release, cold and warm, every type of key,
// every way to ask.
func TestKafkaLookups(t *testing.T) {
	var rows observed
	kafkatest.EachRelease(t, func(t *testing.T, version string) {
		r := expectationsFor(t, version)
		cluster := kafkatest.Start(t, kafkatest.Options{Version: version, Brokers: r.brokers})
		e := newEnvironment(t, r, cluster.Bootstrap())
		t.Run("cold", func(t *testing.T) { askCold(t, e, cluster) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, cluster.Warm(ctx))
		runLookupCases(t, e)
		t.Run("brokers", func(t *testing.T) { listBrokers(t, e) })
		got := observe(t, e)
		require.Equal(t, r.expected(), got)
		rows = append(rows, got)
	})
	rows.publish(t)
}

// askCold asks in every way at once while the internal topics do not exist: Kafka
// makes them on the first lookup, and the call waits for it within its timeout.
func askCold(t *testing.T, e *environment, cluster *kafkatest.Cluster) {
	topics, err := filepath.Glob(filepath.Join(cluster.Dir(), "broker-*", "data", "__*_*-*"))
	require.NoError(t, err)
	require.NotContains(t, strings.Join(topics, " "), "__consumer_offsets-", "the cluster is not cold")
	for _, keyType := range keyTypes {
		q := e.question(keyType.api, kafkatest.WellFormedKeys(keyType.number, "cold", 2))
		if q.timeout == 0 {
			q.timeout = 25 * time.Second
		}
		answers := make([][]row, len(e.askers))
		var asked sync.WaitGroup
		for i, a := range e.askers {
			if harmedByAPIVersions(e.version) {
				asked.Wait()
			}
			asked.Go(func() { answers[i] = a.ask(t, q) })
		}
		asked.Wait()
		want := e.want(t, keyType.api, q.keys)
		for i, a := range e.askers {
			require.Equal(t, want, answers[i], "%v over %s", keyType.api, a.name)
		}
	}
}

// harmedByAPIVersions: a network thread of 0.9.0.0 and 0.9.0.1 that reads a request it
// does not know drops what it has read from other connections at that moment
// (KAFKA-3547). The command line asks ApiVersions each time it is started; what is
// dropped may be what the controller tells the broker of a new topic.
func harmedByAPIVersions(version string) bool { return strings.HasPrefix(version, "0.9.0.") }

// listBrokers checks that an operator sees each broker, and what was negotiated.
func listBrokers(t *testing.T, e *environment) {
	list, err := e.service.client(t).ListBrokers(t.Context(), &coordsvcv1.ListBrokersRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetBrokers(), len(e.bootstrap))
	for i, b := range list.GetBrokers() {
		if e.version != "0.8.2.2" { // where Metadata names no broker until a topic exists
			require.EqualValues(t, i+1, b.GetNodeId())
		}
		require.Equal(t, e.bootstrap[i], fmt.Sprintf("%s:%d", b.GetHost(), b.GetPort()))
		require.True(t, b.GetReachable(), "%v", b)
		require.EqualValues(t, e.highest, b.GetFindCoordinatorVersion())
	}
}

// observe looks up keys of each type through a proxy that counts, and says in the
// words of the README what came of it.
func observe(t *testing.T, e *environment) releaseRow {
	t.Helper()
	const keys = 200
	proxy := kafkatest.NewProxy(t, e.bootstrap[0])
	service := serve(t, []string{proxy.Addr()}, append(e.flags(), "--kafka-discover-brokers=false")...)
	service.ready(t)
	client := service.client(t)
	row := releaseRow{version: e.version}
	for _, keyType := range keyTypes {
		proxy.Forget()
		results := e.question(keyType.api, kafkatest.WellFormedKeys(keyType.number, "observed", keys)).send(t, client).GetResults()
		require.Len(t, results, keys)
		outcome := outcomeText(results[0].GetError().GetReason())
		switch keyType.api {
		case coordsvcv1.KeyType_GROUP:
			row.highest, row.group = fmt.Sprint(results[0].GetApiVersion()), outcome
			requests := proxy.Requests(kafkawire.APIKeyFindCoordinator)
			row.how = howText(requests < keys)
			t.Logf("%d keys in %d requests", keys, requests)
		case coordsvcv1.KeyType_TRANSACTION:
			row.transaction = outcome
		default:
			row.share = outcome
		}
		if e.reason(keyType.api) == cannotCarry {
			require.Zero(t, proxy.Requests(kafkawire.APIKeyFindCoordinator), "what the broker would mistake was sent")
		}
	}
	return row
}
