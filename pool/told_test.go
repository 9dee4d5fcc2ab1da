package pool

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
)

// requireFit has what is told of a broker be text that every answer can carry, and that
// does no harm where it is shown. Each of ten thousand keys may carry it.
func requireFit(t *testing.T, text string) {
	t.Helper()
	require.Less(t, len(text), 3000)
	require.True(t, utf8.ValidString(text), "%.200q", text)
	require.Equal(t, -1, strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }), "%.200q", text)
}

// The libraries for SCRAM and TLS repeat what the peer has sent.
func TestWhatLibrariesRepeatIsMadeFit(t *testing.T) {
	odd := strings.Repeat("\xff\x1b[2J\r\n", 50_000)
	for name, answer := range map[string]string{"an error": "e=" + odd, "no message": odd} {
		t.Run("SCRAM, "+name, func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
				stub.RequireSASL(&kafkatest.SASL{Users: testUsers(), Alter: func(round int, said string) string {
					if round == 2 {
						return answer
					}
					return said
				}})
				c := newCluster(t, network, kafkatest.Addrs(stub), good("SCRAM-SHA-256"))
				_, err := c.Acquire(t.Context(), 0)
				requireKind(t, err, SASLFailed, "the broker's message is not right")
				requireFit(t, err.Error())
				requireFit(t, c.Brokers()[0].LastError.Message)
			})
		})
	}
	authority := kafkatest.NewAuthority(t, "ca")
	long := strings.Repeat("n", 20_000)
	for name, cert := range map[string]kafkatest.Certificate{
		"names":     authority.Issue("b", long+".a", long+".b", "a\x1b[2J\r\nb.example"),
		"authority": kafkatest.NewAuthority(t, strings.Repeat("\x1b", 20_000)).Issue(long, "127.0.0.1"),
	} {
		t.Run("TLS, "+name, func(t *testing.T) {
			stub := kafkatest.NewStub(t, kafkatest.StubConfig{TLS: &tls.Config{Certificates: []tls.Certificate{cert.Pair(t)}}})
			c := newCluster(t, nil, kafkatest.Addrs(stub), func(cfg *Config) {
				cfg.TLS = func() *tls.Config { return &tls.Config{RootCAs: authority.Pool()} }
			})
			_, err := c.Acquire(t.Context(), 0)
			requireKind(t, err, TLSFailed, "certificate")
			requireFit(t, err.Error())
		})
	}
}

func TestToldKeepsTheCause(t *testing.T) {
	plain := errors.New("all is well with é")
	require.Same(t, plain, asTold(plain))
	require.ErrorIs(t, asTold(fmt.Errorf("\x00: %w", plain)), plain)
	require.EqualError(t, asTold(errors.New("a\xff\x1bb'\u202e")), `a?\x1bb'\u202e`)
}

// Metadata may name two thousand brokers.
func TestCausesHaveABound(t *testing.T) {
	var c causes
	for i := range 2000 {
		c = append(c, fmt.Errorf("broker %d", i))
	}
	require.Equal(t, "broker 0; broker 1", c[:2].Error())
	require.True(t, strings.HasSuffix(c.Error(), "broker 9; and 1990 more"), c.Error())
	require.Equal(t, "broker 0", c[:1].Error())
}
