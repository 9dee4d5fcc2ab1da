package test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

// TestKafkaCallersShareRequests counts, in front of each broker of a warm cluster,
// what a thousand callers at once cost it.
func TestKafkaCallersShareRequests(t *testing.T) {
	kafkatest.RequireReal(t)
	cluster := kafkatest.Start(t, kafkatest.Options{Version: "4.4.0", Brokers: 3})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, cluster.Warm(ctx))
	var proxies []*kafkatest.Proxy
	var bootstrap []string
	for _, b := range cluster.Brokers() {
		proxies = append(proxies, kafkatest.NewProxy(t, b.Addr()))
		bootstrap = append(bootstrap, proxies[len(proxies)-1].Addr())
	}
	service := serve(t, bootstrap, "--kafka-discover-brokers=false")
	service.ready(t)
	conn, err := grpc.NewClient(service.addresses["gRPC"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	client := coordsvcv1.NewCoordinatorServiceClient(conn)

	// ask has every key asked by a caller of its own, all at once, and returns the requests it cost.
	ask := func(keys []string) int {
		for _, p := range proxies {
			p.Forget()
		}
		var callers sync.WaitGroup
		begin := make(chan struct{})
		for _, key := range keys {
			callers.Go(func() {
				<-begin
				resp, err := client.GetCoordinator(ctx, &coordsvcv1.GetCoordinatorRequest{Key: key})
				if err != nil || resp.GetResult().GetCoordinator() == nil {
					t.Errorf("%s: %v, %v", key, resp, err)
				}
			})
		}
		close(begin)
		callers.Wait()
		requests := 0
		for _, p := range proxies {
			requests += p.Requests(kafkawire.APIKeyFindCoordinator)
		}
		return requests
	}
	ask(kafkatest.WellFormedKeys(0, "warm", 200))

	different := kafkatest.WellFormedKeys(0, "key", 1_000)
	same := make([]string, 1_000)
	for i := range same {
		same[i] = "the key"
	}
	for range 5 {
		n, m := ask(different), ask(same)
		t.Logf("1,000 callers: %d requests for 1,000 keys, %d for one key", n, m)
		require.LessOrEqual(t, n, 40)
		require.LessOrEqual(t, m, 10)
	}
}
