package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// Config says how to reach a cluster. Durations and counts left at zero take
// their default; [DefaultConfig] has them all filled in.
type Config struct {
	// Bootstrap are the addresses to begin with, as host:port; at least one. The
	// order does not matter, it is shuffled. Names are resolved at every dial.
	Bootstrap []string

	// ClientID is sent with every request and shows in the broker's logs and
	// quotas. Default "coordsvc"; at most 32,767 bytes.
	ClientID string

	// SoftwareName and SoftwareVersion are sent with ApiVersions v3 and later
	// (KIP-511). Brokers refuse names with other characters than letters, digits,
	// '-' and '.', so others are replaced: "(devel)" is sent as "devel". Defaults
	// "coordsvc" and "unknown".
	SoftwareName    string
	SoftwareVersion string

	// DiscoverBrokers spreads lookups over all brokers that Metadata names, and
	// falls back to the bootstrap addresses where those cannot be reached. Without
	// it only the bootstrap addresses are used. No default: false is off.
	DiscoverBrokers bool

	// DialTimeout bounds each step from dial to ready: the TCP dial, the TLS handshake,
	// each question of ApiVersions and of SASL. Default 5s. A broker that never answers ApiVersions (0.9.0.0
	// and 0.9.0.1) costs the first connection one DialTimeout and up to two seconds
	// more; what was learned then holds for ten minutes.
	DialTimeout time.Duration

	// RequestTimeout bounds the wait for each answer, counted from the answer
	// before it where requests are pipelined. Default 10s. The caller's context
	// may end it earlier.
	RequestTimeout time.Duration

	// MaxAPIVersions is the highest ApiVersions version to ask with; 0 is a valid
	// pin. [DefaultConfig] has 3, which every broker answers or refuses in a known
	// way; Azure Event Hubs resets the connection from 4 on. More than kafkawire
	// speaks is lowered to that.
	MaxAPIVersions kafkawire.Version

	// MaxConnectionsPerBroker bounds the connections to one broker, those being
	// dialled included. Default 4.
	MaxConnectionsPerBroker int

	// MaxIdleTime is how long a connection may lie unused before it is closed.
	// Default 3m: below the 10m after which brokers close (connections.max.idle.ms)
	// and the 4m of Azure Event Hubs. One connection a broker is kept in use by
	// pings and does not idle.
	MaxIdleTime time.Duration

	// MaxLifetime is how long a connection may live. Default 1h. Each connection
	// gets 90 to 100 % of it, drawn once when it is made, so that not all are made
	// anew together. It is checked before and after each use, never within.
	MaxLifetime time.Duration

	// AcquireTimeout bounds the wait for a free connection. Default 2s. The
	// caller's context may end the wait earlier.
	AcquireTimeout time.Duration

	// MaxWaiters bounds how many callers may wait for a connection at one time;
	// the next is refused at once. Default 1024.
	MaxWaiters int

	// TLS returns what a new connection is secured with; it is asked for each. Without
	// ServerName the broker's host is expected in the certificate. Default nil: plain
	// text.
	TLS func() *tls.Config

	// SASL says how connections authenticate. Default nil: they do not.
	SASL *SASL

	// Dial opens the transport connection; "tcp" and host:port are passed. It
	// should try every address of the name and must heed ctx. Default a
	// [net.Dialer], which does both.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Logger gets what an operator should know. Default: nothing is logged.
	Logger *slog.Logger
}

// DefaultConfig returns the defaults, with discovery on.
func DefaultConfig() Config {
	return Config{DiscoverBrokers: true, MaxAPIVersions: 3}.withDefaults()
}

func (cfg Config) withDefaults() Config {
	orDefault(&cfg.ClientID, "coordsvc")
	orDefault(&cfg.SoftwareName, "coordsvc")
	orDefault(&cfg.SoftwareVersion, "unknown")
	orDefault(&cfg.DialTimeout, 5*time.Second)
	orDefault(&cfg.RequestTimeout, 10*time.Second)
	orDefault(&cfg.MaxConnectionsPerBroker, 4)
	orDefault(&cfg.MaxIdleTime, 3*time.Minute)
	orDefault(&cfg.MaxLifetime, time.Hour)
	orDefault(&cfg.AcquireTimeout, 2*time.Second)
	orDefault(&cfg.MaxWaiters, 1024)
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{}).DialContext
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate names everything that is wrong with cfg, or returns nil.
func (cfg *Config) Validate() error {
	var wrong []error
	if len(cfg.Bootstrap) == 0 {
		wrong = append(wrong, errors.New("no bootstrap address: name at least one broker as host:port"))
	}
	for _, addr := range cfg.Bootstrap {
		if _, _, err := splitAddr(addr); err != nil {
			wrong = append(wrong, fmt.Errorf("bootstrap address %q: %w", addr, err))
		}
	}
	if len(cfg.ClientID) > kafkawire.MaxKeyLength {
		wrong = append(wrong, fmt.Errorf("client id has %d bytes; Kafka carries at most %d", len(cfg.ClientID), kafkawire.MaxKeyLength))
	}
	if cfg.MaxAPIVersions < 0 {
		wrong = append(wrong, fmt.Errorf("max ApiVersions version is %d; want 0 or more", cfg.MaxAPIVersions))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"dial timeout", cfg.DialTimeout},
		{"request timeout", cfg.RequestTimeout},
		{"max idle time", cfg.MaxIdleTime},
		{"max lifetime", cfg.MaxLifetime},
		{"acquire timeout", cfg.AcquireTimeout},
	} {
		if d.value < 0 {
			wrong = append(wrong, fmt.Errorf("%s is %s; want more than zero, or zero for the default", d.name, d.value))
		}
	}
	if cfg.MaxConnectionsPerBroker < 0 || cfg.MaxConnectionsPerBroker > maxConnectionsPerBroker {
		wrong = append(wrong, fmt.Errorf("max connections per broker is %d; want 1 to %d", cfg.MaxConnectionsPerBroker, maxConnectionsPerBroker))
	}
	if cfg.MaxWaiters < 0 {
		wrong = append(wrong, fmt.Errorf("max waiters is %d; want 1 or more, or zero for the default", cfg.MaxWaiters))
	}
	if cfg.SASL != nil {
		if err := cfg.SASL.validate(); err != nil {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

// maxConnectionsPerBroker is far above what helps: a broker serves a connection
// one request at a time, but its request threads are few.
const maxConnectionsPerBroker = 1000

// splitAddr takes host:port apart and checks both.
func splitAddr(addr string) (host string, port int32, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, errors.New("want host:port, with an IPv6 address in brackets")
	}
	if host == "" {
		return "", 0, errors.New("the host is missing")
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("port %q is no number from 1 to 65535", text)
	}
	return host, int32(n), nil
}

// joinAddr is the opposite of splitAddr.
func joinAddr(host string, port int32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// endpointKey is the same for addresses that are one: host names do not differ by case.
func endpointKey(host string, port int32) string { return strings.ToLower(joinAddr(host, port)) }

// softwareField makes s fit what brokers accept in ApiVersions v3 and later,
// [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])? (KIP-511): Go's build information has
// versions such as "(devel)" and "v0.0.0-20260101000000-abcdef+dirty".
func softwareField(s string) string {
	const longest = 100 // nobody reads more
	clean := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || isAlphanumeric(r) {
			return r
		}
		return '-'
	}, s)
	clean = strings.TrimLeft(clean, "-.")
	clean = strings.TrimRight(clean[:min(len(clean), longest)], "-.")
	if clean == "" {
		return "unknown"
	}
	return clean
}

func isAlphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}
