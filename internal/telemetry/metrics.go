package telemetry

import (
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// namespace begins the name of every metric that is ours.
const namespace = "coordsvc"

// other is the label value of all that is in no table here.
const other = "other"

// Metrics are the metrics of one instance of coordsvc, in a registry of their own.
// It is a service.Observer.
type Metrics struct {
	registry *prometheus.Registry
	calls    callMetrics
	lookups  lookupMetrics
	limits   *prometheus.CounterVec
}

// Build says what the binary was built from.
type Build struct{ Version, Commit string }

// NewMetrics makes the metrics that need nothing but to be told. See Collect for the others.
func NewMetrics(build Build) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.calls = newCallMetrics(m.registry)
	m.lookups = newLookupMetrics(m.registry)
	m.limits = newLimitMetrics(m.registry)
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info",
		Help: "Always 1; its labels say what is running.",
		ConstLabels: prometheus.Labels{
			"version": build.Version, "commit": build.Commit, "go_version": runtime.Version(),
		},
	})
	info.Set(1)
	m.registry.MustRegister(info, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// scrapesAtOnce is how many scrapes are answered at one time; more get a 503.
const scrapesAtOnce = 4

// Handler is the page that Prometheus reads. A metric that cannot be collected does
// not keep the others back.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: scrapesAtOnce,
	})
}

// Ready has the readiness shown that ready tells.
func (m *Metrics) Ready(ready func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "ready",
		Help: "1 while the instance is ready, that is: a broker answered lately and it is not stopping. Else 0.",
	}, func() float64 { return zeroOrOne(ready()) }))
}

func zeroOrOne(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
