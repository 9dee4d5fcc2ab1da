package pool

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newCluster returns a cluster with defaults and those addresses, changed by adjust,
// that is closed at the end of the test. With no network it uses real sockets.
func newCluster(t testing.TB, network *kafkatest.Network, bootstrap []string, adjust ...func(*Config)) *Cluster {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Bootstrap = bootstrap
	if network != nil {
		cfg.Dial = network.DialContext
	}
	for _, f := range adjust {
		f(&cfg)
	}
	c, err := NewCluster(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(t, c.Close(ctx))
		assertCounts(t, c)
	})
	return c
}

// wrapping has what is dialled replaced.
func wrapping(replace func(net.Conn) net.Conn) func(*Config) {
	return func(cfg *Config) {
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return replace(nc), nil
		}
	}
}

// assertCounts checks that nothing is left in use, in our count and in puddle's.
func assertCounts(t testing.TB, c *Cluster) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Zero(t, c.dialing, "dials under way")
	require.Zero(t, c.idle, "idle connections")
	for _, b := range c.brokers {
		require.Zero(t, b.inUse, "connections in use, %s", b.addr)
		// Of those that were being made when their pool was closed puddle keeps a record, though it
		// has closed them: what is open the sockets tell.
		require.Zero(t, b.pool.Stat().AcquiredResources(), "connections taken from puddle, %s", b.addr)
	}
	c.socketsMu.Lock()
	defer c.socketsMu.Unlock()
	require.Empty(t, c.sockets, "open sockets")
}

func withoutDiscovery(cfg *Config) { cfg.DiscoverBrokers = false }

func oneConnection(cfg *Config) { cfg.MaxConnectionsPerBroker = 1 }

// simulated runs a test in a bubble with an in-memory network.
func simulated(t *testing.T, test func(t *testing.T, network *kafkatest.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, kafkatest.NewNetwork()) })
}

// acquire takes a lease, which is released at the end of the test if not before.
func acquire(t testing.TB, c *Cluster) *Lease {
	t.Helper()
	lease, err := c.Acquire(t.Context(), 0)
	require.NoError(t, err)
	t.Cleanup(func() {
		if lease.res != nil {
			lease.Release()
		}
	})
	return lease
}

// lookup exchanges one FindCoordinator request for a group.
func lookup(ctx context.Context, lease *Lease, key string) (kafkawire.Coordinator, error) {
	req := &kafkawire.FindCoordinatorRequest{Keys: []string{key}}
	var resp kafkawire.FindCoordinatorResponse
	_, err := lease.Exchange(ctx, []kafkawire.Request{req}, []kafkawire.Response{&resp}, lease.FindCoordinatorVersion(), 1)
	if err != nil {
		return kafkawire.Coordinator{}, err
	}
	return resp.Coordinators[0], nil
}

// use acquires, looks one key up and releases.
func use(ctx context.Context, c *Cluster, key string) (addr string, err error) {
	lease, err := c.Acquire(ctx, 0)
	if err != nil {
		return "", err
	}
	defer lease.Release()
	_, err = lookup(ctx, lease, key)
	return lease.Addr(), err
}

// requireKind checks the kind of an error, and that its text has all of the parts.
func requireKind(t testing.TB, err error, kind ErrorKind, parts ...string) *Error {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, kind.String(), e.Kind.String(), "%v", err)
	for _, part := range parts {
		require.ErrorContains(t, err, part)
	}
	return e
}

// logged collects the messages of a logger.
type logged struct {
	slog.Handler
	messages chan string
}

func newLogged() (*slog.Logger, *logged) {
	l := &logged{Handler: slog.DiscardHandler, messages: make(chan string, 1000)}
	return slog.New(l), l
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }

func (l *logged) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		return nil
	}
	select {
	case l.messages <- r.Message:
		return nil
	default:
		return errors.New("too much was logged")
	}
}
