package pool

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

// brokersByNode are the brokers' addresses by node id, as the cluster shows them.
func brokersByNode(c *Cluster) map[int32]string {
	m := map[int32]string{}
	for _, b := range c.Brokers() {
		m[b.NodeID] = fmt.Sprintf("%s:%d", b.Host, b.Port)
	}
	return m
}

func TestDiscovery(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{Network: network})
		withRack := make([]kafkawire.MetadataBroker, 3)
		for i, s := range stubs {
			withRack[i] = s.Broker()
			withRack[i].Rack = fmt.Sprintf("rack-%d", i)
		}
		stubs[0].SetBrokers(withRack...)
		c := newCluster(t, network, kafkatest.Addrs(stubs[0]))
		require.Equal(t, map[int32]string{-1: stubs[0].Addr()}, brokersByNode(c))
		c.Start()
		synctest.Wait()
		require.Equal(t, map[int32]string{1: stubs[0].Addr(), 2: stubs[1].Addr(), 3: stubs[2].Addr()}, brokersByNode(c),
			"the bootstrap address is the same endpoint as node 1")
		for _, b := range c.Brokers() {
			require.Equal(t, fmt.Sprintf("rack-%d", b.NodeID-1), b.Rack)
			require.EqualValues(t, 6, *b.FindCoordinator)
			require.Equal(t, kafkawire.VersionRange{Min: 0, Max: 6}, *b.FindCoordinatorRange)
			require.NotNil(t, b.APIVersions)
			require.Equal(t, b.Open, b.Idle+b.InUse)
		}
	})
}

// What is named without an address that can be one, or without an id, is no broker.
func TestNamedWithoutAddress(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		named := []kafkawire.MetadataBroker{stub.Broker(), {NodeID: 70, Host: "größe.example", Port: 9092}, {NodeID: 71, Host: "fe80::1%eth0", Port: 9092},
			{NodeID: 80, Host: "h", Port: 0}, {NodeID: 81, Host: "h", Port: 70_000}, {NodeID: -1, Host: "h", Port: 9092}, {NodeID: -2, Host: "h", Port: 9093}}
		for i, host := range []string{"", "b\xff", strings.Repeat("h", 256), "two words", "two\nlines", "a\u00a0b", "\x00", "\x1b[31m", "\u202e1.0.0.721"} {
			named = append(named, kafkawire.MetadataBroker{NodeID: int32(90 + i), Host: host, Port: 9092})
		}
		stub.SetBrokers(named...)
		c := newCluster(t, network, kafkatest.Addrs(stub))
		c.Start()
		synctest.Wait()
		require.Equal(t, map[int32]string{stub.Broker().NodeID: stub.Addr(), 70: "größe.example:9092", 71: "fe80::1%eth0:9092"}, brokersByNode(c))
	})
}

func TestWithoutDiscovery(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stubs[:2]...), withoutDiscovery)
		c.Start()
		time.Sleep(time.Minute)
		require.Len(t, c.Brokers(), 2)
		require.Zero(t, stubs[2].Accepted())
		require.Equal(t, 1, stubs[0].Open())
		require.Equal(t, 1, stubs[1].Open())
	})
}

// The address of a load balancer, behind which the brokers are found: once they
// are, it is left alone, and shown as what it is: an address of no known broker.
func TestBootstrapAddressThatIsNoBroker(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{Network: network})
		front := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Addr: "front:9092"})
		front.SetBrokers(stubs[0].Broker(), stubs[1].Broker(), stubs[2].Broker())
		c := newCluster(t, network, kafkatest.Addrs(front))
		c.Start()
		synctest.Wait()
		for range 30 {
			_, err := use(t.Context(), c, "group")
			require.NoError(t, err)
		}
		require.Zero(t, front.Count(findCoordinator))
		require.Equal(t, 3, c.Known(), "the front is none of those to ask")
		time.Sleep(4 * time.Minute)
		require.Zero(t, front.Open())
		require.Equal(t, map[int32]string{-1: "front:9092", 1: "broker-1:9092", 2: "broker-2:9092", 3: "broker-3:9092"}, brokersByNode(c))
	})
}

// Advertised addresses that only the cluster's own network knows: the bootstrap
// address goes on serving.
func TestDiscoveredAddressesThatCannotBeReached(t *testing.T) {
	for name, silent := range map[string]bool{"refused": false, "swallowed": true} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				front := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Addr: "front:9092"})
				front.SetBrokers(kafkawire.MetadataBroker{NodeID: 1, Host: "internal-1", Port: 9092},
					kafkawire.MetadataBroker{NodeID: 2, Host: "internal-2", Port: 9092})
				network.SetSilent("internal-1:9092", silent)
				network.SetSilent("internal-2:9092", silent)
				c := newCluster(t, network, kafkatest.Addrs(front))
				c.Start()
				synctest.Wait()
				for range 100 {
					begin := time.Now()
					addr, err := use(t.Context(), c, "group")
					require.NoError(t, err)
					require.Equal(t, front.Addr(), addr)
					require.LessOrEqual(t, time.Since(begin), hedgeAfter)
					time.Sleep(time.Second)
				}
				require.True(t, c.Ready())
				require.Less(t, network.Dials("internal-1:9092"), 130)
				require.Contains(t, brokersByNode(c), int32(-1), "it serves, so it is shown")
				require.Equal(t, 3, c.Known())
			})
		})
	}
}

// Where the bootstrap addresses are what serves, one that failed is connected to again
// although another serves.
func TestBootstrapAddressThatComesBack(t *testing.T) {
	for name, set := range map[string]func(*kafkatest.Stub){
		"the advertised cannot be reached": func(s *kafkatest.Stub) {
			s.SetBrokers(kafkawire.MetadataBroker{NodeID: 1, Host: "internal-1", Port: 9092})
		},
		"no Metadata": func(s *kafkatest.Stub) { s.RemoveAPI(metadata) },
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stubs := kafkatest.NewStubs(t, 2, kafkatest.StubConfig{Network: network})
				set(stubs[0])
				set(stubs[1])
				c := newCluster(t, network, kafkatest.Addrs(stubs...))
				c.Start()
				time.Sleep(10 * time.Second)
				for _, s := range stubs {
					s.Down()
					time.Sleep(5 * time.Second)
					s.Up()
					time.Sleep(2 * time.Second)
					require.Positive(t, stubs[0].Open())
					require.Positive(t, stubs[1].Open())
				}
				require.Less(t, network.Dials(stubs[0].Addr())+network.Dials(stubs[1].Addr()), 30)
			})
		})
	}
}

// A broker that leaves the cluster is dialled no longer: it may come back, and would be
// dialled by two at once.
func TestDialsEndWhenTheBrokerLeaves(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		front := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Addr: "front:9092"})
		front.SetBrokers(front.Broker(), kafkawire.MetadataBroker{NodeID: 2, Host: "internal", Port: 9092})
		network.SetSilent("internal:9092", true)
		c := newCluster(t, network, kafkatest.Addrs(front), func(cfg *Config) { cfg.DialTimeout = time.Hour })
		c.Start()
		synctest.Wait()
		require.Equal(t, 1, c.Stats().Dialing)
		front.SetBrokers(front.Broker())
		time.Sleep(40 * time.Second)
		require.Zero(t, c.Stats().Dialing)
		require.Equal(t, 1, network.Dials("internal:9092"))
	})
}

func TestBrokersComeAndGo(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{Network: network})
		for _, s := range stubs {
			s.SetBrokers(stubs[0].Broker(), stubs[1].Broker())
		}
		c := newCluster(t, network, kafkatest.Addrs(stubs[0]))
		c.Start()
		synctest.Wait()
		held := map[string]*Lease{}
		for range 2 {
			l := acquire(t, c)
			held[l.Addr()] = l
		}
		for _, s := range stubs {
			s.SetBrokers(stubs[0].Broker(), stubs[2].Broker())
		}
		time.Sleep(40 * time.Second)
		require.Equal(t, map[int32]string{1: stubs[0].Addr(), 3: stubs[2].Addr()}, brokersByNode(c))
		require.Equal(t, 1, stubs[2].Open())

		gone := held[stubs[1].Addr()]
		_, err := lookup(t.Context(), gone, "group")
		require.NoError(t, err, "who holds a connection may end what was begun")
		gone.Release()
		synctest.Wait()
		require.Zero(t, stubs[1].Open())
		// The one that was held, and one more where the refresh has made its own to this broker.
		require.EqualValues(t, stubs[1].Accepted(), c.Stats().Retired["removed"])
		for range 30 {
			_, err := use(t.Context(), c, "group")
			require.NoError(t, err)
		}
		require.Equal(t, 1, stubs[1].Count(findCoordinator))
	})
}

// Trouble refreshes the view at once, not after half a minute.
func TestTroubleRefreshesTheView(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{Network: network})
		for _, s := range stubs {
			s.SetBrokers(stubs[0].Broker(), stubs[1].Broker())
		}
		c := newCluster(t, network, kafkatest.Addrs(stubs[0]))
		c.Start()
		time.Sleep(2 * time.Second)
		for _, s := range stubs {
			s.SetBrokers(stubs[0].Broker(), stubs[2].Broker())
		}
		leases := []*Lease{acquire(t, c), acquire(t, c)}
		stubs[1].Down()
		for _, l := range leases {
			lookup(t.Context(), l, "group")
			l.Release()
		}
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, map[int32]string{1: stubs[0].Addr(), 3: stubs[2].Addr()}, brokersByNode(c))
	})
}

// A broker that was restarted is used again within seconds of its return: while it was
// away Metadata did not name it.
func TestBrokerThatLeftIsLookedForOften(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stubs...))
		c.Start()
		time.Sleep(10 * time.Second)
		for _, s := range stubs[:2] {
			s.SetBrokers(stubs[0].Broker(), stubs[1].Broker())
		}
		stubs[2].Down()
		time.Sleep(40 * time.Second)
		require.Equal(t, map[int32]string{-1: "broker-3:9092", 1: "broker-1:9092", 2: "broker-2:9092"}, brokersByNode(c),
			"a configured address stays in sight")

		stubs[2].Up()
		for _, s := range stubs {
			s.SetBrokers(stubs[0].Broker(), stubs[1].Broker(), stubs[2].Broker())
		}
		time.Sleep(refreshUnsettled * 6 / 5)
		require.Len(t, brokersByNode(c), 3)
		require.Equal(t, 1, stubs[2].Open())

		time.Sleep(unsettledFor)
		asked := stubs[0].Count(metadata) + stubs[1].Count(metadata) + stubs[2].Count(metadata)
		time.Sleep(5 * time.Minute)
		more := stubs[0].Count(metadata) + stubs[1].Count(metadata) + stubs[2].Count(metadata) - asked
		pings := 3 * int(5*time.Minute/pingInterval)
		require.Less(t, more, pings+20, "back to once in half a minute")
	})
}

// A broker that is away when the first view is taken is used within seconds of its
// return, whether its address was given or not.
func TestBrokerThatIsAwayAtFirstIsLookedForOften(t *testing.T) {
	for _, given := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d addresses given", given), func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stubs := kafkatest.NewStubs(t, 2, kafkatest.StubConfig{Network: network})
				stubs[0].SetBrokers(stubs[0].Broker())
				stubs[1].Down()
				c := newCluster(t, network, kafkatest.Addrs(stubs[:given]...))
				c.Start()
				time.Sleep(time.Minute)
				require.Equal(t, stubs[0].Addr(), brokersByNode(c)[1])

				stubs[0].SetBrokers(stubs[0].Broker(), stubs[1].Broker())
				stubs[1].Up()
				time.Sleep(refreshUnsettled * 6 / 5)
				require.Equal(t, map[int32]string{1: stubs[0].Addr(), 2: stubs[1].Addr()}, brokersByNode(c))
				require.Equal(t, 1, stubs[1].Open())
			})
		})
	}
}

// A cluster that was away as a whole, or not there yet, comes one broker after the other:
// the first one names itself alone.
func TestClusterThatComesBackIsLookedAtOften(t *testing.T) {
	for _, met := range []bool{true, false} {
		t.Run(fmt.Sprintf("met before %t", met), func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{Network: network})
				c := newCluster(t, network, kafkatest.Addrs(stubs...))
				if met {
					c.Start()
					time.Sleep(10 * time.Second)
				}
				for _, s := range stubs {
					s.Down()
				}
				c.Start()
				time.Sleep(2 * rebootstrapAfter)

				stubs[0].SetBrokers(stubs[0].Broker())
				stubs[0].Up()
				time.Sleep(2 * time.Second)
				require.Equal(t, stubs[0].Addr(), brokersByNode(c)[1])
				stubs[0].SetBrokers(stubs[0].Broker(), stubs[1].Broker(), stubs[2].Broker())
				stubs[1].Up()
				stubs[2].Up()
				time.Sleep(refreshUnsettled * 6 / 5)
				require.Len(t, brokersByNode(c), 3)
				require.Equal(t, 1, stubs[1].Open())
				require.Equal(t, 1, stubs[2].Open())
			})
		})
	}
}

// A broker that has just started names none; Kafka 0.8.2 does so until it has a topic.
func TestMetadataWithoutBrokersIsAskedForAgainSoon(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stubs := kafkatest.NewStubs(t, 2, kafkatest.StubConfig{Network: network})
		stubs[0].SetBrokers()
		c := newCluster(t, network, kafkatest.Addrs(stubs[0]))
		c.Start()
		time.Sleep(time.Second)
		require.Equal(t, map[int32]string{-1: stubs[0].Addr()}, brokersByNode(c))
		stubs[0].SetBrokers(stubs[0].Broker(), stubs[1].Broker())
		time.Sleep(refreshUnsettled * 6 / 5)
		require.Len(t, brokersByNode(c), 2)
	})
}

func TestMetadataThatMakesNoSense(t *testing.T) {
	for name, brokers := range map[string][]kafkawire.MetadataBroker{
		"none":    {},
		"no host": {{NodeID: 7, Port: 9092}},
		"no port": {{NodeID: 7, Host: "a"}, {NodeID: 8, Host: "b", Port: -1}, {NodeID: 9, Host: "c", Port: 70000}},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stubs := kafkatest.NewStubs(t, 2, kafkatest.StubConfig{Network: network})
				c := newCluster(t, network, kafkatest.Addrs(stubs[0]))
				c.Start()
				synctest.Wait()
				for _, s := range stubs {
					s.SetBrokers(brokers...)
				}
				time.Sleep(2 * time.Minute)
				require.Len(t, c.Brokers(), 2, "what was known holds")
			})
		})
	}
}

func TestMetadataWithEndlessBrokers(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		brokers := make([]kafkawire.MetadataBroker, 3*maxBrokers)
		for i := range brokers {
			brokers[i] = kafkawire.MetadataBroker{NodeID: int32(i), Host: fmt.Sprintf("b%d", i), Port: 9092}
			network.SetSilent(fmt.Sprintf("b%d:9092", i), true)
		}
		stub.SetBrokers(brokers...)
		c := newCluster(t, network, kafkatest.Addrs(stub))
		c.Start()
		synctest.Wait()
		require.LessOrEqual(t, len(c.Brokers()), maxBrokers+1)
		require.LessOrEqual(t, c.Stats().Dialing, maxBackgroundDials)
	})
}

// Addresses that refuse at once, and are others in each answer, do not make us dial thousands
// a second; a real cluster of many brokers is connected to soon all the same.
func TestMetadataDoesNotSetThePace(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		round := 0
		stub.On(kafkawire.APIKeyMetadata, func(r *kafkatest.Request) {
			round++
			answer := r.DefaultAnswer().(*kafkawire.MetadataResponse)
			for i := range 1000 {
				answer.Brokers = append(answer.Brokers, kafkawire.MetadataBroker{NodeID: int32(i + 10), Host: fmt.Sprintf("b%d-%d", round, i), Port: 9092})
			}
			r.Reply(answer)
		})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		c.Start()
		time.Sleep(10 * time.Second)
		refused := c.Stats().Dials["unreachable"]
		require.Greater(t, refused, int64(1000))
		require.LessOrEqual(t, refused, int64(maxBackgroundDials+10*time.Second/backgroundDialEvery))
	})
}

// The cluster moved: nothing that was discovered answers any more, and the
// bootstrap name stands for new brokers.
func TestClusterThatMoved(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		front := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Addr: "front:9092"})
		old := kafkatest.NewStubs(t, 2, kafkatest.StubConfig{Network: network})
		front.SetBrokers(old[0].Broker(), old[1].Broker())
		logger, log := newLogged()
		c := newCluster(t, network, kafkatest.Addrs(front), func(cfg *Config) { cfg.Logger = logger })
		c.Start()
		synctest.Wait()
		require.Len(t, brokersByNode(c), 3) // and the front, whose connection is open yet

		front.Down()
		for _, s := range old {
			s.Down()
		}
		time.Sleep(10 * time.Second)
		require.Contains(t, brokersByNode(c), int32(1), "a short loss changes nothing")
		time.Sleep(10 * time.Second)
		require.Equal(t, map[int32]string{-1: front.Addr()}, brokersByNode(c))

		moved := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Node: 9})
		front.SetBrokers(moved.Broker())
		front.Up()
		time.Sleep(2 * time.Second)
		require.Equal(t, moved.Addr(), brokersByNode(c)[9])
		require.Equal(t, moved.Addr(), acquire(t, c).Addr())
		var found bool
		for len(log.messages) > 0 {
			if <-log.messages == "starting over from the bootstrap addresses" {
				found = true
			}
		}
		require.True(t, found)
	})
}

// Code 129 (KIP-1102, KIP-1242): the address leads to another cluster.
func TestRebootstrapRequired(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		front := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Addr: "front:9092"})
		stubs := kafkatest.NewStubs(t, 2, kafkatest.StubConfig{Network: network})
		front.SetBrokers(stubs[0].Broker(), stubs[1].Broker())
		c := newCluster(t, network, kafkatest.Addrs(front))
		c.Start()
		synctest.Wait()
		front.SetBrokers(stubs[1].Broker())
		stubs[0].On(apiVersions, func(r *kafkatest.Request) {
			r.Reply(&kafkawire.APIVersionsResponse{ErrorCode: kafkawire.ErrRebootstrapRequired})
		})
		stubs[0].Disconnect()
		time.Sleep(8 * time.Second) // the loss is noticed, the next dial is told
		require.Equal(t, stubs[1].Addr(), brokersByNode(c)[2])
		require.NotContains(t, brokersByNode(c), int32(1))
	})
}

// One front for all brokers that answers with itself, as proxies do.
func TestBrokerWithoutMetadataIsStillUsed(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.RemoveAPI(metadata)
		c := newCluster(t, network, kafkatest.Addrs(stub))
		c.Start()
		for range 30 {
			time.Sleep(time.Second)
			_, err := use(t.Context(), c, "group")
			require.NoError(t, err)
		}
		require.True(t, c.Ready())
		require.Zero(t, stub.Count(metadata))
		require.Equal(t, 1, stub.Accepted())
	})
}

// A broker that negotiates and then fails every Metadata costs a connection each time;
// the pause between the refreshes grows all the same.
func TestFailingMetadataIsNoRedialStorm(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		c.Start()
		time.Sleep(time.Second)
		stub.On(metadata, kafkatest.After(time.Millisecond, kafkatest.Hangup))
		stub.Disconnect()
		before := stub.Accepted()
		time.Sleep(time.Minute)
		require.Less(t, stub.Accepted()-before, 200, "connections in a minute")
	})
}

// Every trouble asks for a refresh; while refreshes fail too they keep their pauses.
func TestFailingLookupsDoNotHurryFailingRefreshes(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		c.Start()
		time.Sleep(10 * time.Second)
		stub.On(metadata, kafkatest.After(time.Millisecond, kafkatest.Hangup))
		stub.On(findCoordinator, kafkatest.After(time.Millisecond, kafkatest.Hangup))
		stub.Forget()
		const lookups = 500
		for range lookups {
			_, err := use(t.Context(), c, "group")
			require.Error(t, err)
			time.Sleep(20 * time.Millisecond)
		}
		require.Less(t, stub.Count(metadata), 40, "in ten seconds")
	})
}
