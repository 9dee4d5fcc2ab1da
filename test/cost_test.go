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
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
)

// TestCostOfREST compares what a lookup costs the server by REST with what it costs
// by gRPC: processor time of its process, kernel included, all that Kafka costs too.
// It takes a machine that is not busy, and half a minute: make bench-rest.
func TestCostOfREST(t *testing.T) {
	if os.Getenv("COORDSVC_TEST_COST") == "" {
		t.Skip("measures only with COORDSVC_TEST_COST=1 (make bench-rest)")
	}
	fake := kafkatest.Fake(t, 3)
	service := serve(t, fake.ListenAddrs())
	service.ready(t)
	client := service.client(t)
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	t.Cleanup(web.CloseIdleConnections)

	for _, c := range []struct{ keys, callers, calls int }{{1, 16, 20_000}, {100, 8, 4_000}, {10_000, 2, 100}} {
		keys := kafkatest.WellFormedKeys(0, "cost", c.keys)
		req := &coordsvcv1.FindCoordinatorsRequest{Keys: keys}
		body, err := protojson.Marshal(req)
		require.NoError(t, err)
		overGRPC := func() error {
			if c.keys == 1 {
				_, err := client.GetCoordinator(context.Background(), &coordsvcv1.GetCoordinatorRequest{Key: keys[0]})
				return err
			}
			_, err := client.FindCoordinators(context.Background(), req)
			return err
		}
		overREST := func() error {
			var resp *http.Response
			var err error
			if c.keys == 1 {
				resp, err = web.Get("http://" + service.addresses["REST"] + "/v1/coordinators/GROUP/" + keys[0])
			} else {
				resp, err = web.Post("http://"+service.addresses["REST"]+"/v1/coordinators:find", "application/json", bytes.NewReader(body))
			}
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d", resp.StatusCode)
			}
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		}
		var grpcCost, restCost time.Duration
		for range 3 { // turn about, so that what else the machine does strikes both
			grpcCost += service.cost(t, c.callers, c.calls/3, overGRPC)
			restCost += service.cost(t, c.callers, c.calls/3, overREST)
		}
		ratio := float64(restCost) / float64(grpcCost)
		t.Logf("%6d keys a call: gRPC %v, REST %v of processor time a call: %.2f times", c.keys,
			grpcCost/time.Duration(c.calls), restCost/time.Duration(c.calls), ratio)
		require.LessOrEqual(t, ratio, 2.0)
	}
}

// cost is the processor time that p takes for so many calls.
func (p *process) cost(t *testing.T, callers, calls int, ask func() error) time.Duration {
	t.Helper()
	require.NoError(t, ask())
	before := p.cpu(t)
	var done sync.WaitGroup
	for range callers {
		done.Go(func() {
			for range calls / callers {
				if err := ask(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
	return p.cpu(t) - before
}

// cpu is the processor time of p so far: fields 14 and 15 of /proc/PID/stat, in
// hundredths of a second (proc(5)).
func (p *process) cpu(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	require.NoError(t, err)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
