package service

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
)

// groundedQueue is one of which nothing flies.
func groundedQueue(t *testing.T) *queue {
	cfg := pool.DefaultConfig()
	cfg.Bootstrap = []string{"127.0.0.1:1"}
	cluster, err := pool.NewCluster(cfg) // not started: it dials nobody
	require.NoError(t, err)
	q := NewFinder(cluster, FinderConfig{}).queues[kafkawire.KeyTypeGroup]
	q.flights = maxFlights
	return q
}

func (q *queue) mustAsk(t *testing.T, keys []string) *call {
	c, leads, err := q.ask(context.Background(), keys)
	require.NoError(t, err)
	require.False(t, leads)
	return c
}

// TestManyWhoLeaveAKey: a million wait for one key, named thousands of times in each of
// their calls, and leave. It was four seconds of processor time for each call, with the
// queue locked.
func TestManyWhoLeaveAKey(t *testing.T) {
	q := groundedQueue(t)
	keys := make([]string, 5_000)
	for i := range keys {
		keys[i] = "hot"
	}
	calls := make([]*call, 200)
	for i := range calls {
		calls[i] = q.mustAsk(t, keys)
	}
	began := time.Now()
	for i, c := range calls {
		results := q.leave(c)
		require.Len(t, results, len(keys))
		require.Equal(t, ReasonDeadlineExceeded, results[len(keys)-1].Err.Reason)
		if took := time.Since(began); took > 10*time.Second {
			t.Fatalf("%v until %d of %d had left", took, i+1, len(calls))
		}
	}
	require.Empty(t, q.open)
	require.Empty(t, q.turns)
}

// TestWhoLeavesIsForgotten: an ask keeps no more calls that have left than wait for it,
// and nothing of their results.
func TestWhoLeavesIsForgotten(t *testing.T) {
	q := groundedQueue(t)
	stays := q.mustAsk(t, []string{"hot"})
	for i := range 1_000 {
		c := q.mustAsk(t, []string{"hot", fmt.Sprint("own-", i)})
		require.Equal(t, "hot", q.leave(c)[0].Key)
		require.Nil(t, c.results)
		require.Len(t, q.open, 1)
		require.LessOrEqual(t, len(q.open["hot"].waiters), 2)
	}
	q.mu.Lock()
	for _, a := range q.take(10, 1<<20, "").asks {
		a.settle(Result{Key: a.key, APIVersion: 4})
	}
	q.mu.Unlock()
	<-stays.done
	require.EqualValues(t, 4, stays.results[0].APIVersion)
}
