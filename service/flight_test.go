package service

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
)

func TestPanicFailsItsBatchOnly(t *testing.T) {
	f := NewFinder(nil, FinderConfig{})
	q := f.queues[kafkawire.KeyTypeGroup]
	asks := []*ask{{key: "a"}, {key: "b"}}
	lost := &flight{q: q, asks: asks, memory: new(flightMemory)}
	results, again := lost.exchange(nil) // there is no connection to use
	require.False(t, again)
	require.Len(t, results, 2)
	for _, r := range results {
		require.Equal(t, ReasonInternal, r.Err.Reason)
	}
}

// While no flight gets a connection, none comes by the turns of those who gave up.
func TestKeysOfCallersWhoLeftAreLetGo(t *testing.T) {
	cluster, err := pool.NewCluster(pool.Config{Bootstrap: []string{"kafka-1.example:9092"}}) // dials nothing
	require.NoError(t, err)
	defer cluster.Close(t.Context())
	q := NewFinder(cluster, FinderConfig{}).queues[kafkawire.KeyTypeGroup]
	q.prepare() // a flight that waits for a connection
	first, _, err := q.ask(t.Context(), []string{"a", "b"})
	require.NoError(t, err)
	second, _, err := q.ask(t.Context(), []string{"b", "c"})
	require.NoError(t, err)
	q.leave(first)
	require.Len(t, q.open, 2, "those of the second")
	require.NotEmpty(t, q.turns)
	q.leave(second)
	require.Empty(t, q.turns)
}

func TestBackoffDoublesToItsCapWithinAFifth(t *testing.T) {
	for attempt, millis := range []int{100, 200, 400, 800, 1000, 1000, 1000} {
		want := time.Duration(millis) * time.Millisecond
		for range 100 {
			d := backoff(int16(attempt))
			require.GreaterOrEqual(t, d, want*8/10)
			require.LessOrEqual(t, d, want*12/10)
		}
	}
	require.LessOrEqual(t, backoff(math.MaxInt16), 1200*time.Millisecond)
}
