package telemetry_test

import (
	crand "crypto/rand"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/service"
)

// The Finder's limit is named and counted like those of the server.
func TestTooManyWaitingKeysAreCounted(t *testing.T) {
	r := start(t, options{finder: service.FinderConfig{MaxWaitingKeys: 2}})
	_, err := r.grpc.FindCoordinators(t.Context(), &coordsvcv1.FindCoordinatorsRequest{Keys: []string{"a", "b"}})
	require.NoError(t, err)
	_, err = r.grpc.FindCoordinators(t.Context(), &coordsvcv1.FindCoordinatorsRequest{Keys: []string{"a", "b", "c"}})
	overGRPC := status.Convert(err)
	require.Equal(t, codes.ResourceExhausted, overGRPC.Code())
	require.Contains(t, overGRPC.Message(), "more than 2 keys would wait (setting limits.max-waiting-keys)")
	require.Equal(t, map[string]string{"retriable": "true", "setting": "limits.max-waiting-keys", "limit": "2"},
		overGRPC.Details()[0].(*errdetails.ErrorInfo).GetMetadata())

	httpStatus, body := r.get(t, r.HTTPAddr(), "/v1/coordinators?keys=a&keys=b&keys=c")
	require.Equal(t, http.StatusTooManyRequests, httpStatus)
	overREST := &spb.Status{}
	require.NoError(t, protojson.Unmarshal([]byte(body), overREST))
	require.Equal(t, overGRPC.Proto().String(), overREST.String())
	require.EqualValues(t, 2, r.scrape(t)[`coordsvc_limits_met_total{setting="limits.max-waiting-keys"}`])
}

func TestWhatIsCounted(t *testing.T) {
	r := start(t, options{})
	for _, stub := range r.stubs {
		stub.SetCoordinator(func(_ kafkawire.KeyType, key string) kafkawire.Coordinator {
			switch key {
			case "forbidden":
				return kafkatest.NoCoordinator(kafkawire.ErrGroupAuthorizationFailed)
			case "odd":
				return kafkatest.NoCoordinator(kafkawire.ErrorCode(4711))
			default:
				return kafkatest.CoordinatorAt(r.stubs[0].Broker())
			}
		})
	}
	status, body := r.get(t, r.HTTPAddr(), "/v1/coordinators?keys=a&keys=forbidden&keys=odd&keys=b")
	require.Equal(t, http.StatusOK, status, body)
	_, err := r.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{KeyType: coordsvcv1.KeyType_TRANSACTION, Key: "t"})
	require.NoError(t, err)
	_, err = r.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: "forbidden"})
	require.Error(t, err)
	status, _ = r.get(t, r.HTTPAddr(), "/v1/nothing")
	require.Equal(t, http.StatusNotFound, status)
	_, err = healthv1.NewHealthClient(r.conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)

	got := r.scrape(t)
	for series, want := range map[string]float64{
		`coordsvc_calls_total{code="OK",method="FindCoordinators",protocol="REST"}`:              1,
		`coordsvc_calls_total{code="OK",method="GetCoordinator",protocol="gRPC"}`:                1,
		`coordsvc_calls_total{code="PERMISSION_DENIED",method="GetCoordinator",protocol="gRPC"}`: 1,
		`coordsvc_calls_total{code="OK",method="other",protocol="gRPC"}`:                         1,
		`coordsvc_call_duration_seconds_count{method="FindCoordinators",protocol="REST"}`:        1,
		`coordsvc_calls_in_flight`:                                                          0,
		`coordsvc_rest_refusals_total{status="404"}`:                                        1,
		`coordsvc_keys_total{key_type="GROUP",outcome="FOUND"}`:                             2,
		`coordsvc_keys_total{key_type="GROUP",outcome="GROUP_AUTHORIZATION_FAILED"}`:        2,
		`coordsvc_keys_total{key_type="GROUP",outcome="other"}`:                             1,
		`coordsvc_keys_total{key_type="TRANSACTION",outcome="FOUND"}`:                       1,
		`coordsvc_key_retries_total{key_type="GROUP"}`:                                      0,
		`coordsvc_kafka_request_keys_count`:                                                 3,
		`coordsvc_kafka_request_keys_sum`:                                                   6,
		`coordsvc_kafka_requests_total{api="FindCoordinator",version="6"}`:                  3,
		`coordsvc_kafka_requests_total{api="FindCoordinator",version="0"}`:                  0,
		`coordsvc_exchange_duration_seconds_count`:                                          3,
		`coordsvc_acquire_wait_seconds_count`:                                               3,
		`coordsvc_acquire_failures_total`:                                                   0,
		`coordsvc_pool_connections{state="in_use"}`:                                         0,
		`coordsvc_pool_dials_total{outcome="unreachable"}`:                                  0,
		`coordsvc_brokers{reachable="true"}`:                                                2,
		`coordsvc_broker_reachable{node="1"}`:                                               1,
		`coordsvc_waiting_keys`:                                                             0,
		`coordsvc_waiting_keys_limit`:                                                       1_000_000,
		`coordsvc_ready`:                                                                    1,
		`coordsvc_build_info{commit="abc",go_version="` + goVersion + `",version="v1.2.3"}`: 1,
	} {
		value, there := got[series]
		require.True(t, there, "no series %s", series)
		require.InDelta(t, want, value, 0, series)
	}
	require.Greater(t, got[`coordsvc_pool_dials_total{outcome="ok"}`], 1.0)
	require.Greater(t, got["go_goroutines"], 1.0)
	require.Greater(t, got["process_start_time_seconds"], 1.0)
}

func TestRetriesAndFailedExchangesAreCounted(t *testing.T) {
	r := start(t, options{stubs: 2})
	for _, stub := range r.stubs {
		stub.On(kafkawire.APIKeyFindCoordinator, kafkatest.First(1, kafkatest.Fail(kafkawire.ErrCoordinatorNotAvailable)))
	}
	_, err := r.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: "a"})
	require.NoError(t, err)
	got := r.scrape(t)
	require.GreaterOrEqual(t, got[`coordsvc_key_retries_total{key_type="GROUP"}`], 1.0)

	for _, stub := range r.stubs {
		stub.On(kafkawire.APIKeyFindCoordinator, kafkatest.First(1, kafkatest.Hangup))
	}
	_, err = r.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: "a"})
	require.NoError(t, err)
	got = r.scrape(t)
	require.GreaterOrEqual(t, got[`coordsvc_exchange_failures_total{kind="unreachable"}`], 1.0)
	require.GreaterOrEqual(t, got[`coordsvc_pool_retirements_total{reason="broken"}`], 1.0)
}

func TestOldBrokersGetOneKeyARequest(t *testing.T) {
	r := start(t, options{release: "2.8.2"})
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	_, err := r.grpc.FindCoordinators(t.Context(), &coordsvcv1.FindCoordinatorsRequest{Keys: keys})
	require.NoError(t, err)
	got := r.scrape(t)
	require.InDelta(t, 100, got["coordsvc_kafka_request_keys_count"], 0)
	require.InDelta(t, 100, got["coordsvc_kafka_request_keys_sum"], 0)
	require.InDelta(t, 100, got[`coordsvc_kafka_requests_total{api="FindCoordinator",version="3"}`], 0)
}

// Nobody who calls, and no broker, makes a series: with 10,000 keys, paths, methods,
// user agents, trace ids and error codes there are as many as before.
func TestNoLabelIsChosenFromOutside(t *testing.T) {
	r := start(t, options{})
	for _, stub := range r.stubs {
		stub.SetCoordinator(func(kafkawire.KeyType, string) kafkawire.Coordinator {
			return kafkawire.Coordinator{ErrorCode: kafkawire.ErrorCode(rand.N(1<<15-1000) + 1000), ErrorMessage: crand.Text(), NodeID: -1, Port: -1}
		})
	}
	var before map[string]bool
	settled := func() map[string]bool { // the process collector learns some numbers late
		all := map[string]bool{}
		for name := range r.scrape(t) {
			all[name] = true
		}
		return all
	}
	before = settled()
	require.Greater(t, len(before), 100)

	const calls, callers = 10_000, 8
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := c; i < calls; i += callers {
				r.strange(t, i)
			}
		})
	}
	wg.Wait()

	after := settled()
	maps.DeleteFunc(after, func(name string, _ bool) bool { return before[name] })
	require.Empty(t, slices.Collect(maps.Keys(after)), "series that were not there before")
	got := r.scrape(t)
	require.GreaterOrEqual(t, got[`coordsvc_keys_total{key_type="GROUP",outcome="other"}`], calls/4.0)
	require.Positive(t, got[`coordsvc_rest_refusals_total{status="404"}`])
	require.Positive(t, got[`coordsvc_rest_refusals_total{status="405"}`])
	require.Positive(t, got[`coordsvc_calls_total{code="NOT_FOUND",method="other",protocol="gRPC"}`])
}

// strange makes a call like no other.
func (r *rig) strange(t *testing.T, i int) {
	text := crand.Text()
	headers := []string{"User-Agent", text, "Referer", text, "X-Request-Id", text, "X-Forwarded-For", text, "Traceparent", text, "X-" + text, text}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "user-agent", text, "x-request-id", text, "x-"+text, text)
	switch i % 8 {
	case 0, 1:
		_, err := r.grpc.GetCoordinator(ctx, &coordsvcv1.GetCoordinatorRequest{Key: text})
		require.Error(t, err)
	case 2, 3:
		status, _ := r.get(t, r.HTTPAddr(), "/v1/coordinators/GROUP/"+text, headers...)
		require.NotEqual(t, http.StatusOK, status)
	case 4:
		status, _ := r.get(t, r.HTTPAddr(), "/"+text+"/"+text+"?"+url.QueryEscape(text)+"="+text, headers...)
		require.Equal(t, http.StatusNotFound, status)
	case 5:
		status, _ := r.do(t, text, r.HTTPAddr(), "/v1/coordinators/GROUP/"+text, headers...)
		require.Equal(t, http.StatusMethodNotAllowed, status)
	case 6:
		var got coordsvcv1.GetCoordinatorResponse
		err := r.conn.Invoke(ctx, "/"+text+"/"+text, &coordsvcv1.GetCoordinatorRequest{}, &got, grpc.WaitForReady(true))
		require.Error(t, err)
		err = r.conn.Invoke(ctx, "/coordsvc.v1.CoordinatorService/"+text, &coordsvcv1.GetCoordinatorRequest{}, &got)
		require.Error(t, err)
	case 7:
		_, err := healthv1.NewHealthClient(r.conn).Check(ctx, &healthv1.HealthCheckRequest{Service: text})
		require.Error(t, err)
		status, _ := r.get(t, r.AdminAddr(), "/metrics/"+text+"?name="+text, headers...)
		require.Equal(t, http.StatusNotFound, status)
	}
}

func TestBrokersThatAreDownAreShown(t *testing.T) {
	r := start(t, options{})
	for _, stub := range r.stubs {
		stub.Down()
	}
	require.Eventually(t, func() bool {
		got := r.scrape(t)
		return got["coordsvc_brokers{reachable=\"false\"}"] > 0 && got[`coordsvc_broker_reachable{node="1"}`] == 0
	}, 10*time.Second, 10*time.Millisecond)
}
