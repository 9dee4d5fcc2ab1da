package test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
)

// The state of a broker in a rolling upgrade.
const (
	beforeUpgrade int32 = iota
	inUpgrade
	afterUpgrade
)

// An upgrade is what is known of the brokers while they are upgraded one by one.
type upgrade struct {
	stage    map[string]*atomic.Int32 // by address
	old, new int32                    // FindCoordinator versions
	failures failures

	mu   sync.Mutex
	seen map[string]map[int32]int // answers, by address and version
}

func (u *upgrade) stages() map[string]int32 {
	now := make(map[string]int32, len(u.stage))
	for addr, s := range u.stage {
		now[addr] = s.Load()
	}
	return now
}

// check takes the answer to a call that began at the stages before.
func (u *upgrade) check(way string, keys []string, resp *coordsvcv1.FindCoordinatorsResponse, err error, before map[string]int32) {
	if err != nil {
		u.failures.add("%s: the call failed: %v", way, err)
		return
	}
	if len(resp.GetResults()) != len(keys) {
		u.failures.add("%s: %d results for %d keys", way, len(resp.GetResults()), len(keys))
	}
	after := u.stages()
	for _, r := range resp.GetResults() {
		if r.GetError() != nil {
			u.failures.add("%s: %s: %v", way, r.GetKey(), r.GetError())
			return
		}
		u.checkVersion(way, r, before[r.GetAnsweredBy()], after[r.GetAnsweredBy()])
	}
}

// checkVersion holds an answer against the release that its broker had meanwhile.
func (u *upgrade) checkVersion(way string, r *coordsvcv1.CoordinatorResult, before, after int32) {
	addr, v := r.GetAnsweredBy(), r.GetApiVersion()
	u.mu.Lock()
	if u.seen[addr] == nil {
		u.seen[addr] = map[int32]int{}
	}
	u.seen[addr][v]++
	u.mu.Unlock()
	switch {
	case u.stage[addr] == nil:
		u.failures.add("%s: answered by %q, which is no broker", way, addr)
	case v != u.old && v != u.new,
		before == beforeUpgrade && after == beforeUpgrade && v != u.old,
		before == afterUpgrade && v != u.new:
		u.failures.add("%s: %s answered with v%d (stage %d to %d)", way, addr, v, before, after)
	}
}

// TestKafkaRollingUpgrade upgrades three brokers one by one under bulk lookups: none
// fails, and each connection uses what its own broker offers.
func TestKafkaRollingUpgrade(t *testing.T) {
	const from, to = "2.8.2", "3.7.2"
	kafkatest.RequireReal(t, from, to)
	old, newer := expectationsFor(t, from), expectationsFor(t, to)
	cluster := kafkatest.Start(t, kafkatest.Options{Version: from, Brokers: 3})
	require.NoError(t, cluster.Warm(t.Context()))
	service := serve(t, cluster.Bootstrap())
	service.ready(t)
	client := service.client(t)

	u := &upgrade{stage: map[string]*atomic.Int32{}, old: int32(old.highest), new: int32(newer.highest), seen: map[string]map[int32]int{}}
	for _, addr := range cluster.Bootstrap() {
		u.stage[addr] = new(atomic.Int32)
	}
	var calls atomic.Int64
	q := question{keyType: coordsvcv1.KeyType_GROUP, keys: kafkatest.WellFormedKeys(0, "rolling", 300)}
	load := startLoad(t, 12, 20*time.Millisecond, func(ctx context.Context, caller int) {
		before := u.stages()
		calls.Add(1)
		if caller%2 == 0 {
			resp, err := client.FindCoordinators(ctx, q.request())
			u.check("gRPC", q.keys, resp, err, before)
			return
		}
		resp, err := askREST(service, q)
		u.check("REST", q.keys, resp, err, before)
	})
	time.Sleep(time.Second)
	for _, b := range cluster.Brokers() {
		begin := time.Now()
		u.stage[b.Addr()].Store(inUpgrade)
		require.NoError(t, b.RestartAs(t.Context(), to))
		u.stage[b.Addr()].Store(afterUpgrade)
		t.Logf("broker %d runs %s after %.1f s", b.ID, to, time.Since(begin).Seconds())
		require.Eventually(t, func() bool { return inSync(b.Addr(), 3) == nil }, time.Minute, 200*time.Millisecond)
		time.Sleep(time.Second)
	}
	// Each broker must be used again, which may take as long as it was avoided.
	require.Eventually(t, func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		for addr := range u.stage {
			if u.seen[addr][u.new] == 0 {
				return false
			}
		}
		return true
	}, 45*time.Second, 100*time.Millisecond)
	load.stop()
	u.failures.report(t)
	t.Logf("%d calls of %d keys; answers by broker and version: %v", calls.Load(), len(q.keys), u.seen)
	for addr := range u.stage {
		require.Positive(t, u.seen[addr][u.old], "%s was not used before its upgrade", addr)
	}
}

// askREST is for callers that may not end the test.
func askREST(p *process, q question) (*coordsvcv1.FindCoordinatorsResponse, error) {
	resp, err := q.post(p)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", resp.Status, body)
	}
	m := new(coordsvcv1.FindCoordinatorsResponse)
	return m, protojson.Unmarshal(body, m)
}
