package pool

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

func TestEveryVersionSpokenHasACount(t *testing.T) {
	for key := range kafkawire.APIKey(1000) {
		spoken := kafkawire.Supported(key)
		require.Equal(t, spoken.Min <= spoken.Max, slices.Contains(spokenAPIs[:], key), key)
	}
	var n requestCounts
	for _, key := range spokenAPIs {
		spoken := kafkawire.Supported(key)
		require.Less(t, spoken.Max, kafkawire.Version(spokenVersions), key)
		for v := spoken.Min; v <= spoken.Max; v++ {
			n.add(key, v, 2)
		}
	}
	n.add(kafkawire.APIKeyMetadata, -1, 1)
	n.add(kafkawire.APIKeyMetadata, spokenVersions, 1)
	n.add(kafkawire.APIKey(99), 0, 1)
	for _, row := range n.list() {
		require.EqualValues(t, 2, row.Count, "%s v%d", row.API, row.Version)
	}
}

func TestStatsCountTheRequestsOnTheWire(t *testing.T) {
	stub := kafkatest.NewStub(t, kafkatest.StubConfig{Release: "2.8.2"})
	cfg := DefaultConfig()
	cfg.Bootstrap, cfg.DiscoverBrokers = []string{stub.Addr()}, false
	c, err := NewCluster(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(t.Context())) }()
	l, err := c.Acquire(t.Context(), 0)
	require.NoError(t, err)
	defer l.Release()

	const keys = 100
	reqs, resps := make([]kafkawire.Request, keys), make([]kafkawire.Response, keys)
	for i := range keys {
		reqs[i] = &kafkawire.FindCoordinatorRequest{Keys: []string{"orders"}}
		resps[i] = &kafkawire.FindCoordinatorResponse{}
	}
	_, err = l.Exchange(t.Context(), reqs, resps, l.FindCoordinatorVersion(), 32)
	require.NoError(t, err)

	counted := map[kafkawire.APIKey]int64{}
	for _, row := range c.Stats().Requests {
		if row.Count > 0 {
			counted[row.API] += row.Count
		}
		if row.API == kafkawire.APIKeyFindCoordinator && row.Version == l.FindCoordinatorVersion() {
			require.EqualValues(t, keys, row.Count)
		}
	}
	require.Equal(t, map[kafkawire.APIKey]int64{kafkawire.APIKeyFindCoordinator: keys, kafkawire.APIKeyAPIVersions: 1}, counted)
}
