package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
	"github.com/coordsvc/coordsvc/service"
)

// found is the outcome of a key whose coordinator was found.
const found = "FOUND"

var _ service.Observer = (*Metrics)(nil)

type lookupMetrics struct {
	types        map[kafkawire.KeyType]*typeMetrics
	requestKeys  prometheus.Histogram
	exchange     prometheus.Histogram
	failures     map[pool.ErrorKind]prometheus.Counter
	acquireWait  prometheus.Histogram
	acquireFails prometheus.Counter
}

// typeMetrics are those of the keys of one type.
type typeMetrics struct {
	found    prometheus.Counter
	byReason map[service.Reason]prometheus.Counter
	other    prometheus.Counter
	retries  prometheus.Counter
}

func newLookupMetrics(r *prometheus.Registry) lookupMetrics {
	keys := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "keys_total",
		Help: "Keys that were answered, by what callers got: " + found + ", or the reason as in errors.md; \"other\" is every reason that is not there.",
	}, []string{"key_type", "outcome"})
	retries := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "key_retries_total",
		Help: "Keys that were asked of Kafka again, because the last outcome was retriable, or because a broker took long to give one.",
	}, []string{"key_type"})
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "exchange_failures_total",
		Help: "Exchanges with brokers that did not end well, by what went wrong. Error codes in good answers are not counted here.",
	}, []string{"kind"})
	m := lookupMetrics{
		types:    make(map[kafkawire.KeyType]*typeMetrics),
		failures: make(map[pool.ErrorKind]prometheus.Counter),
		requestKeys: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "kafka_request_keys",
			Help:    "Keys in one FindCoordinator request on the wire; always 1 with brokers before Kafka 3.0.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000},
		}),
		exchange: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "exchange_duration_seconds",
			Help:    "How long brokers took to answer the FindCoordinator requests of a batch on one connection, failures too.",
			Buckets: seconds,
		}),
		acquireWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "acquire_wait_seconds",
			Help:    "How long batches waited for a connection to a broker, also where they got none.",
			Buckets: []float64{.0001, .001, .01, .1, .5, 1, 2, 5},
		}),
		acquireFails: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "acquire_failures_total",
			Help: "Batches that got no connection to a broker.",
		}),
	}
	r.MustRegister(keys, retries, failures, m.requestKeys, m.exchange, m.acquireWait, m.acquireFails)

	for _, t := range []kafkawire.KeyType{kafkawire.KeyTypeGroup, kafkawire.KeyTypeTransaction, kafkawire.KeyTypeShare} {
		name := t.String()
		tm := &typeMetrics{
			found:    keys.WithLabelValues(name, found),
			byReason: make(map[service.Reason]prometheus.Counter),
			other:    keys.WithLabelValues(name, other),
			retries:  retries.WithLabelValues(name),
		}
		for _, c := range service.Contracts() {
			tm.byReason[c.Reason] = keys.WithLabelValues(name, string(c.Reason))
		}
		m.types[t] = tm
	}
	for kind := pool.Unreachable; kind.String() != pool.ErrorKind(0).String(); kind++ {
		m.failures[kind] = failures.WithLabelValues(kind.String())
	}
	m.failures[0] = failures.WithLabelValues(other)
	return m
}

// Acquired implements service.Observer.
func (m *Metrics) Acquired(waited time.Duration, got bool) {
	m.lookups.acquireWait.Observe(waited.Seconds())
	if !got {
		m.lookups.acquireFails.Inc()
	}
}

// Exchanged implements service.Observer.
func (m *Metrics) Exchanged(e service.Exchange) {
	l := &m.lookups
	l.exchange.Observe(e.Took.Seconds())
	if e.Requests > 0 {
		each := float64(e.Keys) / float64(e.Requests)
		for range e.Requests {
			l.requestKeys.Observe(each)
		}
	}
	if e.Err != nil {
		l.failures[pool.KindOf(e.Err)].Inc()
	}
}

// Retried implements service.Observer.
func (m *Metrics) Retried(t kafkawire.KeyType, keys int) {
	m.lookups.types[t].retries.Add(float64(keys))
}

// Answered implements service.Observer.
func (m *Metrics) Answered(t kafkawire.KeyType, results []service.Result) {
	tm := m.lookups.types[t]
	good := 0
	for i := range results {
		e := results[i].Err
		if e == nil {
			good++
			continue
		}
		if counter, ok := tm.byReason[e.Reason]; ok {
			counter.Inc()
		} else {
			tm.other.Inc()
		}
	}
	tm.found.Add(float64(good))
}
