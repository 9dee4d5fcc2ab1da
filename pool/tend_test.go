package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

func TestStartsWithKafkaDown(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.Down()
		logger, log := newLogged()
		c := newCluster(t, network, kafkatest.Addrs(stub), func(cfg *Config) { cfg.Logger = logger })
		c.Start()
		c.Start()
		time.Sleep(time.Minute)
		require.False(t, c.Ready())
		require.False(t, c.Brokers()[0].Reachable)
		require.Greater(t, network.Dials(stub.Addr()), 40, "it keeps trying")
		require.Less(t, network.Dials(stub.Addr()), 80, "about once a second")
		require.Equal(t, "broker cannot be connected to", <-log.messages)
		require.Empty(t, log.messages, "what goes on is not logged again and again")

		stub.Up()
		time.Sleep(1300 * time.Millisecond)
		require.True(t, c.Ready())
		require.True(t, c.Brokers()[0].Reachable)
		require.Equal(t, "broker is reachable again", <-log.messages)
		require.NotNil(t, c.Brokers()[0].LastError, "it stays for who looks")
	})
}

func TestReady(t *testing.T) {
	for name, adjust := range map[string]func(*Config){"discovery": func(*Config) {}, "no discovery": withoutDiscovery} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
				c := newCluster(t, network, kafkatest.Addrs(stub), adjust)
				require.False(t, c.Ready(), "before anything has answered")
				c.Start()
				for second := range 1200 { // pings keep it so without traffic
					if second == int(unsettledFor/time.Second) {
						stub.Forget() // the view was refreshed more often until now
					}
					synctest.Wait()
					require.True(t, c.Ready())
					time.Sleep(time.Second)
				}
				require.Equal(t, 1, network.Dials(stub.Addr()), "the connection that is pinged does not idle out")
				require.InDelta(t, 120, stub.Count(metadata), 30)

				stub.Down()
				time.Sleep(9 * time.Second)
				require.True(t, c.Ready(), "a restart does not matter")
				time.Sleep(7 * time.Second)
				require.False(t, c.Ready())
				stub.Up()
				time.Sleep(1300 * time.Millisecond)
				require.True(t, c.Ready())
			})
		})
	}
}

// The first lookups find connections that are ready.
func TestKeepsOneConnectionWarm(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stubs[0]))
		c.Start()
		synctest.Wait()
		require.Len(t, c.Brokers(), 3)
		for _, b := range c.Brokers() {
			require.True(t, b.Reachable)
			require.Equal(t, 1, b.Open)
		}
		leases := []*Lease{acquire(t, c), acquire(t, c), acquire(t, c)}
		for _, l := range leases {
			l.Release()
		}
		for _, s := range stubs {
			require.Equal(t, 1, s.Accepted())
		}

		stubs[1].Disconnect()
		time.Sleep(7 * time.Second) // it is noticed, and made good
		for _, s := range stubs {
			require.Equal(t, 1, s.Open())
		}
	})
}

// Pings take no connection from callers: where all are busy, traffic is the sign of life.
func TestNoPingWhereAllIsBusy(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub), withoutDiscovery, oneConnection)
		c.Start()
		synctest.Wait()
		lease := acquire(t, c)
		stub.Forget()
		time.Sleep(20 * time.Second)
		require.Zero(t, stub.Count(metadata)+stub.Count(apiVersions))
		_, err := lookup(t.Context(), lease, "group")
		require.NoError(t, err)
	})
}

// A broker that is paused is found by the ping, before callers are.
func TestPingFindsAPausedBroker(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 2, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stubs[0]))
		c.Start()
		synctest.Wait()
		stubs[0].On(metadata, kafkatest.Silent)
		time.Sleep(7 * time.Second)
		for _, b := range c.Brokers() {
			require.Equal(t, b.NodeID == 2, b.Reachable, "node %d", b.NodeID)
		}
		require.Equal(t, stubs[1].Addr(), acquire(t, c).Addr())
		require.Equal(t, stubs[1].Addr(), acquire(t, c).Addr())
	})
}

// Connections beyond the warm one go when they are not used.
func TestIdleConnectionsAreClosed(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		c.Start()
		leases := make([]*Lease, 4)
		for i := range leases {
			leases[i] = acquire(t, c)
		}
		for _, l := range leases {
			l.Release()
		}
		require.Equal(t, 4, stub.Open())
		time.Sleep(4 * time.Minute)
		require.Equal(t, 1, stub.Open())
		require.EqualValues(t, 3, c.Stats().Retired["idle"])
	})
}

// A broker without Metadata (a proxy, perhaps) is pinged with ApiVersions, and serves.
func TestBrokerWithoutMetadata(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.RemoveAPI(metadata)
		c := newCluster(t, network, kafkatest.Addrs(stub), withoutDiscovery)
		c.Start()
		for range 60 {
			time.Sleep(time.Second)
			require.True(t, c.Ready())
		}
		require.Zero(t, stub.Count(metadata))
		require.Greater(t, stub.Count(apiVersions), 8)
		require.Equal(t, 1, stub.Accepted())
	})
}

// Kafka 0.8 and 0.9 have no cheaper sign of life than Metadata for all topics.
func TestOldBrokerIsPinged(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Release: "0.8.2.2"})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		c.Start()
		time.Sleep(time.Minute)
		require.True(t, c.Ready())
		require.Greater(t, stub.Count(metadata), 8)
		status := c.Brokers()[0]
		require.EqualValues(t, 0, *status.FindCoordinator)
		require.Equal(t, kafkawire.VersionRange{Min: -1, Max: -1}, *status.APIVersions)
	})
}
