package telemetry

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// The protocols that calls come by, as in the log.
const (
	GRPC = "gRPC"
	REST = "REST"
)

// seconds are the buckets of what takes from a quarter of a millisecond, a lookup in
// the same rack, to the longest call.
var seconds = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// grpcCodes is how many gRPC codes there are, from 0 (OK) on.
const grpcCodes = codes.Unauthenticated + 1

type callMetrics struct {
	byMethod map[methodBy]*Calls
	others   *Calls // gRPC health and reflection
	inFlight prometheus.Gauge
	refused  *prometheus.CounterVec
}

// methodBy is a method by its full name (/coordsvc.v1.CoordinatorService/GetCoordinator)
// and the protocol that it was called by.
type methodBy struct{ fullMethod, protocol string }

// Calls counts the calls of one method by one protocol.
type Calls struct {
	took     prometheus.Observer
	byCode   [grpcCodes]prometheus.Counter
	inFlight prometheus.Gauge
}

func newCallMetrics(r *prometheus.Registry) callMetrics {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "calls_total",
		Help: "Calls that ended, by the gRPC code of their answer, REST calls too. FindCoordinators is OK also where " +
			"single keys failed: see " + namespace + "_keys_total. The method \"other\" is gRPC health and reflection.",
	}, []string{"method", "protocol", "code"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "call_duration_seconds",
		Help:    "How long calls took, from the first interceptor to the answer. Reading and writing it are not in it.",
		Buckets: seconds,
	}, []string{"method", "protocol"})
	m := callMetrics{
		byMethod: make(map[methodBy]*Calls),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "calls_in_flight", Help: "Calls that are being answered.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "rest_refusals_total",
			Help: "HTTP requests to the REST port that never became a call, by the status of the answer: wrong path, method, name, header or body.",
		}, []string{"status"}),
	}
	r.MustRegister(total, duration, m.inFlight, m.refused)

	count := func(method, protocol string) *Calls {
		c := &Calls{took: duration.WithLabelValues(method, protocol), inFlight: m.inFlight}
		for i := range c.byCode {
			c.byCode[i] = total.WithLabelValues(method, protocol, code.Code(i).String()) // as in answers and logs
		}
		return c
	}
	service := coordsvcv1.CoordinatorService_ServiceDesc
	for _, method := range service.Methods {
		full := "/" + service.ServiceName + "/" + method.MethodName
		for _, protocol := range []string{GRPC, REST} {
			m.byMethod[methodBy{full, protocol}] = count(method.MethodName, protocol)
		}
	}
	m.others = count(other, GRPC)
	for status := range refusalStatuses {
		m.refused.WithLabelValues(strconv.Itoa(status))
	}
	m.refused.WithLabelValues(other)
	return m
}

// refusalStatuses are those that a request can be refused with.
var refusalStatuses = map[int]bool{
	http.StatusBadRequest: true, http.StatusUnauthorized: true, http.StatusForbidden: true, http.StatusNotFound: true,
	http.StatusMethodNotAllowed: true, http.StatusRequestTimeout: true, http.StatusLengthRequired: true,
	http.StatusRequestEntityTooLarge: true, http.StatusRequestURITooLong: true, http.StatusUnsupportedMediaType: true,
	http.StatusTooManyRequests: true, http.StatusRequestHeaderFieldsTooLarge: true, http.StatusInternalServerError: true,
	http.StatusNotImplemented: true, http.StatusServiceUnavailable: true,
}

// Calls are those of a method by a protocol, whatever the method is called.
func (m *Metrics) Calls(fullMethod, protocol string) *Calls {
	if c, ok := m.calls.byMethod[methodBy{fullMethod, protocol}]; ok {
		return c
	}
	return m.calls.others
}

// Begin counts a call that begins.
func (c *Calls) Begin() { c.inFlight.Inc() }

// End counts a call that ends.
func (c *Calls) End(answer codes.Code, took time.Duration) {
	c.inFlight.Dec()
	c.took.Observe(took.Seconds())
	c.Count(answer)
}

// Count counts a call without its time.
func (c *Calls) Count(answer codes.Code) {
	if answer >= grpcCodes { // of a service that made one up
		answer = codes.Unknown
	}
	c.byCode[answer].Inc()
}

// Refused counts an HTTP request that did not become a call.
func (m *Metrics) Refused(status int) {
	label := other
	if refusalStatuses[status] {
		label = strconv.Itoa(status)
	}
	m.calls.refused.WithLabelValues(label).Inc()
}
