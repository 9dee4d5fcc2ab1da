package service_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
	"github.com/coordsvc/coordsvc/service"
)

// A rig is a Finder over stub brokers on an in-memory network, in simulated time.
type rig struct {
	t      *testing.T
	finder *service.Finder
	stubs  []*kafkatest.Stub
}

// inSim runs a test with n stubs of a release on simulated time, connected and idle.
func inSim(t *testing.T, n int, release string, cfg service.FinderConfig, test func(*rig), adjust ...func(*rig, *pool.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := kafkatest.NewNetwork()
		r := &rig{t: t, stubs: kafkatest.NewStubs(t, n, kafkatest.StubConfig{Network: network, Release: release})}
		poolCfg := pool.DefaultConfig()
		poolCfg.Bootstrap = kafkatest.Addrs(r.stubs...)
		poolCfg.Dial = network.DialContext
		for _, f := range adjust {
			f(r, &poolCfg)
		}
		cluster, err := pool.NewCluster(poolCfg)
		require.NoError(t, err)
		cluster.Start()
		r.finder = service.NewFinder(cluster, cfg)
		defer func() {
			require.NoError(t, r.finder.Close(context.Background()))
			require.NoError(t, cluster.Close(context.Background()))
		}()
		time.Sleep(time.Second) // discovered, one warm connection a broker
		synctest.Wait()
		r.forget()
		test(r)
	})
}

func (r *rig) forget() {
	for _, s := range r.stubs {
		s.Forget()
	}
}

// toldLimit is a context that ends no call by itself, as the service's are.
type toldLimit struct {
	context.Context
	ends time.Time
}

func (l toldLimit) Deadline() (time.Time, bool) { return l.ends, true }

// settle lets everything go as far as it goes by itself.
func (r *rig) settle() {
	time.Sleep(2 * peek)
	synctest.Wait()
}

// on gives every stub the handler for FindCoordinator.
func (r *rig) on(h kafkatest.Handler) {
	for _, s := range r.stubs {
		s.On(kafkawire.APIKeyFindCoordinator, h)
	}
}

// lookups are the keys of every FindCoordinator request of all stubs.
func (r *rig) lookups() [][]string {
	var all [][]string
	for _, s := range r.stubs {
		all = append(all, s.Lookups()...)
	}
	return all
}

func (r *rig) find(timeout time.Duration, keys ...string) []service.Result {
	r.t.Helper()
	results, err := r.tryFind(timeout, kafkawire.KeyTypeGroup, keys...)
	require.NoError(r.t, err)
	require.Len(r.t, results, len(keys))
	for i := range keys {
		require.Equal(r.t, keys[i], results[i].Key)
	}
	return results
}

func (r *rig) tryFind(timeout time.Duration, t kafkawire.KeyType, keys ...string) ([]service.Result, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), timeout)
	defer cancel()
	return r.finder.Find(ctx, t, keys)
}

func (r *rig) found(results []service.Result) {
	r.t.Helper()
	for i := range results {
		require.Nil(r.t, results[i].Err, "key %q", results[i].Key)
		require.NotZero(r.t, results[i].Coordinator.Port)
		require.NotEmpty(r.t, results[i].AnsweredBy)
	}
}

// peek is what the pool spends on looking whether an in-memory connection is still
// good; a socket is looked at without waiting.
const peek = time.Millisecond

func keysOf(n int, prefix string) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return keys
}

func TestLoneCallerWaitsForNobody(t *testing.T) {
	inSim(t, 3, "4.4.0", service.FinderConfig{}, func(r *rig) {
		for i := range 5 {
			start := time.Now()
			r.found(r.find(time.Second, fmt.Sprint("key", i)))
			require.LessOrEqual(t, time.Since(start), peek)
		}
		require.Len(t, r.lookups(), 5)
	})
}

func TestConcurrentCallersShareRequests(t *testing.T) {
	inSim(t, 3, "4.4.0", service.FinderConfig{}, func(r *rig) {
		gate := kafkatest.NewGate()
		r.on(gate.Hold(kafkatest.Default))
		var wg sync.WaitGroup
		for _, key := range keysOf(1000, "key") {
			wg.Go(func() { r.found(r.find(10*time.Second, key)) })
		}
		r.settle()
		gate.Open()
		wg.Wait()
		require.LessOrEqual(t, len(r.lookups()), 4)
		asked := slices.Concat(r.lookups()...)
		require.Len(t, asked, 1000, "each key is asked once")
	})
}

func TestCallersOfOneKeyShareItsAnswer(t *testing.T) {
	inSim(t, 3, "4.4.0", service.FinderConfig{}, func(r *rig) {
		gate := kafkatest.NewGate()
		r.on(gate.Hold(kafkatest.Default))
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() { r.found(r.find(10*time.Second, "the key")) })
		}
		r.settle()
		gate.Open()
		wg.Wait()
		require.LessOrEqual(t, len(r.lookups()), 2)
	})
}

func TestAnswerIsNeverOlderThanItsQuestion(t *testing.T) {
	inSim(t, 1, "4.4.0", service.FinderConfig{}, func(r *rig) {
		moved := false
		r.stubs[0].SetCoordinator(func(kafkawire.KeyType, string) kafkawire.Coordinator {
			return kafkawire.Coordinator{NodeID: map[bool]int32{false: 1, true: 2}[moved], Host: "h", Port: 1}
		})
		gate := kafkatest.NewGate()
		r.on(func(q *kafkatest.Request) {
			old := q.DefaultAnswer() // the broker knows only what is so when it reads
			gate.Hold(func(q *kafkatest.Request) { q.Reply(old) })(q)
		})
		var first, second []service.Result
		var wg sync.WaitGroup
		wg.Go(func() { first = r.find(10*time.Second, "key") })
		r.settle() // the first question is written and was read
		require.Len(t, r.lookups(), 1)
		moved = true
		wg.Go(func() { second = r.find(10*time.Second, "key") })
		time.Sleep(time.Second)
		gate.Open()
		wg.Wait()
		require.EqualValues(t, 1, first[0].Coordinator.NodeID)
		require.EqualValues(t, 2, second[0].Coordinator.NodeID)
		require.Len(t, r.lookups(), 2)
	})
}

func TestLargeCallIsCutIntoChunksAndKeepsOrderAndDuplicates(t *testing.T) {
	inSim(t, 3, "4.4.0", service.FinderConfig{}, func(r *rig) {
		keys := keysOf(10_000, "key")
		keys[7], keys[9_999] = keys[3], keys[3]
		r.found(r.find(10*time.Second, keys...))
		lookups := r.lookups()
		require.Len(t, lookups, 20)
		for _, keys := range lookups {
			require.LessOrEqual(t, len(keys), 500)
		}
		require.Len(t, slices.Concat(lookups...), 9_998, "a repeated key is asked once")
		for _, s := range r.stubs {
			require.NotEmpty(t, s.Lookups(), "a large call is spread over the brokers")
		}
	})
}

func TestOldVersionsAreAskedOneKeyARequestPipelined(t *testing.T) {
	for _, release := range []string{"0.10.2.2", "1.1.1", "2.3.1", "2.8.2"} {
		t.Run(release, func(t *testing.T) {
			inSim(t, 1, release, service.FinderConfig{PipelineWindow: 8}, func(r *rig) {
				gate := kafkatest.NewGate()
				r.on(gate.Hold(kafkatest.Default))
				var wg sync.WaitGroup
				wg.Go(func() { r.found(r.find(10*time.Second, keysOf(20, "key")...)) })
				r.settle()
				require.Len(t, r.lookups(), 8, "a window is in flight")
				gate.Open()
				wg.Wait()
				lookups := r.lookups()
				require.Len(t, lookups, 20)
				for _, keys := range lookups {
					require.Len(t, keys, 1)
				}
			})
		})
	}
}

func TestAnswersAreMatchedByKey(t *testing.T) {
	inSim(t, 1, "4.4.0", service.FinderConfig{}, func(r *rig) {
		r.stubs[0].SetCoordinator(func(_ kafkawire.KeyType, key string) kafkawire.Coordinator {
			return kafkawire.Coordinator{NodeID: int32(len(key)), Host: key, Port: 9092}
		})
		r.on(func(q *kafkatest.Request) {
			answer := q.DefaultAnswer().(*kafkawire.FindCoordinatorResponse)
			slices.Reverse(answer.Coordinators)
			answer.Coordinators = append(answer.Coordinators, kafkawire.Coordinator{Key: "not asked", NodeID: 9, Host: "x", Port: 1})
			q.Reply(answer)
		})
		results := r.find(time.Second, "a", "bb", "ccc", "a")
		r.found(results)
		for _, res := range results {
			require.Equal(t, res.Key, res.Coordinator.Host)
		}
	})
}

// What a broker calls itself is passed on, also where Metadata names no such broker and
// nothing here could reach it (ruby-kafka#392, KafScale#69, kop#1140).
func TestAddressesAreThoseOfTheAnswer(t *testing.T) {
	hosts := []string{"f0c1d2e3a4b5", "BROKER-1.Example", "kafka_1", "broker-1.example.", "localhost", "127.0.0.1", "::1", "fe80::1%eth0", "bücher.example"}
	for _, release := range []string{"2.8.2", "4.4.0"} {
		inSim(t, 1, release, service.FinderConfig{}, func(r *rig) {
			r.stubs[0].SetCoordinator(func(_ kafkawire.KeyType, key string) kafkawire.Coordinator {
				return kafkawire.Coordinator{NodeID: 1<<31 - 1, Host: key, Port: 65535}
			})
			results := r.find(time.Second, hosts...)
			r.found(results)
			for _, res := range results {
				require.Equal(t, service.Coordinator{NodeID: 1<<31 - 1, Host: res.Key, Port: 65535}, res.Coordinator)
			}
		})
	}
}

func TestKeyLeftOutOfAnAnswerIsAskedAgain(t *testing.T) {
	leaveOut := func(q *kafkatest.Request) {
		answer := q.DefaultAnswer().(*kafkawire.FindCoordinatorResponse)
		answer.Coordinators = slices.DeleteFunc(answer.Coordinators, func(c kafkawire.Coordinator) bool { return c.Key == "b" })
		q.Reply(answer)
	}
	inSim(t, 1, "4.4.0", service.FinderConfig{}, func(r *rig) {
		r.on(kafkatest.First(1, leaveOut))
		r.found(r.find(time.Second, "a", "b", "c"))
		require.Equal(t, [][]string{{"a", "b", "c"}, {"b"}}, r.lookups())

		r.on(leaveOut)
		results := r.find(time.Second, "a", "b")
		require.Nil(t, results[0].Err)
		require.Equal(t, service.ReasonNotInAnswer, results[1].Err.Reason)
	})
}

func TestRetriableOutcomeIsAskedAgainUntilTheDeadline(t *testing.T) {
	inSim(t, 3, "4.4.0", service.FinderConfig{}, func(r *rig) {
		start := time.Now()
		r.on(kafkatest.Fail(kafkawire.ErrCoordinatorNotAvailable))
		time.AfterFunc(1500*time.Millisecond, func() { r.on(kafkatest.Default) })
		r.found(r.find(10*time.Second, "key"))
		require.InDelta(t, 2, time.Since(start).Seconds(), 0.7)
		require.LessOrEqual(t, len(r.lookups()), 7, "with pauses that grow")

		r.forget()
		r.on(kafkatest.Fail(kafkawire.ErrCoordinatorNotAvailable))
		start = time.Now()
		results := r.find(10*time.Second, "key")
		require.Equal(t, 10*time.Second, time.Since(start))
		require.Equal(t, service.Reason("COORDINATOR_NOT_AVAILABLE"), results[0].Err.Reason, "the last that a broker said")
		require.NotEmpty(t, results[0].AnsweredBy)
		asked := len(r.lookups())
		require.GreaterOrEqual(t, asked, 9)
		require.LessOrEqual(t, asked, 16)
		askedBrokers := 0
		for _, s := range r.stubs {
			if len(s.Lookups()) > 0 {
				askedBrokers++
			}
		}
		require.Equal(t, 3, askedBrokers, "retries go round the brokers")
	})
}

func TestRetryGoesToAnotherBroker(t *testing.T) {
	inSim(t, 3, "4.4.0", service.FinderConfig{}, func(r *rig) {
		poor := r.stubs[0]
		poor.On(kafkawire.APIKeyFindCoordinator, kafkatest.Fail(kafkawire.ErrCoordinatorNotAvailable))
		for _, callers := range []int{1, 16} {
			r.forget()
			for range 100 {
				var wg sync.WaitGroup
				for _, key := range keysOf(callers, "key") {
					wg.Go(func() { r.found(r.find(250*time.Millisecond, key)) }) // time for one retry
				}
				wg.Wait()
			}
			require.NotZero(t, poor.Count(kafkawire.APIKeyFindCoordinator))
		}
		r.forget()
		r.found(r.find(time.Second, keysOf(5_000, "key")...))
		asked := map[string]int{}
		for _, keys := range poor.Lookups() {
			for _, key := range keys {
				asked[key]++
			}
		}
		require.NotEmpty(t, asked)
		for key, times := range asked {
			require.Equal(t, 1, times, key)
		}
	})
}

func TestOnlyBrokerIsAskedAgain(t *testing.T) {
	inSim(t, 2, "4.4.0", service.FinderConfig{}, func(r *rig) {
		r.stubs[1].Down()
		time.Sleep(time.Second)
		r.stubs[0].On(kafkawire.APIKeyFindCoordinator, kafkatest.Fail(kafkawire.ErrCoordinatorNotAvailable))
		time.AfterFunc(50*time.Millisecond, func() { r.stubs[0].On(kafkawire.APIKeyFindCoordinator, kafkatest.Default) })
		r.found(r.find(250*time.Millisecond, "key"))
	})
}

// A broker that was sent the password could repeat it to everybody who looks up keys.
func TestPasswordIsNotRepeated(t *testing.T) {
	const password = `s3cret "word`
	for _, says := range []string{password, "it is " + password, strings.Repeat("x", 295) + password} {
		for _, release := range []string{"4.4.0", "2.4.1"} {
			inSim(t, 1, release, service.FinderConfig{}, func(r *rig) {
				r.on(kafkatest.Alter(func(row *kafkawire.Coordinator) {
					*row = kafkawire.Coordinator{Key: row.Key, NodeID: kafkawire.NoNode, ErrorCode: kafkawire.ErrGroupAuthorizationFailed, ErrorMessage: says}
				}))
				detail := r.find(time.Second, "key")[0].Err.Detail
				require.Contains(t, detail, "[sec")
				require.NotContains(t, detail, "s3cret")
			}, func(r *rig, cfg *pool.Config) {
				r.stubs[0].RequireSASL(&kafkatest.SASL{Users: map[string]string{"alice": password}})
				cfg.SASL = &pool.SASL{Mechanism: pool.MechanismPlain, Username: "alice",
					Credential: func(context.Context) (string, error) { return password, nil }}
			})
		}
	}
}

// A long text is cut between two characters.
func TestLongTextOfABroker(t *testing.T) {
	for says, want := range map[string]string{
		strings.Repeat("x", 299) + "é":       `"` + strings.Repeat("x", 299) + `..."`,
		strings.Repeat("x", 298) + "é":       `"` + strings.Repeat("x", 298) + `é"`,
		strings.Repeat("x", 297) + "\xffééé": `"` + strings.Repeat("x", 297) + `?é..."`,
		strings.Repeat("\xff", 1000):         `"?"`,
	} {
		inSim(t, 1, "4.4.0", service.FinderConfig{}, func(r *rig) {
			r.on(kafkatest.Alter(func(row *kafkawire.Coordinator) {
				*row = kafkawire.Coordinator{Key: row.Key, NodeID: kafkawire.NoNode, ErrorCode: kafkawire.ErrGroupAuthorizationFailed, ErrorMessage: says}
			}))
			require.Equal(t, "the broker says "+want, r.find(time.Second, "key")[0].Err.Detail)
		})
	}
}

func TestFinalOutcomeIsNotAskedAgain(t *testing.T) {
	for _, code := range []kafkawire.ErrorCode{30, 53, 24, 35, 120, 9999} {
		inSim(t, 1, "4.4.0", service.FinderConfig{}, func(r *rig) {
			r.on(kafkatest.Fail(code))
			start := time.Now()
			results := r.find(10*time.Second, "key")
			require.Equal(t, code, results[0].Err.Code)
			require.LessOrEqual(t, time.Since(start), peek)
			require.Len(t, r.lookups(), 1)
		})
	}
}

func TestGoodKeysAreNotLostForABadOne(t *testing.T) {
	inSim(t, 1, "4.4.0", service.FinderConfig{}, func(r *rig) {
		r.on(kafkatest.Alter(func(row *kafkawire.Coordinator) {
			switch row.Key {
			case "denied":
				*row = kafkawire.Coordinator{Key: row.Key, NodeID: -1, Port: -1, ErrorCode: kafkawire.ErrGroupAuthorizationFailed}
			case "lost":
				*row = kafkawire.Coordinator{Key: row.Key, NodeID: -1, Port: -1, ErrorCode: kafkawire.ErrCoordinatorNotAvailable}
			case "odd":
				*row = kafkawire.Coordinator{Key: row.Key, NodeID: -1, Port: -1}
			}
		}))
		results := r.find(2*time.Second, "good", "denied", "lost", "odd", "fine")
		require.Nil(t, results[0].Err)
		require.Equal(t, service.Reason("GROUP_AUTHORIZATION_FAILED"), results[1].Err.Reason)
		require.Equal(t, service.Reason("COORDINATOR_NOT_AVAILABLE"), results[2].Err.Reason)
		require.Equal(t, service.ReasonInvalidAnswer, results[3].Err.Reason)
		require.Nil(t, results[4].Err)
	})
}

func TestOneKeyThatFailsAllIsFoundOut(t *testing.T) {
	for _, code := range []kafkawire.ErrorCode{-1, 42} {
		inSim(t, 1, "4.4.0", service.FinderConfig{}, func(r *rig) {
			r.on(func(q *kafkatest.Request) {
				if slices.Contains(q.Keys, "bad") {
					kafkatest.Fail(code)(q)
					return
				}
				kafkatest.Default(q)
			})
			results := r.find(time.Second, "a", "bad", "c")
			require.Nil(t, results[0].Err)
			require.Equal(t, code, results[1].Err.Code)
			require.Nil(t, results[2].Err)
			require.Equal(t, [][]string{{"a", "bad", "c"}, {"a"}, {"bad"}, {"c"}}, r.lookups()[:4], "one at a time, once")
		})
	}
}

func TestSilentBrokersEndInTheDeadline(t *testing.T) {
	inSim(t, 2, "4.4.0", service.FinderConfig{}, func(r *rig) {
		r.on(kafkatest.Silent)
		start := time.Now()
		results := r.find(3*time.Second, "key")
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Equal(t, service.ReasonDeadlineExceeded, results[0].Err.Reason)
		require.Empty(t, results[0].AnsweredBy)
		require.Contains(t, results[0].Err.Detail, "broker-", "what was asked is named")
	})
}

func TestSilentBrokerLeavesTimeToAskAnother(t *testing.T) {
	inSim(t, 2, "4.4.0", service.FinderConfig{}, func(r *rig) {
		r.stubs[0].On(kafkawire.APIKeyFindCoordinator, kafkatest.Silent)
		for i := range 4 {
			start := time.Now()
			r.found(r.find(5*time.Second, fmt.Sprint("key", i)))
			require.LessOrEqual(t, time.Since(start), 4*time.Second)
		}
	})
}

func TestSilentBrokerHoldsUpOthersForNoMoreThanTheHold(t *testing.T) {
	inSim(t, 2, "4.4.0", service.FinderConfig{}, func(r *rig) {
		gate := kafkatest.NewGate()
		r.on(func(q *kafkatest.Request) {
			if slices.Contains(q.Keys, "slow") {
				gate.Hold(kafkatest.Default)(q)
				return
			}
			kafkatest.Default(q)
		})
		var wg sync.WaitGroup
		wg.Go(func() { r.found(r.find(10*time.Second, "slow")) })
		r.settle()
		for i := range 10 {
			start := time.Now()
			r.found(r.find(time.Second, fmt.Sprint("key", i)))
			require.LessOrEqual(t, time.Since(start), 5*time.Millisecond+peek)
		}
		gate.Open()
		wg.Wait()
	})
}

func TestLostConnectionIsAskedAgainAtOnce(t *testing.T) {
	for name, h := range map[string]kafkatest.Handler{"closed": kafkatest.Hangup, "reset": kafkatest.Reset} {
		t.Run(name, func(t *testing.T) {
			inSim(t, 1, "4.4.0", service.FinderConfig{}, func(r *rig) {
				r.on(kafkatest.First(1, h))
				start := time.Now()
				r.found(r.find(time.Second, "a", "b"))
				require.Less(t, time.Since(start), 500*time.Millisecond)
			})
		})
	}
}

func TestCallerWhoLeavesDoesNotHarmTheOthers(t *testing.T) {
	inSim(t, 1, "4.4.0", service.FinderConfig{}, func(r *rig) {
		gate := kafkatest.NewGate()
		r.on(gate.Hold(kafkatest.Default))
		ctx, cancel := context.WithCancel(r.t.Context())
		var left error
		var wg sync.WaitGroup
		wg.Go(func() { r.found(r.find(time.Minute, "first")) })
		r.settle() // in the air; what follows gathers
		wg.Go(func() { _, left = r.finder.Find(ctx, kafkawire.KeyTypeGroup, []string{"shared", "lonely"}) })
		wg.Go(func() { r.found(r.find(time.Minute, "shared")) })
		r.settle()
		cancel()
		r.settle()
		require.ErrorIs(t, left, context.Canceled)
		gate.Open()
		wg.Wait()
		require.NotContains(t, slices.Concat(r.lookups()...), "lonely", "nobody waits for it any more")
	})
}

// A lone caller's batch is under way in its own goroutine: it must return all the same.
func TestCallerWhoLeavesItsOwnBatch(t *testing.T) {
	withTimer := func(ctx context.Context, ends time.Time) context.Context {
		ctx, cancel := context.WithDeadline(ctx, ends)
		t.Cleanup(cancel)
		return ctx
	}
	onlyTold := func(ctx context.Context, ends time.Time) context.Context { return toldLimit{ctx, ends} }
	cancelled := func(cancel context.CancelFunc) { cancel() }
	tooLate := func(context.CancelFunc) { time.Sleep(600 * time.Millisecond) }
	for name, c := range map[string]struct {
		limit func(context.Context, time.Time) context.Context
		leave func(context.CancelFunc)
	}{
		"cancelled":                         {withTimer, cancelled},
		"too late":                          {withTimer, tooLate},
		"cancelled before a deadline told":  {onlyTold, cancelled},
		"too late for a deadline only told": {onlyTold, tooLate},
	} {
		t.Run(name, func(t *testing.T) {
			limit, leave := c.limit, c.leave
			inSim(t, 1, "4.4.0", service.FinderConfig{}, func(r *rig) {
				gate := kafkatest.NewGate()
				r.on(gate.Hold(kafkatest.Default))
				ctx, cancel := context.WithCancel(r.t.Context())
				defer cancel()
				start := time.Now()
				ctx = limit(ctx, start.Add(500*time.Millisecond)) // less than a broker gets
				took := make(chan time.Duration, 1)
				go func() {
					r.finder.Find(ctx, kafkawire.KeyTypeGroup, []string{"mine"})
					took <- time.Since(start)
				}()
				r.settle()
				require.Empty(r.t, took)
				leave(cancel)
				r.settle()
				require.Len(r.t, took, 1)
				require.LessOrEqual(r.t, <-took, 500*time.Millisecond+2*peek)

				gate.Open()
				r.settle()
				r.found(r.find(time.Second, "next"))
				require.Equal(r.t, 1, r.stubs[0].Accepted(), "the connection is whole")
			})
		})
	}
}

func TestBatchThatFailsAsAWholeIsAskedSinglyForACallerWhoMayLeave(t *testing.T) {
	inSim(t, 1, "4.0.0", service.FinderConfig{}, func(r *rig) {
		r.on(kafkatest.Fail(kafkawire.ErrInvalidRequest))
		results := r.find(time.Second, "a", "b")
		require.Len(r.t, r.lookups(), 3, "both together, then each")
		for i := range results {
			require.Equal(r.t, kafkawire.ErrInvalidRequest, results[i].Err.Code)
		}
	})
}

func TestLargeCallDoesNotHoldUpSingleKeys(t *testing.T) {
	for _, release := range []string{"4.4.0", "2.4.1"} {
		t.Run(release, func(t *testing.T) {
			const perKey = 100 * time.Microsecond
			inSim(t, 1, release, service.FinderConfig{}, func(r *rig) {
				r.on(func(q *kafkatest.Request) {
					kafkatest.After(perKey*time.Duration(len(q.Keys)), kafkatest.Default)(q)
				})
				var wg sync.WaitGroup
				for i := range 4 {
					wg.Go(func() { r.found(r.find(30*time.Second, keysOf(10_000, fmt.Sprint("bulk", i))...)) })
				}
				time.Sleep(20 * time.Millisecond)
				for i := range 10 {
					start := time.Now()
					r.found(r.find(time.Second, fmt.Sprint("single", i)))
					require.LessOrEqual(t, time.Since(start), 2*500*perKey, "the chunk in the air, and its own")
				}
				wg.Wait()
			})
		})
	}
}

func TestWaitingKeysAreBounded(t *testing.T) {
	inSim(t, 1, "4.4.0", service.FinderConfig{MaxWaitingKeys: 5_000}, func(r *rig) {
		r.on(kafkatest.Silent)
		_, err := r.tryFind(time.Second, kafkawire.KeyTypeGroup, keysOf(5_001, "key")...)
		require.ErrorIs(t, err, service.ErrTooManyWaiting)

		var wg sync.WaitGroup
		wg.Go(func() { r.find(2*time.Second, keysOf(5_000, "a")...) })
		r.settle() // some are in the air, some gather: all of them wait
		_, err = r.tryFind(time.Second, kafkawire.KeyTypeGroup, "b")
		require.ErrorIs(t, err, service.ErrTooManyWaiting)
		wg.Wait() // who waited has left, and with them the keys
		r.on(kafkatest.Default)
		r.found(r.find(20*time.Second, keysOf(5_000, "c")...))
	})
}

func TestKeyTypeThatTheVersionCannotCarry(t *testing.T) {
	for _, c := range []struct {
		release string
		keyType kafkawire.KeyType
		key     string
		carried bool
	}{
		{"0.10.2.2", kafkawire.KeyTypeTransaction, "t", false},
		{"1.1.1", kafkawire.KeyTypeTransaction, "t", true},
		{"3.7.2", kafkawire.KeyTypeShare, "g:nT3i4OXyR0mr0my1RZx9pQ:0", false},
		{"4.4.0", kafkawire.KeyTypeShare, "g:nT3i4OXyR0mr0my1RZx9pQ:0", true},
	} {
		t.Run(c.release, func(t *testing.T) {
			inSim(t, 2, c.release, service.FinderConfig{}, func(r *rig) {
				results, err := r.tryFind(time.Second, c.keyType, c.key)
				require.NoError(t, err)
				if c.carried {
					r.found(results)
					return
				}
				require.Equal(t, service.ReasonUnsupportedKeyType, results[0].Err.Reason)
				require.Empty(t, r.lookups(), "nothing is sent that would be misread")
			})
		})
	}
}

func TestMixedReleasesAreEachAskedInTheirOwnVersion(t *testing.T) {
	inSim(t, 3, "4.4.0", service.FinderConfig{}, func(r *rig) {
		r.stubs[1].SetAPI(kafkawire.APIKeyFindCoordinator, kafkawire.VersionRange{Min: 0, Max: 3})
		r.stubs[1].Disconnect()
		time.Sleep(10 * time.Second)
		r.forget()
		r.found(r.find(5*time.Second, keysOf(5_000, "key")...))
		for _, q := range r.stubs[1].Requests(kafkawire.APIKeyFindCoordinator) {
			require.EqualValues(t, 3, q.Version)
		}
		require.NotEmpty(t, r.stubs[1].Lookups())
		for range 6 { // whichever broker's turn it is
			results, err := r.tryFind(time.Second, kafkawire.KeyTypeShare, "g:nT3i4OXyR0mr0my1RZx9pQ:0")
			require.NoError(t, err)
			r.found(results)
		}
	})
}

func TestCloseEndsThoseWhoWait(t *testing.T) {
	inSim(t, 1, "4.4.0", service.FinderConfig{}, func(r *rig) {
		r.on(kafkatest.Fail(kafkawire.ErrCoordinatorNotAvailable))
		var wg sync.WaitGroup
		var results []service.Result
		wg.Go(func() { results = r.find(time.Minute, "waits for a retry") })
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, r.finder.Close(r.t.Context()))
		wg.Wait()
		require.Equal(t, service.ReasonShuttingDown, results[0].Err.Reason)
		_, err := r.tryFind(time.Second, kafkawire.KeyTypeGroup, "late")
		require.ErrorIs(t, err, service.ErrFinderClosed)
	})
}

// What a broker sends once it has negotiated tells of that broker only.
func TestNonsenseOfOneBrokerIsAskedOfAnother(t *testing.T) {
	inSim(t, 2, "4.4.0", service.FinderConfig{}, func(r *rig) {
		r.stubs[0].On(kafkawire.APIKeyFindCoordinator, kafkatest.Raw([]byte("HTTP/1.1 502 Bad Gateway\r\n\r\n")))
		for range 4 {
			for _, result := range r.find(2*time.Second, "orders") {
				require.Nil(r.t, result.Err)
				require.Equal(r.t, r.stubs[1].Addr(), result.AnsweredBy)
			}
		}
	})
}

// Brokers that have just started say for a while that there is no coordinator: a key goes on
// to one that it was not asked of yet, so that each is asked before any is asked again.
func TestRetriesGoRoundAllBrokers(t *testing.T) {
	for _, release := range []string{"2.4.1", "4.4.0"} {
		t.Run(release, func(t *testing.T) {
			inSim(t, 4, release, service.FinderConfig{}, func(r *rig) {
				r.on(kafkatest.Fail(kafkawire.ErrCoordinatorNotAvailable))
				r.stubs[2].On(kafkawire.APIKeyFindCoordinator, kafkatest.Default)
				for i := range 100 {
					began := time.Now()
					r.found(r.find(3*time.Second, fmt.Sprint("key-", i), "other"))
					// 100, 200 and 400 ms, and a fifth more, lie between four questions.
					require.Less(t, time.Since(began), 900*time.Millisecond)
				}
			})
		})
	}
}
