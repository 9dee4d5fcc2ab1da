package pool

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
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
					synctest.Wait()
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
	require.Equal(t, `PLAIN, "[secret]"`, s.offered([]string{"PLAIN", "hunter2"}))
}

// What is no Kafka is quoted, but it was sent the password like any broker.
func TestSecretsInWhatIsNoKafka(t *testing.T) {
	page := kafkatest.Raw([]byte("HTTP/1.1 400 " + strings.Repeat("x", 60) + testPassword + "\r\n\r\n"))
	for _, api := range []kafkawire.APIKey{kafkawire.APIKeySaslAuthenticate, kafkawire.APIKeyFindCoordinator} {
		simulated(t, func(t *testing.T, network *kafkatest.Network) {
			stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
			stub.On(kafkawire.APIKeySaslHandshake, func(r *kafkatest.Request) {
				r.Reply(&kafkawire.SaslHandshakeResponse{Mechanisms: []string{MechanismPlain}})
			})
			stub.On(kafkawire.APIKeySaslAuthenticate, func(r *kafkatest.Request) { r.Reply(&kafkawire.SaslAuthenticateResponse{}) })
			stub.On(api, page)
			_, err := use(t.Context(), newCluster(t, network, kafkatest.Addrs(stub), good(MechanismPlain)), "group")
			requireKind(t, err, NotKafka, api.String(), "HTTP/1.1 400 xxx", "[secr")
			require.NotContains(t, err.Error(), testPassword[:4])
		})
	}
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

// A broker that answers all but lookups makes nobody ready: a new instance with a wrong
// password must not take the place of those that work.
func TestNotReadyWhereNotLetIn(t *testing.T) {
	for name, cfg := range map[string]func(*Config){
		"wrong password": authenticatesBy("SCRAM-SHA-256", testUser, "wrong"),
		"no SASL":        func(*Config) {},
	} {
		for discovery, adjust := range map[string]func(*Config){"discovery": func(*Config) {}, "no discovery": withoutDiscovery} {
			t.Run(name+", "+discovery, func(t *testing.T) {
				simulated(t, func(t *testing.T, network *kafkatest.Network) {
					stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
					stub.RequireSASL(&kafkatest.SASL{Users: testUsers()})
					c := newCluster(t, network, kafkatest.Addrs(stub), cfg, adjust)
					c.Start()
					for range 120 {
						time.Sleep(time.Second)
						require.False(t, c.Ready())
					}
					require.NotZero(t, stub.Count(apiVersions), "it has answered")
				})
			})
		}
	}
}

func TestCloseInPlaceOfARefusal(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.On(kafkawire.APIKeySaslHandshake, func(r *kafkatest.Request) {
			r.Reply(&kafkawire.SaslHandshakeResponse{Mechanisms: []string{"PLAIN"}})
		})
		stub.On(kafkawire.APIKeySaslAuthenticate, kafkatest.Hangup)
		_, err := newCluster(t, network, kafkatest.Addrs(stub), good("PLAIN")).Acquire(t.Context(), 0)
		requireKind(t, err, Unreachable, "the broker closed the connection", "credentials are wrong", "kafka.sasl.*")
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
