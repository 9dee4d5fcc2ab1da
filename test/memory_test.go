//go:build linux

package test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

// TestMemoryOfLargeCalls has 64 callers at once, half by gRPC and half by REST, ask
// for 10,000 keys of 400 bytes each, 4 MB a call, of a broker that takes its time.
// Those that do not fit are refused with the limit's name; memory stays near the
// limit; a caller with one key is answered meanwhile; and afterwards all is free.
func TestMemoryOfLargeCalls(t *testing.T) {
	const (
		callers = 64
		limit   = 128 << 20
		mostRSS = 256 << 20
	)
	stub := kafkatest.NewStub(t, kafkatest.StubConfig{})
	stub.On(kafkawire.APIKeyFindCoordinator, func(r *kafkatest.Request) {
		time.Sleep(20 * time.Millisecond)
		kafkatest.Default(r)
	})
	service := serve(t, []string{stub.Addr()}, "--limits-max-calls-memory", fmt.Sprintf("%dB", limit))
	service.ready(t)
	client := service.client(t)
	web := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(web.CloseIdleConnections)

	req := &coordsvcv1.FindCoordinatorsRequest{}
	for i := range 10_000 {
		req.Keys = append(req.Keys, fmt.Sprintf("%0400d", i))
	}
	body, err := protojson.Marshal(req)
	require.NoError(t, err)
	t.Logf("%d bytes in JSON", len(body))
	ask := func(caller int) (code codes.Code, text string) {
		if caller%2 == 0 { // the answer is larger than a client takes by default
			_, err := client.FindCoordinators(context.Background(), req, grpc.MaxCallRecvMsgSize(16<<20))
			return status.Code(err), status.Convert(err).Message()
		}
		resp, err := web.Post("http://"+service.addresses["REST"]+"/v1/coordinators:find", "application/json", bytes.NewReader(body))
		if err != nil {
			return codes.Unavailable, err.Error()
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			return codes.Unavailable, err.Error()
		}
		return codeOf(resp.StatusCode), string(answer)
	}
	var mu sync.Mutex
	outcomes := map[codes.Code]int{}
	for range 5 {
		var asking sync.WaitGroup
		for caller := range callers {
			asking.Go(func() {
				code, text := ask(caller)
				mu.Lock()
				defer mu.Unlock()
				outcomes[code]++
				if code != codes.OK && !strings.Contains(text, "limits.max-calls-memory") {
					t.Errorf("%v %.200s", code, text)
				}
			})
		}
		asking.Go(func() {
			if _, err := client.GetCoordinator(context.Background(), &coordsvcv1.GetCoordinatorRequest{Key: "one"}); err != nil {
				t.Errorf("a small call: %v", err)
			}
		})
		asking.Wait()
	}
	peak := service.peakRSS(t)
	t.Logf("outcomes %v; at most %d MiB of memory", outcomes, peak>>20)
	require.NotZero(t, outcomes[codes.OK])
	require.NotZero(t, outcomes[codes.ResourceExhausted])
	require.Len(t, outcomes, 2, "no connection breaks")
	if len(buildFlags) == 0 { // the race detector takes memory of its own
		require.Less(t, peak, mostRSS)
	}
	require.Eventually(t, func() bool {
		grpcCode, _ := ask(0)
		restCode, _ := ask(1)
		return grpcCode == codes.OK && restCode == codes.OK
	}, 10*time.Second, 50*time.Millisecond)
}
