package pool

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
)

// 50 callers for five seconds, while sessions last one second and each step of an
// authentication takes 300 ms: a session never ends under a lookup, and none hangs.
func TestSessionsAreRenewedUnderLoad(t *testing.T) {
	for mechanism, callers := range map[string]int{"PLAIN": 50, "OAUTHBEARER": 50, "SCRAM-SHA-256": 4} {
		t.Run(mechanism, func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
				session := time.Second
				if mechanism == "SCRAM-SHA-256" {
					session = 2 * time.Second // two steps and the handshake fit
				}
				sasl := &kafkatest.SASL{Users: testUsers(), Session: session, Takes: 300 * time.Millisecond}
				stub.RequireSASL(sasl)
				stub.On(findCoordinator, kafkatest.After(2*time.Millisecond, kafkatest.Default))
				c := newCluster(t, network, kafkatest.Addrs(stub), good(mechanism))
				c.Start()
				synctest.Wait()
				end := time.Now().Add(5 * time.Second)
				var asked atomic.Int64
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for time.Now().Before(end) {
							lease, err := c.Acquire(t.Context(), 0)
							if err != nil {
								t.Error(err)
								return
							}
							row, err := lookup(t.Context(), lease, "group")
							lease.Release()
							if err != nil || row.ErrorCode != 0 {
								t.Error(err, row.ErrorCode)
								return
							}
							asked.Add(1)
							time.Sleep(time.Millisecond)
						}
					})
				}
				all.Wait()
				require.Empty(t, sasl.Violations())
				require.Less(t, time.Since(end), 2*time.Second)
				require.Greater(t, asked.Load(), int64(1000))
				require.LessOrEqual(t, stub.Accepted(), 4)
				s := c.Stats()
				require.GreaterOrEqual(t, s.Renewals, int64(3), "three sessions and more")
				require.Zero(t, s.FailedRenewals)
				in := c.Brokers()[0].RenewIn
				require.NotNil(t, in)
				require.LessOrEqual(t, *in, session)
			})
		})
	}
}

// Nobody asks, and the idle connection is renewed in time all the same.
func TestIdleSessionsAreRenewed(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		sasl := &kafkatest.SASL{Users: testUsers(), Session: 3 * time.Second}
		stub.RequireSASL(sasl)
		c := newCluster(t, network, kafkatest.Addrs(stub), good("SCRAM-SHA-512"))
		c.Start()
		time.Sleep(time.Minute)
		require.Empty(t, sasl.Violations())
		require.Equal(t, 1, stub.Accepted())
		require.InDelta(t, 22, c.Stats().Renewals, 3)
		began := sasl.Began()
		for i := range began[1:] {
			require.InDelta(t, 2.7, began[i+1].Sub(began[i]).Seconds(), 0.2, "85 to 95 % of the session")
		}
	})
}

// Without Start there is no background: the next caller meets the old session.
func TestSessionThatEndedWhileIdle(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		sasl := &kafkatest.SASL{Users: testUsers(), Session: 10 * time.Second}
		stub.RequireSASL(sasl)
		c := newCluster(t, network, kafkatest.Addrs(stub), good("PLAIN"))
		for _, pause := range []time.Duration{0, 9600 * time.Millisecond, 11 * time.Second} {
			time.Sleep(pause)
			_, err := use(t.Context(), c, "group")
			require.NoError(t, err)
		}
		require.Empty(t, sasl.Violations())
		require.EqualValues(t, 1, c.Stats().Renewals)
		require.EqualValues(t, 1, c.Stats().Retired["session"])
		require.Equal(t, 2, stub.Accepted())
	})
}

// A broker may forget the limit that it named, or name nonsense.
func TestOddLifetimes(t *testing.T) {
	for says, most := range map[int64]int{1: 14, 300: 14, -1: 1, -1 << 63: 1, 1<<63 - 1: 1} {
		t.Run(fmt.Sprint(says), func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
				sasl := &kafkatest.SASL{Users: testUsers(), Says: says}
				stub.RequireSASL(sasl)
				c := newCluster(t, network, kafkatest.Addrs(stub), good("PLAIN"), oneConnection)
				c.Start()
				for range 6000 {
					_, err := use(t.Context(), c, "group")
					require.NoError(t, err)
					time.Sleep(10 * time.Millisecond)
				}
				require.LessOrEqual(t, len(sasl.Began()), most, "in a minute")
			})
		})
	}
}

// The password was changed, then the user: the connection is replaced, and callers
// see nothing as long as a new one can be made.
func TestRenewalThatIsRefused(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		sasl := &kafkatest.SASL{Users: map[string]string{"token-of-alice": "alice", "token-of-bob": "bob"}, Session: 10 * time.Second}
		stub.RequireSASL(sasl)
		var token atomic.Value
		token.Store("token-of-alice")
		c := newCluster(t, network, kafkatest.Addrs(stub), oneConnection, func(cfg *Config) {
			cfg.SASL = &SASL{Mechanism: MechanismOAuthBearer, Credential: func(context.Context) (string, error) { return token.Load().(string), nil }}
		})
		c.Start()
		for second := range 60 {
			if second == 5 {
				token.Store("token-of-bob") // "Cannot change principals"
			}
			_, err := use(t.Context(), c, "group")
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		require.Equal(t, 2, stub.Accepted())
		require.EqualValues(t, 1, c.Stats().FailedRenewals)

		sasl.Change(func(s *kafkatest.SASL) { s.Users = nil })
		time.Sleep(11 * time.Second)
		_, err := use(t.Context(), c, "group")
		requireKind(t, err, SASLFailed, "refused the token")
	})
}

// A token with little time left makes a short session; the file then has a new one.
func TestTokenIsReadAtEachAuthentication(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		sasl := &kafkatest.SASL{Users: map[string]string{"old": "svc", "new": "svc"}, Session: 5 * time.Second}
		stub.RequireSASL(sasl)
		token := make(chan string, 3)
		token <- "old"
		token <- "new"
		c := newCluster(t, network, kafkatest.Addrs(stub), oneConnection, func(cfg *Config) {
			cfg.SASL = &SASL{Mechanism: MechanismOAuthBearer, Credential: func(context.Context) (string, error) { return <-token, nil }}
		})
		c.Start()
		time.Sleep(time.Second)
		sasl.Change(func(s *kafkatest.SASL) { s.Session = time.Hour })
		time.Sleep(30 * time.Minute)
		_, err := use(t.Context(), c, "group")
		require.NoError(t, err)
		require.Len(t, sasl.Began(), 2)
		require.Empty(t, token)
		require.Equal(t, 1, stub.Accepted())
	})
}

// The pool may be closed in the middle of a renewal.
func TestCloseDuringARenewal(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		sasl := &kafkatest.SASL{Users: testUsers(), Session: 10 * time.Second}
		stub.RequireSASL(sasl)
		c := newCluster(t, network, kafkatest.Addrs(stub), good("PLAIN"))
		_, err := use(t.Context(), c, "group")
		require.NoError(t, err)
		sasl.Change(func(s *kafkatest.SASL) { s.Takes = time.Hour })
		time.Sleep(9900 * time.Millisecond)
		go func() { _, _ = c.Acquire(t.Context(), 0) }()
		time.Sleep(10 * time.Millisecond) // the look at an idle connection takes one
		require.Len(t, sasl.Began(), 2)
		require.NoError(t, c.Close(t.Context()))
	})
}

func TestRetiredNearTheEndOfASession(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.RequireSASL(&kafkatest.SASL{Users: testUsers(), Session: time.Minute})
		c := newCluster(t, network, kafkatest.Addrs(stub), good("PLAIN"))
		lease := acquire(t, c)
		require.False(t, lease.SessionWaning())
		time.Sleep(49 * time.Second)
		require.True(t, lease.SessionWaning())
		lease.Retire()
		lease.Release()
		require.EqualValues(t, 1, c.Stats().Retired["session"])
		require.False(t, acquire(t, c).SessionWaning())
	})
}
