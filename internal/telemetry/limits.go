package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Limits are the settings whose limit the server can refuse a call for.
var Limits = []string{
	"limits.max-calls-in-flight", "limits.max-calls-memory", "limits.max-message-bytes", "limits.max-waiting-keys", "lookup.max-keys",
}

func newLimitMetrics(r *prometheus.Registry) *prometheus.CounterVec {
	met := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "limits_met_total",
		Help: "Calls that were refused for a limit, by its setting.",
	}, []string{"setting"})
	for _, setting := range Limits {
		met.WithLabelValues(setting)
	}
	r.MustRegister(met)
	return met
}

// LimitMet counts a call that met the limit of a setting.
func (m *Metrics) LimitMet(setting string) { m.limits.WithLabelValues(setting).Inc() }
