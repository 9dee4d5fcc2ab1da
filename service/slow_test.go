package service_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
	"github.com/coordsvc/coordsvc/service"
)

// A broker that takes more than half of a call's time is slow, not silent: what it says
// before the deadline counts, however many brokers are as slow.
func TestSlowBrokersAreWaitedForUntilTheDeadline(t *testing.T) {
	for _, brokers := range []int{1, 3} {
		for _, release := range []string{"0.8.2.2", "2.4.1", "4.4.0"} {
			for name, call := range map[string]struct {
				keys         int
				takes, limit time.Duration
			}{
				"one key":         {1, 3 * time.Second, 5 * time.Second},
				"one key, hasty":  {1, 450 * time.Millisecond, 500 * time.Millisecond},
				"one key, longer": {1, 9 * time.Second, 30 * time.Second},
				"many keys":       {300, 4900 * time.Millisecond, 5 * time.Second},
			} {
				t.Run(fmt.Sprintf("%d of %s, %s", brokers, release, name), func(t *testing.T) {
					inSim(t, brokers, release, service.FinderConfig{}, func(r *rig) {
						slowly := func(q *kafkatest.Request) { // each connection's first answer
							if q.Keys[0] == "key-0" || brokers > 1 && len(q.Keys) > 1 {
								kafkatest.After(call.takes, kafkatest.Default)(q)
								return
							}
							kafkatest.Default(q)
						}
						r.on(slowly)
						keys := keysOf(call.keys, "key")
						if release != "4.4.0" && call.keys > 128 {
							keys = keys[:128] // a flight's
						}
						r.found(r.find(call.limit, keys...))
						time.Sleep(call.takes) // until the second has answered, too
						r.on(nil)
						r.forget()
						r.found(r.find(time.Second, "next"))
						require.Len(t, r.lookups(), 1)
					})
				})
			}
		}
	}
}

// Nobody is served by the answer to a question that was asked before he came.
func TestLateAnswerIsNotForThoseWhoCameLater(t *testing.T) {
	for _, release := range []string{"2.4.1", "4.4.0"} {
		t.Run(release, func(t *testing.T) {
			inSim(t, 1, release, service.FinderConfig{}, func(r *rig) {
				old := kafkatest.Alter(func(row *kafkawire.Coordinator) { row.NodeID = 7 })
				r.on(kafkatest.First(1, kafkatest.After(3*time.Second, old)))
				var wg sync.WaitGroup
				wg.Go(func() {
					results := r.find(5*time.Second, "key")
					r.found(results)
					require.EqualValues(t, 7, results[0].Coordinator.NodeID)
				})
				time.Sleep(2700 * time.Millisecond) // its key waits to be asked once more, for the one connection
				require.Len(t, r.lookups(), 1)
				results := r.find(5*time.Second, "key")
				r.found(results)
				require.NotEqualValues(t, 7, results[0].Coordinator.NodeID)
				wg.Wait()
				require.Len(t, r.lookups(), 2)
			}, func(_ *rig, c *pool.Config) { c.MaxConnectionsPerBroker = 1 })
		})
	}
}

// One of several brokers that is paused costs calls a second, or half of their time.
func TestPausedBrokerIsNotWaitedForLong(t *testing.T) {
	for _, release := range []string{"2.4.1", "4.4.0"} {
		for limit, most := range map[time.Duration]time.Duration{
			600 * time.Millisecond: 300 * time.Millisecond,
			5 * time.Second:        time.Second,
			30 * time.Second:       time.Second,
		} {
			t.Run(fmt.Sprint(release, limit), func(t *testing.T) {
				inSim(t, 3, release, service.FinderConfig{}, func(r *rig) {
					r.stubs[0].On(kafkawire.APIKeyFindCoordinator, kafkatest.Silent)
					var wg sync.WaitGroup
					for i := range 64 {
						wg.Go(func() {
							start := time.Now()
							r.found(r.find(limit, fmt.Sprint("key-", i)))
							require.LessOrEqual(t, time.Since(start), most+50*time.Millisecond)
						})
						time.Sleep(time.Millisecond)
					}
					wg.Wait()
				})
			})
		}
	}
}

// A broker that does not read either leaves time to ask another: what was written to it in
// part cannot be waited for.
func TestPausedBrokerAndARequestThatFillsTheSocket(t *testing.T) {
	inSim(t, 2, "4.4.0", service.FinderConfig{}, func(r *rig) {
		keys := keysOf(300, strings.Repeat("k", 3_000))
		r.stubs[0].Pause()
		for range 3 {
			start := time.Now()
			r.found(r.find(5*time.Second, keys...))
			require.LessOrEqual(t, time.Since(start), 2700*time.Millisecond, "half of the time, and the pause before the next attempt")
		}
		r.stubs[0].Resume()
		r.found(r.find(5*time.Second, keys...))
	})
}

// Where a broker answers key by key and does not get done in time, what it has said is
// handed over all the same; where it stops, another is asked for the rest.
func TestAnswersOfASlowPipelineAreHandedOver(t *testing.T) {
	const gap = 30 * time.Millisecond
	slowly := kafkatest.After(gap, kafkatest.Default)
	for name, c := range map[string]struct {
		answers int // of the broker that is asked first
		other   kafkatest.Handler
		found   int
	}{
		"the other says nothing":   {128, kafkatest.Silent, 90}, // there is time for 100
		"it stops, the other does": {20, kafkatest.Default, 128},
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, 2, "2.4.1", service.FinderConfig{}, func(r *rig) {
				var first atomic.Pointer[kafkatest.Stub]
				for _, s := range r.stubs {
					var answered atomic.Int64
					s.On(kafkawire.APIKeyFindCoordinator, func(q *kafkatest.Request) {
						switch first.CompareAndSwap(nil, s); {
						case first.Load() != s:
							c.other(q)
						case answered.Add(1) <= int64(c.answers):
							slowly(q)
						}
					})
				}
				results := r.find(3*time.Second, keysOf(128, "key")...)
				r.found(results[:c.found])
				for i := range results[c.found:] {
					if err := results[c.found+i].Err; err != nil {
						require.Equal(t, service.ReasonDeadlineExceeded, err.Reason)
					}
				}
			})
		})
	}
}

// What a broker has said of a key tells more than that the next was silent.
func TestSilenceDoesNotHideWhatWasSaid(t *testing.T) {
	inSim(t, 1, "4.4.0", service.FinderConfig{}, func(r *rig) {
		r.on(kafkatest.Fail(kafkawire.ErrCoordinatorLoadInProgress))
		var results []service.Result
		var wg sync.WaitGroup
		wg.Go(func() { results = r.find(6*time.Second, "key") })
		time.Sleep(50 * time.Millisecond)
		r.on(kafkatest.Silent)
		wg.Wait()
		require.Equal(t, kafkawire.ErrCoordinatorLoadInProgress, results[0].Err.Code)
	})
}

// Keys that are asked of two brokers are settled once, whatever either says.
func TestTwoAnswersOfWhichOneIsAnError(t *testing.T) {
	for name, first := range map[string]kafkatest.Handler{
		"loading":  kafkatest.Fail(kafkawire.ErrCoordinatorLoadInProgress),
		"nonsense": kafkatest.Raw([]byte("HTTP/1.1 502 Bad Gateway\r\n\r\n")),
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, 2, "4.4.0", service.FinderConfig{}, func(r *rig) {
				r.stubs[0].On(kafkawire.APIKeyFindCoordinator, kafkatest.After(1500*time.Millisecond, first))
				r.stubs[1].On(kafkawire.APIKeyFindCoordinator, kafkatest.After(1500*time.Millisecond, kafkatest.Default))
				for range 4 {
					r.found(r.find(5*time.Second, "key", "key", "other"))
				}
			})
		})
	}
}

// While a slow broker is waited for, the Finder can be closed.
func TestCloseWhileASlowBrokerIsWaitedFor(t *testing.T) {
	inSim(t, 2, "4.4.0", service.FinderConfig{}, func(r *rig) {
		r.on(kafkatest.Silent)
		var results []service.Result
		var wg sync.WaitGroup
		wg.Go(func() { results = r.find(5*time.Second, "key") })
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		start := time.Now()
		require.NoError(t, r.finder.Close(r.t.Context()))
		require.Zero(t, time.Since(start))
		wg.Wait()
		require.Equal(t, service.ReasonShuttingDown, results[0].Err.Reason)
	}, func(_ *rig, c *pool.Config) { c.MaxConnectionsPerBroker = 2 })
}

// A caller leaves in time also while its own request is written, to a broker that does
// not read.
func TestCallerLeavesARequestThatFillsTheSocket(t *testing.T) {
	inSim(t, 1, "4.4.0", service.FinderConfig{}, func(r *rig) {
		keys := keysOf(300, strings.Repeat("k", 3_000))
		r.stubs[0].Pause()
		start := time.Now()
		r.find(100*time.Millisecond, keys...)
		require.Equal(t, 100*time.Millisecond, time.Since(start))
		r.stubs[0].Resume()
		r.found(r.find(5*time.Second, keys...))
	})
}

// What brokers say late is told, though the keys are asked elsewhere by then, where none
// says more until the deadline.
func TestWhatIsSaidLateIsTold(t *testing.T) {
	for _, release := range []string{"2.4.1", "4.4.0"} {
		t.Run(release, func(t *testing.T) {
			inSim(t, 3, release, service.FinderConfig{}, func(r *rig) {
				r.on(kafkatest.After(1500*time.Millisecond, kafkatest.Fail(kafkawire.ErrCoordinatorLoadInProgress)))
				results := r.find(5*time.Second, "key")
				require.Equal(t, kafkawire.ErrCoordinatorLoadInProgress, results[0].Err.Code)
			})
		})
	}
}

// As many flights as there may be are stuck: their keys are asked elsewhere all the same.
func TestStuckFlightsLeaveRoomForOthers(t *testing.T) {
	inSim(t, 40, "4.4.0", service.FinderConfig{ChunkKeys: 1}, func(r *rig) {
		r.on(kafkatest.After(50*time.Millisecond, kafkatest.Default))
		r.found(r.find(30*time.Second, keysOf(1000, "warm")...)) // a connection for each flight
		r.on(kafkatest.After(20*time.Millisecond, kafkatest.Default))
		for _, s := range r.stubs[1:] {
			s.Pause()
		}
		start := time.Now()
		r.found(r.find(30*time.Second, keysOf(400, "key")...))
		require.LessOrEqual(t, time.Since(start), 3*time.Second)
		for _, s := range r.stubs {
			s.Resume()
		}
	})
}

// Whoever heard nothing is told how the brokers stand: one that is silent is connected, and
// an error of long ago, when it was restarted, does not explain it.
func TestSilentBrokerIsToldAsSuch(t *testing.T) {
	inSim(t, 1, "4.4.0", service.FinderConfig{}, func(r *rig) {
		says := func() {
			t.Helper()
			r.on(kafkatest.Silent)
			results := r.find(900*time.Millisecond, "key")
			require.Equal(t, service.ReasonDeadlineExceeded, results[0].Err.Reason)
			require.Equal(t, r.stubs[0].Addr()+" is connected and has not answered", results[0].Err.Detail)
			r.on(nil)
		}
		r.found(r.find(time.Second, "key"))
		says()
		r.stubs[0].Down()
		require.Equal(t, service.ReasonBrokerUnreachable, r.find(time.Second, "key")[0].Err.Reason)
		r.stubs[0].Up()
		time.Sleep(time.Minute)
		r.found(r.find(time.Second, "key"))
		says()
	})
}
