package pool

import (
	"crypto/tls"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
)

func secured(cfg *tls.Config) func(*Config) {
	return func(c *Config) { c.TLS = func() *tls.Config { return cfg } }
}

func TestTLS(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network *kafkatest.Network) {
		authority := kafkatest.NewAuthority(t, "ca")
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, TLS: authority.Server(t, "broker-0", "127.0.0.1")})
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
		requireKind(t, err, Timeout, "did not finish the handshake within 5s", "a plaintext listener may be silent")
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
