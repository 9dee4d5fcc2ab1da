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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
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

// TestCostOfRefusals prints what it costs to refuse a call: processor time of the
// process, kernel included. It asserts no time.
func TestCostOfRefusals(t *testing.T) {
	if os.Getenv("COORDSVC_TEST_COST") == "" {
		t.Skip("measures only with COORDSVC_TEST_COST=1 (make bench-rest)")
	}
	stub := kafkatest.NewStub(t, kafkatest.StubConfig{})
	stub.On(kafkawire.APIKeyFindCoordinator, func(*kafkatest.Request) {}) // silent
	full := serve(t, []string{stub.Addr()}, "--limits-max-calls-in-flight", "1", "--kafka-request-timeout", "60s")
	idle := serve(t, []string{stub.Addr()})
	full.ready(t)
	idle.ready(t)
	ctx, cancel := context.WithCancel(context.Background())
	var inside sync.WaitGroup
	inside.Go(func() {
		client := full.client(t)
		refused := true // while the calls that look whether it is full are inside themselves
		for refused {
			_, err := client.GetCoordinator(ctx, &coordsvcv1.GetCoordinatorRequest{Key: "k", Timeout: durationpb.New(30 * time.Second)})
			refused = status.Code(err) == codes.ResourceExhausted
		}
	})
	t.Cleanup(func() { cancel(); inside.Wait() })
	require.Eventually(t, func() bool {
		_, err := full.client(t).ListBrokers(ctx, &coordsvcv1.ListBrokersRequest{})
		return status.Code(err) == codes.ResourceExhausted
	}, 5*time.Second, 10*time.Millisecond)

	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100, ExpectContinueTimeout: 10 * time.Second}}
	t.Cleanup(web.CloseIdleConnections)
	over := &coordsvcv1.FindCoordinatorsRequest{Keys: make([]string, 10_001)}
	overJSON, err := protojson.Marshal(over)
	require.NoError(t, err)
	large := &coordsvcv1.FindCoordinatorsRequest{Keys: []string{strings.Repeat("k", 8<<20)}}
	overGRPC := func(p *process, req *coordsvcv1.FindCoordinatorsRequest, want string) func() error {
		client := p.client(t)
		return func() error {
			_, err := client.FindCoordinators(context.Background(), req)
			if err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("%w, want %s", err, want)
			}
			return nil
		}
	}
	overREST := func(p *process, method, target string, body []byte, want int) func() error {
		return func() error {
			req, err := http.NewRequest(method, "http://"+p.addresses["REST"]+target, bytes.NewReader(body))
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", "application/json")
			if len(body) > 1<<20 {
				req.Header.Set("Expect", "100-continue")
			}
			resp, err := web.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != want {
				return fmt.Errorf("status %d, want %d", resp.StatusCode, want)
			}
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		}
	}
	const find = "/v1/coordinators:find"
	for _, c := range []struct {
		name  string
		p     *process
		calls int
		ask   func() error
	}{
		{"calls in flight, gRPC, one key", full, 20_000, overGRPC(full, &coordsvcv1.FindCoordinatorsRequest{Keys: []string{"k"}}, "max-calls-in-flight")},
		{"calls in flight, REST, one key", full, 20_000, overREST(full, "GET", "/v1/coordinators/GROUP/k", nil, 429)},
		{"10,001 keys, gRPC", idle, 4_000, overGRPC(idle, over, "max-keys")},
		{"10,001 keys, REST", idle, 4_000, overREST(idle, "POST", find, overJSON, 400)},
		{"8 MiB and a bit, gRPC", idle, 200, overGRPC(idle, large, "max-message-bytes")},
		{"8 MiB and a bit, REST, Expect: 100-continue", idle, 2_000, overREST(idle, "POST", find, make([]byte, 8<<20+100), 413)},
		{"no such path, REST", idle, 20_000, overREST(idle, "GET", "/v1/nothing", nil, 404)},
	} {
		took := c.p.cost(t, 8, c.calls, c.ask)
		t.Logf("%-45s %v a refusal", c.name, (took / time.Duration(c.calls)).Round(time.Microsecond))
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
