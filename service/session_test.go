package service_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
	"github.com/coordsvc/coordsvc/service"
)

// Near its end a session may be what is denied, and not the key: the key is asked once
// more on a fresh connection, and that answer holds.
func TestRefusalNearTheEndOfASession(t *testing.T) {
	for name, test := range map[string]struct {
		after  time.Duration // of the authentication
		denied bool          // the key itself
		asked  int
		found  bool
	}{
		"fresh session":              {after: time.Second, asked: 1},
		"session that ended early":   {after: 50 * time.Second, asked: 2, found: true},
		"near the end, but the key":  {after: 50 * time.Second, denied: true, asked: 2},
		"early, and the key as well": {after: time.Second, denied: true, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := kafkatest.NewNetwork()
				stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
				stub.RequireSASL(&kafkatest.SASL{Users: map[string]string{"alice": "secret"}, Session: time.Minute})
				var asked atomic.Int64
				stub.On(kafkawire.APIKeyFindCoordinator, func(r *kafkatest.Request) {
					asked.Add(1)
					if test.denied || r.Conn.ID == 1 {
						kafkatest.Fail(kafkawire.ErrGroupAuthorizationFailed)(r)
						return
					}
					kafkatest.Default(r)
				})
				cfg := pool.DefaultConfig()
				cfg.Bootstrap, cfg.Dial = kafkatest.Addrs(stub), network.DialContext
				cfg.SASL = &pool.SASL{Mechanism: pool.MechanismPlain, Username: "alice", Credential: func(context.Context) (string, error) { return "secret", nil }}
				cluster, err := pool.NewCluster(cfg)
				require.NoError(t, err)
				cluster.Start()
				finder := service.NewFinder(cluster, service.FinderConfig{})
				defer func() {
					require.NoError(t, finder.Close(context.Background()))
					require.NoError(t, cluster.Close(context.Background()))
				}()
				time.Sleep(test.after)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				results, err := finder.Find(ctx, kafkawire.KeyTypeGroup, []string{"group"})
				require.NoError(t, err)
				require.EqualValues(t, test.asked, asked.Load())
				if test.found {
					require.Nil(t, results[0].Err)
					return
				}
				require.EqualValues(t, "GROUP_AUTHORIZATION_FAILED", results[0].Err.Reason)
			})
		})
	}
}
