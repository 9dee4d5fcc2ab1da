package pool

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

func TestConnectionsAreReused(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		for i := range 1000 {
			_, err := use(t.Context(), c, fmt.Sprint(i))
			require.NoError(t, err)
		}
		require.Equal(t, 1, stub.Accepted(), "one after the other they need one connection")

		var callers sync.WaitGroup
		for caller := range 20 {
			callers.Go(func() {
				for i := range 450 {
					if _, err := use(t.Context(), c, fmt.Sprint(caller, i)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		callers.Wait()
		require.LessOrEqual(t, stub.Accepted(), 4, "10,000 uses may cost no more than the pool holds")
		require.LessOrEqual(t, stub.MostOpen(), 4)
		s := c.Stats()
		require.EqualValues(t, 10_000, s.Acquired)
		require.EqualValues(t, stub.Accepted(), s.Dials["ok"])
		require.Zero(t, s.InUse+s.Waiting+s.Dialing)
	})
}

func TestDeadBrokerCostsFewDials(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		c := newCluster(t, network, []string{"dead:9092"})
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() {
				_, err := c.Acquire(t.Context(), 0)
				requireKind(t, err, Unreachable, "dead:9092", "refused")
			})
		}
		callers.Wait()
		require.Equal(t, 1, network.Dials("dead:9092"))
		_, err := c.Acquire(t.Context(), 0)
		requireKind(t, err, Unreachable, "refused") // at once, from the backoff
		require.Equal(t, 1, network.Dials("dead:9092"))
	})
}

func TestFailedDialsLeaveNothingBehind(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		c := newCluster(t, network, []string{"dead:9092"})
		begin := time.Now()
		for range 2000 {
			_, err := c.Acquire(t.Context(), 0)
			requireKind(t, err, Unreachable)
			time.Sleep(100 * time.Millisecond)
		}
		dials := network.Dials("dead:9092")
		require.Greater(t, dials, 100)
		require.Less(t, dials, int(time.Since(begin)/time.Second)*13/10, "the backoff ends at a second")
		require.Empty(t, c.sockets)
	})
}

func TestFallsThroughToTheNextBroker(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		for range 20 { // the order is shuffled
			c := newCluster(t, network, []string{"dead-1:9092", "dead-2:9092", stub.Addr()})
			begin := time.Now()
			lease := acquire(t, c)
			require.Equal(t, stub.Addr(), lease.Addr())
			require.Zero(t, time.Since(begin))
		}
	})
}

func TestDoesNotWaitForADialThatHangs(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		network.SetSilent("lost-1:9092", true)
		network.SetSilent("lost-2:9092", true)
		for range 20 {
			c := newCluster(t, network, []string{"lost-1:9092", "lost-2:9092", stub.Addr()})
			begin := time.Now()
			require.Equal(t, stub.Addr(), acquire(t, c).Addr())
			require.LessOrEqual(t, time.Since(begin), 2*hedgeAfter)
		}
	})
}

func TestUnreachableListsWhatWasTried(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		web := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Addr: "web:80"})
		web.On(apiVersions, kafkatest.Raw([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")))
		c := newCluster(t, network, []string{"dead:9092", "web:80"})
		_, err := c.Acquire(t.Context(), 0)
		requireKind(t, err, Unreachable, "dead:9092", "refused", "web:80", "HTTP")
		var each causes
		require.ErrorAs(t, err, &each)
		require.Len(t, each, 2)
		require.ElementsMatch(t, []ErrorKind{Unreachable, NotKafka}, []ErrorKind{KindOf(each[0]), KindOf(each[1])})

		network.SetSilent("lost:9092", true)
		c = newCluster(t, network, []string{"lost:9092"})
		begin := time.Now()
		_, err = c.Acquire(t.Context(), 0)
		requireKind(t, err, Unreachable, "lost:9092", "still connecting")
		require.Equal(t, 2*time.Second, time.Since(begin))
	})
}

// What the last dial failed with is not told as what a dial under way comes to.
func TestOldErrorIsNotThatOfTheDialUnderWay(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.On(apiVersions, kafkatest.Raw([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")))
		c := newCluster(t, network, kafkatest.Addrs(stub), func(cfg *Config) { cfg.AcquireTimeout = 300 * time.Millisecond })
		_, err := c.Acquire(t.Context(), 0)
		requireKind(t, err, NotKafka, "HTTP")

		time.Sleep(time.Minute)
		stub.On(apiVersions, kafkatest.After(400*time.Millisecond, kafkatest.Default))
		_, err = c.Acquire(t.Context(), 0)
		requireKind(t, err, Unreachable, "still connecting", "the last time that failed", "HTTP")
		time.Sleep(200 * time.Millisecond)
		acquire(t, c).Release()
	})
}

func TestWhatAllFailWithIsTheKind(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		var addrs []string
		for _, addr := range []string{"web-1:80", "web-2:80"} {
			web := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Addr: addr})
			web.On(apiVersions, kafkatest.Raw([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")))
			addrs = append(addrs, addr)
		}
		_, err := newCluster(t, network, addrs).Acquire(t.Context(), 0)
		requireKind(t, err, NotKafka, addrs...)
	})
}

func TestRotation(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stubs[0]))
		c.Start()
		synctest.Wait()
		for range 300 {
			_, err := use(t.Context(), c, "group")
			require.NoError(t, err)
		}
		for _, s := range stubs {
			require.InDelta(t, 100, s.Count(findCoordinator), 5)
			require.Equal(t, 1, s.Accepted())
		}
	})
}

func TestPrefersTheBrokerWithTheFewestInUse(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stubs[0]))
		c.Start()
		synctest.Wait()
		inUse := map[string]int{}
		for range 12 {
			inUse[acquire(t, c).Addr()]++
		}
		require.Equal(t, map[string]int{stubs[0].Addr(): 4, stubs[1].Addr(): 4, stubs[2].Addr(): 4}, inUse)
		for _, s := range stubs {
			require.Equal(t, 4, s.Open())
		}
	})
}

func TestQueueIsFirstComeFirstServed(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub), oneConnection)
		lease := acquire(t, c)
		order := make(chan int, 100)
		for i := range 100 {
			go func() {
				l, err := c.Acquire(t.Context(), 0)
				if err != nil {
					t.Error(err)
					return
				}
				order <- i
				l.Release()
			}()
			synctest.Wait()
		}
		require.Equal(t, 100, c.Stats().Waiting)
		lease.Release()
		for i := range 100 {
			require.Equal(t, i, <-order)
		}
		require.Equal(t, 1, stub.Accepted())
	})
}

func TestExhausted(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub), oneConnection, func(cfg *Config) { cfg.MaxWaiters = 2 })
		lease := acquire(t, c)
		begin := time.Now()
		var waiters sync.WaitGroup
		for range 2 {
			waiters.Go(func() {
				_, err := c.Acquire(t.Context(), 0)
				requireKind(t, err, Exhausted, "no connection came free within 2s", "1 connections in use, 0 idle, 0 being made")
			})
		}
		synctest.Wait()
		_, err := c.Acquire(t.Context(), 0)
		requireKind(t, err, Exhausted, "too many wait", "2 callers waiting")
		require.Zero(t, time.Since(begin), "refused at once")
		waiters.Wait()
		require.Equal(t, 2*time.Second, time.Since(begin))
		require.EqualValues(t, 3, c.Stats().Exhausted)
		lease.Release()
		acquire(t, c).Release()
	})
}

func TestCallerThatLeavesTheQueue(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub), oneConnection)
		lease := acquire(t, c)

		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := c.Acquire(ctx, 0)
			left <- err
		}()
		synctest.Wait()
		cancel()
		err := <-left
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, KindOf(err))
		require.Zero(t, c.Stats().Waiting)

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Acquire(ctx, 0)
		requireKind(t, err, Timeout, "the caller's deadline")
		require.ErrorIs(t, err, context.DeadlineExceeded)

		lease.Release()
		acquire(t, c).Release()
		_, err = c.Acquire(ctx, 0)
		require.ErrorIs(t, err, context.DeadlineExceeded, "a context that has ended gets nothing")
	})
}

// The dial belongs to the pool: who began it may leave, and others get it.
func TestCallerThatLeavesDoesNotEndTheDial(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.On(apiVersions, kafkatest.After(time.Second, kafkatest.Default))
		c := newCluster(t, network, kafkatest.Addrs(stub))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := c.Acquire(ctx, 0)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		acquire(t, c).Release()
		require.Equal(t, 1, stub.Accepted())
	})
}

// A waiter gets the connection that comes free, though a dial was begun for it.
func TestWaiterIsNotBoundToItsDial(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		lease := acquire(t, c)
		stub.On(apiVersions, kafkatest.After(time.Second, kafkatest.Default))
		time.AfterFunc(10*time.Millisecond, lease.Release)
		begin := time.Now()
		second := acquire(t, c)
		require.Equal(t, 10*time.Millisecond, time.Since(begin))
		require.Equal(t, 1, c.Stats().Dialing)
		second.Release()
		time.Sleep(time.Second)
		require.Equal(t, 2, c.Stats().Idle)
	})
}

func TestLeastVersion(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{Network: network, Release: "2.8.2"})
		stubs[1].SetAPI(findCoordinator, kafkawire.VersionRange{Min: 0, Max: 4})
		stubs[2].SetAPI(findCoordinator, kafkawire.VersionRange{Min: 0, Max: 6})
		c := newCluster(t, network, kafkatest.Addrs(stubs[0]))
		c.Start()
		synctest.Wait()
		for range 10 {
			lease, err := c.Acquire(t.Context(), 6)
			require.NoError(t, err)
			require.Equal(t, stubs[2].Addr(), lease.Addr())
			require.EqualValues(t, 3, lease.Node())
			lease.Release()
		}
		got := map[string]bool{}
		for range 20 {
			lease, err := c.Acquire(t.Context(), 4)
			require.NoError(t, err)
			got[lease.Addr()] = true
			lease.Release()
		}
		require.Len(t, got, 2)

		// One that offered it and is gone may be back in a moment.
		stubs[2].Down()
		time.Sleep(time.Second)
		_, err := c.Acquire(t.Context(), 6)
		requireKind(t, err, Unreachable, stubs[2].Addr())

		// It is back, but was downgraded.
		stubs[2].SetAPI(findCoordinator, kafkawire.VersionRange{Min: 0, Max: 3})
		stubs[2].Up()
		time.Sleep(5 * time.Second)
		_, err = c.Acquire(t.Context(), 6)
		e := requireKind(t, err, Unsupported, "v6 or later", "v4", stubs[1].Addr())
		require.Equal(t, kafkawire.VersionRange{Min: 0, Max: 4}, e.Have)
		require.Equal(t, kafkawire.VersionRange{Min: 6, Max: 6}, e.Want)
	})
}

// Before anything is known of the versions, a broker is connected to find out.
func TestLeastVersionOfUnknownBrokers(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{Network: network, Release: "2.8.2"})
		stubs[2].SetAPI(findCoordinator, kafkawire.VersionRange{Min: 0, Max: 6})
		for range 10 {
			c := newCluster(t, network, kafkatest.Addrs(stubs...), withoutDiscovery)
			lease, err := c.Acquire(t.Context(), 6)
			require.NoError(t, err)
			require.Equal(t, stubs[2].Addr(), lease.Addr())
			lease.Release()
			require.NoError(t, c.Close(t.Context()))
		}
	})
}

// A waiter that no broker serves at once must not hold up those behind it.
func TestWaitersOfDifferentVersions(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 2, kafkatest.StubConfig{Network: network, Release: "2.8.2"})
		stubs[1].SetAPI(findCoordinator, kafkawire.VersionRange{Min: 0, Max: 6})
		c := newCluster(t, network, kafkatest.Addrs(stubs...), withoutDiscovery, oneConnection)
		held, err := c.Acquire(t.Context(), 6)
		require.NoError(t, err)
		second := make(chan struct{})
		go func() {
			l, err := c.Acquire(t.Context(), 6)
			if err == nil {
				l.Release()
			}
			close(second)
		}()
		synctest.Wait()
		require.Equal(t, stubs[0].Addr(), acquire(t, c).Addr())
		held.Release()
		<-second
	})
}

// One broker of three is paused: few callers pay for it, and none twice.
func TestPausedBrokerIsAvoided(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stubs[0]))
		c.Start()
		synctest.Wait()
		stubs[0].On(findCoordinator, kafkatest.Silent)
		stubs[0].On(metadata, kafkatest.Silent)
		stubs[0].On(apiVersions, kafkatest.Silent)

		var failed atomic.Int64
		var slow atomic.Int64
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				for range 1000 {
					begin := time.Now()
					if _, err := use(t.Context(), c, "group"); err != nil {
						failed.Add(1)
					}
					if time.Since(begin) > time.Second {
						slow.Add(1)
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		callers.Wait()
		require.LessOrEqual(t, failed.Load(), int64(4), "no more than had a connection to it")
		require.LessOrEqual(t, slow.Load(), int64(4))
		for _, b := range c.Brokers() {
			require.Equal(t, b.NodeID != 1, b.Reachable, "node %d", b.NodeID)
		}

		for _, key := range []kafkawire.APIKey{findCoordinator, metadata, apiVersions} {
			stubs[0].On(key, nil)
		}
		time.Sleep(15 * time.Second)
		stubs[0].Forget()
		for range 30 {
			_, err := use(t.Context(), c, "group")
			require.NoError(t, err)
		}
		require.InDelta(t, 10, stubs[0].Count(findCoordinator), 2, "it serves again")
	})
}

// Where the paused broker is the only one, each caller pays one request timeout at
// most, and it serves as soon as it goes on.
func TestOnlyBrokerPaused(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		c.Start()
		synctest.Wait()
		stub.On(findCoordinator, kafkatest.First(1, kafkatest.Silent))
		begin := time.Now()
		_, err := use(t.Context(), c, "group")
		requireKind(t, err, Timeout)
		require.Equal(t, 10*time.Second, time.Since(begin))
		_, err = use(t.Context(), c, "group")
		require.NoError(t, err)
	})
}

// A broker that answers pings but fails each lookup (a front whose upstream is
// gone) is asked ever more rarely.
func TestBrokerThatFailsEachLookup(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 2, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stubs[0]))
		c.Start()
		synctest.Wait()
		stubs[0].On(findCoordinator, kafkatest.Hangup)
		failed := 0
		for range 1200 { // two minutes
			if _, err := use(t.Context(), c, "group"); err != nil {
				failed++
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.Positive(t, failed)
		require.LessOrEqual(t, failed, 10)

		stubs[0].On(findCoordinator, nil)
		time.Sleep(penaltyCap * 6 / 5)
		stubs[0].Forget()
		for range 20 {
			_, err := use(t.Context(), c, "group")
			require.NoError(t, err)
		}
		require.InDelta(t, 10, stubs[0].Count(findCoordinator), 6, "half of them; a ping or a refresh may have a connection meanwhile")
	})
}

// Four lookups that one loss has ended are one failure, so the broker is used as soon
// as it can be connected to.
func TestLookupsLostTogetherCountOnce(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 2, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stubs...))
		c.Start()
		synctest.Wait()
		stubs[0].On(findCoordinator, kafkatest.Silent)
		var leases []*Lease
		for range 8 {
			leases = append(leases, acquire(t, c))
		}
		var callers sync.WaitGroup
		for _, l := range leases {
			callers.Go(func() {
				defer l.Release()
				_, _ = lookup(t.Context(), l, "group")
			})
		}
		synctest.Wait()
		require.Equal(t, 4, stubs[0].Count(findCoordinator))
		stubs[0].Down()
		stubs[0].Up()
		stubs[0].On(findCoordinator, nil)
		callers.Wait()
		time.Sleep(500 * time.Millisecond)
		stubs[0].Forget()
		for range 20 {
			_, err := use(t.Context(), c, "group")
			require.NoError(t, err)
		}
		require.InDelta(t, 10, stubs[0].Count(findCoordinator), 2)
	})
}

func TestAgainstAFakeCluster(t *testing.T) {
	fake := kafkatest.Fake(t, 3)
	c := newCluster(t, nil, fake.ListenAddrs()[:1])
	c.Start()
	require.Eventually(t, func() bool {
		return len(c.Brokers()) == 3 && !slices.ContainsFunc(c.Brokers(), func(b BrokerStatus) bool { return !b.Reachable })
	}, 5*time.Second, 5*time.Millisecond)
	answeredBy := map[string]bool{}
	for i := range 30 {
		lease := acquire(t, c)
		row, err := lookup(t.Context(), lease, fmt.Sprint("group-", i))
		require.NoError(t, err)
		require.Zero(t, row.ErrorCode)
		answeredBy[lease.Addr()] = true
		lease.Release()
	}
	require.Len(t, answeredBy, 3)
}

// A caller in haste is no proof against a broker.
func TestShortDeadlineDoesNotBlameTheBroker(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.On(findCoordinator, kafkatest.After(50*time.Millisecond, kafkatest.Default))
		c := newCluster(t, network, kafkatest.Addrs(stub))
		lease := acquire(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := lookup(ctx, lease, "group")
		requireKind(t, err, Timeout)
		lease.Release()
		acquire(t, c).Release()
		status := c.Brokers()[0]
		require.True(t, status.Reachable)
		require.Nil(t, status.LastError)
	})
}

// A lost connection takes its idle siblings with it: one caller fails, not four.
func TestLostConnectionResetsItsSiblings(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		leases := make([]*Lease, 4)
		for i := range leases {
			leases[i] = acquire(t, c)
		}
		for _, l := range leases[:3] {
			l.Release()
		}
		require.Equal(t, 3, c.Stats().Idle)
		stub.Disconnect()
		stub.AwaitOpen(0)
		_, err := lookup(t.Context(), leases[3], "group")
		requireKind(t, err, Unreachable)
		require.Zero(t, c.Stats().Idle, "the siblings are given up")
		leases[3].Release()
		for range 10 {
			_, err = use(t.Context(), c, "group")
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { return c.Stats().Retired["reset"] == 3 }, time.Second, time.Millisecond)
	})
}

// A connection in use while its broker lost another is not kept.
func TestConnectionInUseIsNotKeptAfterAReset(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.On(findCoordinator, kafkatest.First(1, kafkatest.Hangup))
		c := newCluster(t, network, kafkatest.Addrs(stub))
		first, second := acquire(t, c), acquire(t, c)
		_, err := lookup(t.Context(), first, "group")
		requireKind(t, err, Unreachable)
		_, err = lookup(t.Context(), second, "group")
		require.NoError(t, err, "it goes on for who holds it")
		second.Release()
		require.EqualValues(t, 1, c.Stats().Retired["reset"])
		require.Zero(t, c.Stats().Idle)
	})
}

// Brokers close what is idle (connections.max.idle.ms). No caller sees it.
func TestIdleCloseIsSilent(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		for range 3 {
			_, err := use(t.Context(), c, "group")
			require.NoError(t, err)
			stub.Disconnect()
			stub.AwaitOpen(0)
			time.Sleep(1100 * time.Millisecond / time.Duration(map[bool]int{true: 10, false: 1}[network == nil]))
		}
		_, err := use(t.Context(), c, "group")
		require.NoError(t, err)
		require.EqualValues(t, 3, c.Stats().Retired["stale"])
		require.Nil(t, c.Brokers()[0].LastError)
	})
}

// A late answer on an idle connection makes it useless.
func TestBytesOnAnIdleConnection(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		idle, wrote := make(chan struct{}), make(chan struct{})
		stub.On(findCoordinator, func(r *kafkatest.Request) {
			kafkatest.Default(r)
			if r.Keys[0] == "twice" {
				<-idle
				kafkatest.Default(r)
				close(wrote)
			}
		})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		_, err := use(t.Context(), c, "twice")
		close(idle)
		require.NoError(t, err)
		<-wrote
		time.Sleep(1100 * time.Millisecond / time.Duration(map[bool]int{true: 10, false: 1}[network == nil]))
		lease := acquire(t, c)
		row, err := lookup(t.Context(), lease, "another")
		require.NoError(t, err)
		require.Equal(t, "another", row.Key)
		require.EqualValues(t, 1, c.Stats().Retired["stale"])
	})
}

func TestIdleAndLifetimeLimits(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		acquire(t, c).Release()
		time.Sleep(3*time.Minute + time.Second)
		acquire(t, c).Release()
		require.EqualValues(t, 1, c.Stats().Retired["idle"])

		begin := time.Now()
		for c.Stats().Retired["lifetime"] == 0 {
			acquire(t, c).Release()
			time.Sleep(time.Minute)
		}
		require.InDelta(t, 57, time.Since(begin).Minutes(), 5)
		require.Equal(t, 3, stub.Accepted())
	})
}

// A connection that is always in use when it comes of age goes on release.
func TestLifetimeIsCheckedOnRelease(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		lease := acquire(t, c)
		time.Sleep(time.Hour)
		lease.Release()
		require.EqualValues(t, 1, c.Stats().Retired["lifetime"])
	})
}

func TestLifetimesAreJittered(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub), func(cfg *Config) {
			cfg.MaxConnectionsPerBroker = 100
			cfg.MaxLifetime = time.Second // of which the jitter is a tenth, and not rounded away
		})
		lives := map[time.Duration]bool{}
		for range 100 {
			cn := acquire(t, c).conn
			life := time.Duration(cn.expires - cn.created)
			require.True(t, 900*time.Millisecond <= life && life <= time.Second, life)
			lives[life] = true
		}
		require.Greater(t, len(lives), 90)
	})
}

func TestPanicInDialIsAnError(t *testing.T) {
	c := newCluster(t, nil, []string{"broker:9092"}, func(cfg *Config) {
		cfg.Dial = func(context.Context, string, string) (net.Conn, error) { panic("at the disco") }
	})
	_, err := c.Acquire(t.Context(), 0)
	requireKind(t, err, Unreachable, "broker:9092", "panic: at the disco")
}

func TestMisuseOfALeasePanics(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		lease := acquire(t, newCluster(t, network, kafkatest.Addrs(stub)))
		lease.Release()
		require.PanicsWithValue(t, "pool: Release on a lease that was released before", lease.Release)
		require.PanicsWithValue(t, "pool: Exchange on a lease that was released before", func() {
			lookup(t.Context(), lease, "group")
		})
	})
}

func TestCloseFailsThoseWhoWait(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub), oneConnection)
		lease := acquire(t, c)
		waiting := make(chan error)
		go func() {
			_, err := c.Acquire(t.Context(), 0)
			waiting <- err
		}()
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- c.Close(t.Context()) }()
		requireKind(t, <-waiting, Closed)
		_, err := c.Acquire(t.Context(), 0)
		requireKind(t, err, Closed)

		_, err = lookup(t.Context(), lease, "group")
		require.NoError(t, err, "who has a connection may end what was begun")
		synctest.Wait()
		select {
		case <-closed:
			t.Fatal("Close did not wait for the lease")
		default:
		}
		lease.Release()
		require.NoError(t, <-closed)
		require.NoError(t, c.Close(t.Context()), "closing twice is fine")
		c.Start() // too late, and harmless
	})
}

func TestCloseByForce(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.On(findCoordinator, kafkatest.Silent)
		c := newCluster(t, network, kafkatest.Addrs(stub))
		lease := acquire(t, c)
		failed := make(chan error)
		go func() {
			_, err := lookup(t.Context(), lease, "group")
			failed <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		err := c.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "1 connections still open")
		require.Equal(t, time.Second+closeGrace, time.Since(begin))
		requireKind(t, <-failed, Closed)
		lease.Release()
	})
}

func TestCloseEndsDials(t *testing.T) {
	for name, hang := range map[string]func(*kafkatest.Network, *kafkatest.Stub){
		"in the dial":    func(n *kafkatest.Network, s *kafkatest.Stub) { n.SetSilent(s.Addr(), true) },
		"in negotiation": func(_ *kafkatest.Network, s *kafkatest.Stub) { s.On(apiVersions, kafkatest.Silent) },
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
				hang(network, stub)
				c := newCluster(t, network, kafkatest.Addrs(stub))
				c.Start()
				waiting := make(chan error)
				go func() {
					_, err := c.Acquire(t.Context(), 0)
					waiting <- err
				}()
				synctest.Wait()
				begin := time.Now()
				require.NoError(t, c.Close(t.Context()))
				require.Zero(t, time.Since(begin))
				requireKind(t, <-waiting, Closed)
				require.EqualValues(t, 1, c.Stats().Dials["closed"])
			})
		})
	}
}

// Everything at once, for the race detector: callers that leave, brokers that come
// and go, connections that break.
func TestCountsHoldUnderChaos(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{Network: network})
		unit := time.Millisecond
		if network == nil {
			unit *= 10 // a busy machine may not get through anything within 40 ms
		}
		c := newCluster(t, network, kafkatest.Addrs(stubs[0]), func(cfg *Config) {
			cfg.MaxConnectionsPerBroker = 2
			cfg.RequestTimeout = 50 * unit
			cfg.AcquireTimeout = 50 * unit
			cfg.MaxLifetime = 20 * unit
			cfg.MaxWaiters = 20
		})
		c.Start()
		for i, s := range stubs {
			var n atomic.Int64
			s.On(findCoordinator, func(r *kafkatest.Request) {
				switch n.Add(1) % 20 {
				case int64(i):
					r.Conn.Close()
				case int64(i + 3):
					r.Conn.Reset()
				case int64(i + 6): // silence
				default:
					kafkatest.Default(r)
				}
			})
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		var callers sync.WaitGroup
		var good atomic.Int64
		for i := range 30 {
			callers.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					patience, cancel := context.WithTimeout(ctx, time.Duration(1+(i*n)%40)*unit)
					if _, err := use(patience, c, "group"); err == nil {
						good.Add(1)
					}
					cancel()
					time.Sleep(unit / 10) // those who are refused at once would leave the others no processor
				}
			})
		}
		callers.Go(func() {
			for ctx.Err() == nil {
				stubs[1].Down()
				time.Sleep(30 * time.Millisecond)
				stubs[1].Up()
				time.Sleep(30 * time.Millisecond)
			}
		})
		callers.Wait()
		require.Positive(t, good.Load())
	})
}

// A connection whose dial ends in the moment of a reset goes with the others. Were it
// counted as idle afterwards, whoever takes it would dial in its stead while all wait.
func TestResetTakesWhatIsNotCountedYet(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub), withoutDiscovery)
		first, second := acquire(t, c), acquire(t, c)
		second.Release()
		b := first.broker
		c.mu.Lock()
		c.dial(b)
		for b.pool.Stat().IdleResources() < 2 { // its end waits for the lock
			runtime.Gosched() // time does not pass while a mutex is waited for
		}
		c.reset(b, first.conn)
		c.mu.Unlock()
		synctest.Wait()

		c.mu.Lock()
		idle, dialing := b.idle, b.dialing
		c.mu.Unlock()
		require.Zero(t, dialing)
		require.Zero(t, idle)
		require.Zero(t, b.pool.Stat().IdleResources())
		require.EqualValues(t, 2, c.Stats().Retired["reset"])
		_, err := use(t.Context(), c, "group")
		require.NoError(t, err)
	})
}

// A broker that ends every connection with its first lookup is not dialled for each lookup.
func TestBrokerThatServesNoLookup(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.On(findCoordinator, func(r *kafkatest.Request) { r.Conn.Close() })
		c := newCluster(t, network, kafkatest.Addrs(stub))
		calls := 0
		for began := time.Now(); time.Since(began) < 20*time.Second; calls++ {
			_, err := use(t.Context(), c, "group")
			require.Equal(t, Unreachable, KindOf(err))
			require.ErrorContains(t, err, "the broker closed the connection instead of answering")
			time.Sleep(5 * time.Millisecond)
		}
		require.Greater(t, calls, 1_000)
		require.Less(t, stub.Accepted(), 60, "dials, for %d calls", calls)

		stub.On(findCoordinator, nil)
		time.Sleep(2 * time.Second)
		_, err := use(t.Context(), c, "group")
		require.NoError(t, err)
	})
}
