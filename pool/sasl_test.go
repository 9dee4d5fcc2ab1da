package pool

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

const (
	testUser     = "alice"
	testPassword = "s3cret-Pass,word=1"
	testToken    = "s3cret.token.x"
)

func testUsers() map[string]string {
	return map[string]string{testUser: testPassword, "bob": "bobs-s3cret", testToken: testUser}
}

// authenticatesBy makes connections authenticate with a fixed credential.
func authenticatesBy(mechanism, user, secret string) func(*Config) {
	return func(cfg *Config) {
		cfg.SASL = &SASL{Mechanism: mechanism, Username: user, Credential: func(context.Context) (string, error) { return secret, nil }}
	}
}

func good(mechanism string) func(*Config) {
	if mechanism == MechanismOAuthBearer {
		return authenticatesBy(mechanism, "", testToken)
	}
	return authenticatesBy(mechanism, testUser, testPassword)
}

func TestMechanisms(t *testing.T) {
	for _, mechanism := range Mechanisms() {
		for _, release := range []string{"4.4.0", "2.8.2", "2.3.1", "1.1.1", "0.10.2.2"} {
			t.Run(mechanism+" "+release, func(t *testing.T) {
				simulated(t, func(t *testing.T, network *kafkatest.Network) {
					stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Release: release})
					sasl := &kafkatest.SASL{Users: testUsers(), Bare: release == "0.10.2.2"}
					stub.RequireSASL(sasl)
					c := newCluster(t, network, kafkatest.Addrs(stub), good(mechanism))
					c.Start()
					for range 3 {
						_, err := use(t.Context(), c, "group")
						require.NoError(t, err)
					}
					require.Empty(t, sasl.Violations())
					require.Equal(t, mechanism, c.Brokers()[0].Mechanism)
					require.Nil(t, c.Brokers()[0].RenewIn)
				})
			})
		}
	}
}

// What a broker may refuse, and what is said of it: never the secret.
func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		sasl   *kafkatest.SASL
		client func(*Config)
		says   []string
	}{
		"wrong password, PLAIN": {client: authenticatesBy("PLAIN", testUser, "s3cret-wrong"), says: []string{"refused the credentials (PLAIN)", "invalid credentials"}},
		"wrong password, SCRAM": {client: authenticatesBy("SCRAM-SHA-256", testUser, "s3cret-wrong"), says: []string{"refused the credentials (SCRAM-SHA-256)"}},
		"unknown user":          {client: authenticatesBy("SCRAM-SHA-512", "mallory", "s3cret-wrong"), says: []string{"refused the credentials (SCRAM-SHA-512)"}},
		"wrong token":           {client: authenticatesBy("OAUTHBEARER", "", "s3cret-wrong"), says: []string{"refused the token", "invalid_token"}},
		"wrong password, before 1.0": {sasl: &kafkatest.SASL{Bare: true}, client: authenticatesBy("PLAIN", testUser, "s3cret-wrong"),
			says: []string{"closed the connection", "refuses the credentials (PLAIN)"}},
		"mechanism not offered": {sasl: &kafkatest.SASL{Mechanisms: []string{"GSSAPI", "PLAIN"}}, client: good("SCRAM-SHA-256"),
			says: []string{"does not offer the mechanism SCRAM-SHA-256; it offers GSSAPI, PLAIN"}},
		"nothing to prove it with": {client: func(cfg *Config) {
			cfg.SASL = &SASL{Mechanism: "PLAIN", Username: "a", Credential: func(context.Context) (string, error) { return "", errors.New("the file is gone") }}
		}, says: []string{"no credential to authenticate with: the file is gone"}},
		"empty": {client: authenticatesBy("PLAIN", testUser, ""), says: []string{"it is empty"}},
		"few iterations": {sasl: &kafkatest.SASL{Iterations: 4095}, client: good("SCRAM-SHA-256"),
			says: []string{`asks for "4095" iterations; 4096 to 1000000 are taken`}},
		"many iterations": {sasl: &kafkatest.SASL{Alter: first("i=4096", "i=1000001")}, client: good("SCRAM-SHA-256"),
			says: []string{`asks for "1000001" iterations`}},
		"no iterations": {sasl: &kafkatest.SASL{Alter: first("i=4096", "i=x")}, client: good("SCRAM-SHA-512"), says: []string{`asks for "x" iterations`}},
		"a nonce that is not ours": {sasl: &kafkatest.SASL{Alter: first("r=", "r=x")}, client: good("SCRAM-SHA-256"),
			says: []string{"nonce does not extend ours"}},
		"a broker that does not know the password": {sasl: &kafkatest.SASL{Alter: func(round int, answer string) string {
			if round == 2 {
				return "v=" + strings.Repeat("A", 43) + "="
			}
			return answer
		}}, client: good("SCRAM-SHA-256"), says: []string{"server validation failed"}},
		"no proof at all": {sasl: &kafkatest.SASL{Alter: func(round int, answer string) string {
			if round == 2 {
				return ""
			}
			return answer
		}}, client: good("SCRAM-SHA-256"), says: []string{"the broker's message is not right"}},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
				sasl := test.sasl
				if sasl == nil {
					sasl = &kafkatest.SASL{}
				}
				sasl.Users = testUsers()
				stub.RequireSASL(sasl)
				var log bytes.Buffer
				c := newCluster(t, network, kafkatest.Addrs(stub), test.client, logsTo(&log))
				_, err := c.Acquire(t.Context(), 0)
				requireKind(t, err, SASLFailed, append(test.says, stub.Addr())...)
				require.NoError(t, c.Close(t.Context()))
				require.NotContains(t, log.String()+err.Error(), "s3cret")
				require.Contains(t, log.String(), "cannot be connected to")
			})
		})
	}
}

// first replaces a part of the broker's first message.
func first(from, to string) func(int, string) string {
	return func(round int, answer string) string {
		if round == 1 {
			return strings.Replace(answer, from, to, 1)
		}
		return answer
	}
}

func logsTo(b *bytes.Buffer) func(*Config) {
	return func(cfg *Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
}

// A nonce to which the broker added nothing may come from a recording.
func TestNonceMustGrow(t *testing.T) {
	s := &scramConversation{nonce: "abc"}
	require.ErrorContains(t, s.checkServerFirst("r=abc,s=QQ==,i=4096"), "does not extend ours")
	require.NoError(t, s.checkServerFirst("r=abcd,s=QQ==,i=4096"))
}

// What was derived from the password is used again, but not for ever.
func TestScramKeysAreKept(t *testing.T) {
	var s scramClients
	s.begin(MechanismScramSHA256, "a", "b")
	one := s.client
	s.begin(MechanismScramSHA256, "a", "b")
	require.Same(t, one, s.client)
	s.begin(MechanismScramSHA256, "a", "c")
	require.NotSame(t, one, s.client, "a new password")
	two := s.client
	for range maxConversations {
		s.begin(MechanismScramSHA256, "a", "c")
	}
	require.NotSame(t, two, s.client)
}

func TestSecretsInWhatABrokerSays(t *testing.T) {
	s := &saslExchange{secret: "hunter2"}
	require.Equal(t, `: it says "no [secret] here"`, s.words("no hunter2 here"))
	require.Less(t, len(s.words(strings.Repeat("x", 1000))), 350)
	require.Empty(t, s.words(""))
}

// Kafka closes on the first request of a connection that has not authenticated.
func TestListenerThatWantsSASL(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.RequireSASL(&kafkatest.SASL{})
		_, err := use(t.Context(), newCluster(t, network, kafkatest.Addrs(stub)), "group")
		requireKind(t, err, Unreachable, "a listener that wants SASL does so", "kafka.sasl.mechanism")
	})
}

// A listener without SASL, and a broker without the API.
func TestListenersWithoutSASL(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		_, err := newCluster(t, network, kafkatest.Addrs(stub), good("PLAIN")).Acquire(t.Context(), 0)
		requireKind(t, err, SASLFailed, "does not authenticate by SASL", "unset kafka.sasl.mechanism")
		stub.RemoveAPI(kafkawire.APIKeySaslHandshake)
		_, err = newCluster(t, network, kafkatest.Addrs(stub), good("PLAIN")).Acquire(t.Context(), 0)
		requireKind(t, err, SASLFailed, "offers no SaslHandshake", "Kafka 0.10")
	})
}

// Where an ApiVersions has failed, nothing else is asked of a listener with SASL.
func TestNoMetadataBeforeAuthentication(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.On(apiVersions, kafkatest.Hangup)
		_, err := newCluster(t, network, kafkatest.Addrs(stub), good("PLAIN")).Acquire(t.Context(), 0)
		requireKind(t, err, Unreachable)
		require.Equal(t, 2, stub.Accepted())
		require.Zero(t, stub.Count(metadata))
	})
}

// Wrong passwords lock accounts: they are not tried in a loop, and callers hear at
// once.
func TestRefusedCredentialsAreNotTriedInALoop(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		sasl := &kafkatest.SASL{Users: testUsers()}
		stub.RequireSASL(sasl)
		var wrong atomic.Bool
		wrong.Store(true)
		c := newCluster(t, network, kafkatest.Addrs(stub), func(cfg *Config) {
			cfg.SASL = &SASL{Mechanism: "SCRAM-SHA-256", Username: testUser, Credential: func(context.Context) (string, error) {
				if wrong.Load() {
					return "wrong", nil
				}
				return testPassword, nil
			}}
		})
		c.Start()
		end := time.Now().Add(10 * time.Minute)
		for time.Now().Before(end) {
			begin := time.Now()
			_, err := c.Acquire(t.Context(), 0)
			requireKind(t, err, SASLFailed)
			require.LessOrEqual(t, time.Since(begin), time.Second)
			time.Sleep(100 * time.Millisecond)
		}
		require.LessOrEqual(t, len(sasl.Began()), 30, "one in 24 to 36 seconds in the end")
		require.GreaterOrEqual(t, len(sasl.Began()), 15)
		wrong.Store(false) // the file was corrected
		time.Sleep(40 * time.Second)
		_, err := use(t.Context(), c, "group")
		require.NoError(t, err)
	})
}

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

// A stub on TLS, and a client that trusts it.
func tlsStub(t *testing.T, network *kafkatest.Network, authority *kafkatest.Authority, cert kafkatest.Certificate) *kafkatest.Stub {
	return kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, TLS: &tls.Config{
		Certificates: []tls.Certificate{cert.Pair(t)}, ClientCAs: authority.Pool(), ClientAuth: tls.VerifyClientCertIfGiven,
	}})
}

func secured(cfg *tls.Config) func(*Config) {
	return func(c *Config) { c.TLS = func() *tls.Config { return cfg } }
}

func TestTLS(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network *kafkatest.Network) {
		authority := kafkatest.NewAuthority(t, "ca")
		stub := tlsStub(t, network, authority, authority.Issue("broker", "broker-0", "127.0.0.1"))
		sasl := &kafkatest.SASL{Users: testUsers()}
		stub.RequireSASL(sasl)
		c := newCluster(t, network, kafkatest.Addrs(stub), good("SCRAM-SHA-512"), secured(&tls.Config{RootCAs: authority.Pool()}))
		for range 5 {
			_, err := use(t.Context(), c, "group")
			require.NoError(t, err)
			time.Sleep(20 * time.Millisecond) // so that the connection is looked at: tickets must not make it stale
		}
		require.Equal(t, 1, stub.Accepted())
		stub.Disconnect()
		stub.AwaitOpen(0)
		time.Sleep(1100 * time.Millisecond / time.Duration(map[bool]int{true: 10, false: 1}[network == nil]))
		_, err := use(t.Context(), c, "group")
		require.NoError(t, err, "an idle close is noticed under TLS too")
		require.EqualValues(t, 1, c.Stats().Retired["stale"])
	})
}

func TestTLSRefusals(t *testing.T) {
	authority := kafkatest.NewAuthority(t, "ca")
	good := authority.Issue("broker", "127.0.0.1")
	trusting := &tls.Config{RootCAs: authority.Pool()}
	wants := func(cert kafkatest.Certificate) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{cert.Pair(t)}, ClientCAs: authority.Pool(), ClientAuth: tls.RequireAndVerifyClientCert}
	}
	stranger := kafkatest.NewAuthority(t, "stranger").Issue("coordsvc").Pair(t)
	for name, test := range map[string]struct {
		stub   *tls.Config
		client *tls.Config
		kind   ErrorKind
		says   []string
	}{
		"expired": {&tls.Config{Certificates: []tls.Certificate{authority.IssueUntil(time.Now().Add(-time.Minute), "b", "127.0.0.1").Pair(t)}}, trusting,
			TLSFailed, []string{"has expired on"}},
		"not yet valid": {&tls.Config{Certificates: []tls.Certificate{authority.IssueUntil(time.Now().Add(10*time.Hour), "b", "127.0.0.1").Pair(t)}}, trusting,
			TLSFailed, []string{"not valid before", "clock"}},
		"unknown authority": {&tls.Config{Certificates: []tls.Certificate{good.Pair(t)}}, &tls.Config{RootCAs: kafkatest.NewAuthority(t, "other").Pool()},
			TLSFailed, []string{`of "CN=ca"`, "kafka.tls.ca-file"}},
		"wrong name": {&tls.Config{Certificates: []tls.Certificate{authority.Issue("b", "elsewhere").Pair(t)}}, trusting,
			TLSFailed, []string{`not for the name "127.0.0.1"`, "it is for elsewhere", "kafka.tls.server-name"}},
		"no client certificate":      {wants(good), trusting, TLSFailed, []string{"wants a client certificate", "kafka.tls.cert-file"}},
		"client certificate refused": {wants(good), &tls.Config{RootCAs: authority.Pool(), Certificates: []tls.Certificate{stranger}}, TLSFailed, []string{"certificate"}},
		"old version": {&tls.Config{Certificates: []tls.Certificate{good.Pair(t)}, MaxVersion: tls.VersionTLS12}, &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS13},
			TLSFailed, []string{"protocol version"}},
	} {
		t.Run(name, func(t *testing.T) {
			stub := kafkatest.NewStub(t, kafkatest.StubConfig{TLS: test.stub})
			c := newCluster(t, nil, kafkatest.Addrs(stub), func(cfg *Config) {
				cfg.TLS = func() *tls.Config { return test.client }
			})
			_, err := c.Acquire(t.Context(), 0)
			requireKind(t, err, test.kind, test.says...)
		})
	}
}

// A plaintext broker takes the handshake for a frame of 369,295,616 bytes and closes.
func TestTLSToPlaintext(t *testing.T) {
	stub := kafkatest.NewStub(t, kafkatest.StubConfig{})
	_, err := newCluster(t, nil, kafkatest.Addrs(stub), secured(&tls.Config{})).Acquire(t.Context(), 0)
	requireKind(t, err, TLSFailed, "a plaintext listener does", "unset kafka.tls.enabled")
	stub.OnConnect(func(c *kafkatest.Conn) { c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) })
	_, err = newCluster(t, nil, kafkatest.Addrs(stub), secured(&tls.Config{})).Acquire(t.Context(), 0)
	requireKind(t, err, TLSFailed, "does not speak TLS", "unset kafka.tls.enabled")
}

// Silence in the handshake costs one dial timeout.
func TestTLSSilence(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		listener, err := network.Listen("tcp", "mute:9092")
		require.NoError(t, err)
		defer listener.Close()
		go func() {
			for {
				if _, err := listener.Accept(); err != nil {
					return
				}
			}
		}()
		c := newCluster(t, network, []string{"mute:9092"}, secured(&tls.Config{}), func(cfg *Config) { cfg.AcquireTimeout = time.Minute })
		begin := time.Now()
		_, err = c.Acquire(t.Context(), 0)
		requireKind(t, err, Timeout, "did not finish the handshake within 5s")
		require.Equal(t, 5*time.Second, time.Since(begin))
	})
}

// Each new connection takes what TLS returns then.
func TestTLSIsAskedForEachConnection(t *testing.T) {
	authority := kafkatest.NewAuthority(t, "ca")
	stub := kafkatest.NewStub(t, kafkatest.StubConfig{TLS: &tls.Config{
		Certificates: []tls.Certificate{authority.Issue("b", "127.0.0.1").Pair(t)}, ClientCAs: authority.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	}})
	var current atomic.Pointer[tls.Config]
	current.Store(&tls.Config{RootCAs: authority.Pool()})
	c := newCluster(t, nil, kafkatest.Addrs(stub), func(cfg *Config) { cfg.TLS = current.Load })
	_, err := c.Acquire(t.Context(), 0)
	requireKind(t, err, TLSFailed)
	current.Store(&tls.Config{RootCAs: authority.Pool(), Certificates: []tls.Certificate{authority.Issue("coordsvc").Pair(t)}})
	require.Eventually(t, func() bool {
		_, err := use(t.Context(), c, "group")
		return err == nil
	}, 5*time.Second, 20*time.Millisecond)
}
