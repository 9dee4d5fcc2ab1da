//go:build linux

package test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

// codeOf is the code that stands behind an answer of REST.
func codeOf(status int) codes.Code {
	for code, of := range map[codes.Code]int{codes.OK: 200, codes.ResourceExhausted: 429, codes.Unavailable: 503, codes.DeadlineExceeded: 504} {
		if status == of {
			return code
		}
	}
	return codes.Unknown
}

// TestStalledKafka has 5,000 callers at once, four fifths by gRPC and one by REST,
// ask a cluster that has fallen silent. Those within the limit end at their own
// deadline, all others are refused at once; memory stays bounded; and once Kafka
// answers again so does the service.
func TestStalledKafka(t *testing.T) {
	const (
		timeout = 3 * time.Second
		mostRSS = 300 << 20
	)
	callers, inFlight := 5_000, 2_000
	if len(buildFlags) > 0 {
		callers, inFlight = 1_000, 400 // under the race detector each costs many times as much
	}
	stub := kafkatest.NewStub(t, kafkatest.StubConfig{})
	var silent atomic.Bool
	stub.On(kafkawire.APIKeyFindCoordinator, func(r *kafkatest.Request) {
		if !silent.Load() {
			kafkatest.Default(r)
		}
	})
	service := serve(t, []string{stub.Addr()}, "--kafka-request-timeout", "1s", "--limits-max-calls-in-flight", strconv.Itoa(inFlight))
	service.ready(t)

	var clients []coordsvcv1.CoordinatorServiceClient
	for range 8 { // 1,000 streams a connection
		conn, err := grpc.NewClient(service.addresses["gRPC"], grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		clients = append(clients, coordsvcv1.NewCoordinatorServiceClient(conn))
	}
	web := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(web.CloseIdleConnections)
	ask := func(caller int) codes.Code {
		if caller%5 == 4 {
			resp, err := web.Get(fmt.Sprintf("http://%s/v1/coordinators/GROUP/group-%d?timeout=%gs", service.addresses["REST"], caller, timeout.Seconds()))
			if err != nil {
				t.Errorf("REST: %v", err)
				return codes.Internal
			}
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
			return codeOf(resp.StatusCode)
		}
		_, err := clients[caller%len(clients)].GetCoordinator(context.Background(), &coordsvcv1.GetCoordinatorRequest{
			Key: fmt.Sprintf("group-%d", caller), Timeout: durationpb.New(timeout),
		})
		return status.Code(err)
	}
	require.Equal(t, codes.OK, ask(0))
	require.Equal(t, codes.OK, ask(4))

	silent.Store(true)
	var mu sync.Mutex
	took := map[codes.Code]time.Duration{}
	counts := map[codes.Code]int{}
	var asking sync.WaitGroup
	began := time.Now()
	for caller := range callers {
		asking.Go(func() {
			code := ask(caller)
			mu.Lock()
			defer mu.Unlock()
			counts[code]++
			took[code] = max(took[code], time.Since(began))
		})
	}
	asking.Wait()
	peak := service.peakRSS(t)
	t.Logf("outcomes %v, the last of each after %v; at most %d MiB of memory", counts, took, peak>>20)
	// On a machine that is too busy for the stub to take a connection in time, that is
	// what callers hear at their deadline.
	late := counts[codes.DeadlineExceeded] + counts[codes.Unavailable]
	require.Equal(t, callers, counts[codes.ResourceExhausted]+late)
	require.GreaterOrEqual(t, counts[codes.ResourceExhausted], 1)
	require.GreaterOrEqual(t, late, inFlight/2)
	if len(buildFlags) == 0 { // the race detector takes memory of its own
		require.Less(t, peak, mostRSS)
	}

	silent.Store(false)
	recovering := time.Now()
	require.Eventually(t, func() bool { return ask(0) == codes.OK && ask(4) == codes.OK }, 10*time.Second, 10*time.Millisecond)
	t.Logf("it answers again after %v", time.Since(recovering))
	require.Less(t, time.Since(recovering), 3*time.Second)
}

// peakRSS is the most memory that p has had so far, in bytes (VmHWM, proc(5)).
func (p *process) peakRSS(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(t, err)
	_, after, found := bytes.Cut(text, []byte("VmHWM:"))
	require.True(t, found)
	kilobytes, err := strconv.Atoi(strings.Fields(string(after))[0])
	require.NoError(t, err)
	return kilobytes << 10
}
