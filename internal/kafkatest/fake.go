package kafkatest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Fake starts franz-go's fake cluster for the length of a test. On errors it
// answers node 0 with no host, where Kafka answers node -1: do not test for that
// with it.
func Fake(t testing.TB, brokers int, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(brokers)}, opts...)...)
	if err != nil {
		t.Fatalf("fake cluster: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}
