package pool

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDefaults(t *testing.T) {
	cfg := DefaultConfig()
	require.True(t, cfg.DiscoverBrokers)
	require.EqualValues(t, 3, cfg.MaxAPIVersions)
	require.Equal(t, 5*time.Second, cfg.DialTimeout)
	require.Equal(t, 10*time.Second, cfg.RequestTimeout)
	require.Equal(t, 4, cfg.MaxConnectionsPerBroker)
	require.Equal(t, 3*time.Minute, cfg.MaxIdleTime)
	require.Equal(t, time.Hour, cfg.MaxLifetime)
	require.Equal(t, 2*time.Second, cfg.AcquireTimeout)
	require.Equal(t, 1024, cfg.MaxWaiters)
	require.NotNil(t, cfg.Dial)
	require.NotNil(t, cfg.Logger)
}

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		want   string // in the error; empty: none
	}{
		"name":              {func(c *Config) { c.Bootstrap = []string{"kafka.example:9092"} }, ""},
		"ipv6":              {func(c *Config) { c.Bootstrap = []string{"[::1]:9092"} }, ""},
		"no bootstrap":      {func(c *Config) { c.Bootstrap = nil }, "no bootstrap address"},
		"no port":           {func(c *Config) { c.Bootstrap = []string{"kafka"} }, `"kafka": want host:port`},
		"bare ipv6":         {func(c *Config) { c.Bootstrap = []string{"::1:9092"} }, "brackets"},
		"no host":           {func(c *Config) { c.Bootstrap = []string{":9092"} }, "host is missing"},
		"port 0":            {func(c *Config) { c.Bootstrap = []string{"a:0"} }, "1 to 65535"},
		"port too high":     {func(c *Config) { c.Bootstrap = []string{"a:65536"} }, "1 to 65535"},
		"named port":        {func(c *Config) { c.Bootstrap = []string{"a:kafka"} }, "1 to 65535"},
		"client id":         {func(c *Config) { c.ClientID = strings.Repeat("x", 32768) }, "client id has 32768 bytes"},
		"api versions":      {func(c *Config) { c.MaxAPIVersions = -1 }, "max ApiVersions version is -1"},
		"dial timeout":      {func(c *Config) { c.DialTimeout = -1 }, "dial timeout is -1ns"},
		"request timeout":   {func(c *Config) { c.RequestTimeout = -time.Second }, "request timeout is -1s"},
		"idle":              {func(c *Config) { c.MaxIdleTime = -1 }, "max idle time"},
		"lifetime":          {func(c *Config) { c.MaxLifetime = -1 }, "max lifetime"},
		"acquire":           {func(c *Config) { c.AcquireTimeout = -1 }, "acquire timeout"},
		"connections":       {func(c *Config) { c.MaxConnectionsPerBroker = -1 }, "max connections per broker is -1"},
		"many connections":  {func(c *Config) { c.MaxConnectionsPerBroker = 1001 }, "1 to 1000"},
		"waiters":           {func(c *Config) { c.MaxWaiters = -1 }, "max waiters is -1"},
		"zero is a default": {func(c *Config) { *c = Config{Bootstrap: c.Bootstrap} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Bootstrap = []string{"broker:9092"}
			test.change(&cfg)
			c, err := NewCluster(cfg)
			if test.want == "" {
				require.NoError(t, err)
				require.NoError(t, c.Close(t.Context()))
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestValidateNamesAllThatIsWrong(t *testing.T) {
	_, err := NewCluster(Config{Bootstrap: []string{"a", "b"}, MaxWaiters: -1})
	for _, part := range []string{`"a"`, `"b"`, "max waiters"} {
		require.ErrorContains(t, err, part)
	}
}

func TestBootstrapAddressesThatAreOne(t *testing.T) {
	c, err := NewCluster(Config{Bootstrap: []string{"Kafka:9092", "kafka:9092", "kafka:9093"}})
	require.NoError(t, err)
	require.Len(t, c.Brokers(), 2)
	for _, b := range c.Brokers() {
		require.Contains(t, []string{"Kafka", "kafka"}, b.Host, "shown as it was written")
	}
	require.NoError(t, c.Close(t.Context()))
}

func TestSoftwareField(t *testing.T) {
	accepted := regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`) // KIP-511
	for in, want := range map[string]string{
		"1.2.3":                                "1.2.3",
		"v1":                                   "v1",
		"(devel)":                              "devel",
		"v0.0.0-20260101000000-abcdef01+dirty": "v0.0.0-20260101000000-abcdef01-dirty",
		"":                                     "unknown",
		"---":                                  "unknown",
		"é":                                    "unknown",
		"a b\x00c":                             "a-b-c",
		strings.Repeat("x", 99) + "-y":         strings.Repeat("x", 99),
		strings.Repeat("9", 1000):              strings.Repeat("9", 100),
	} {
		got := softwareField(in)
		require.Equal(t, want, got)
		require.Regexp(t, accepted, got)
	}
}

// Instances that all begin with the same broker load that one alone (optiopay/kafka#35).
func TestInstancesBeginWithDifferentBrokers(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Bootstrap = []string{"a:1", "b:1", "c:1"}
	first := make(map[string]int)
	for range 100 {
		c, err := NewCluster(cfg)
		require.NoError(t, err)
		first[c.Brokers()[0].Host]++
	}
	require.Len(t, first, 3)
}
