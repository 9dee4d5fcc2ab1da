package telemetry

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coordsvc/coordsvc/pool"
	"github.com/coordsvc/coordsvc/service"
)

// Sources are asked at every scrape for what others count. Each must be cheap.
type Sources struct {
	Pool    func() pool.Stats
	Brokers func() []pool.BrokerStatus
	Finder  func() service.FinderStats
	// Certificates are those in use, by a name of ours. Nil where there are none:
	// then there is no metric of them.
	Certificates func() []Certificate
}

// Certificate is one that ends at NotAfter. Its name ("server", "kafka") is a label.
type Certificate struct {
	Name     string
	NotAfter time.Time
}

// Collect adds the metrics that are made of what the sources tell.
func (m *Metrics) Collect(s Sources) { m.registry.MustRegister(collector{s}) }

// brokersShown is how many brokers have series of their own, those with the lowest
// ids. The others are summed up as "other": a broker may name 2,000 more.
const brokersShown = 100

// collector makes metrics at the time of the scrape, so that what is gone is gone.
type collector struct{ Sources }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

var (
	poolConnections = desc("pool_connections", "Connections to brokers, by state: lent for an exchange, idle, or being made. The first two are open.", "state")
	poolWaiters     = desc("pool_waiters", "Batches that wait for a connection to a broker.")
	poolAcquires    = desc("pool_acquires_total", "Connections that were lent for an exchange.")
	poolWaits       = desc("pool_waits_total", "How often a connection was not at hand and had to be waited for.")
	poolExhausted   = desc("pool_exhausted_total", "How often a connection was not lent because all were busy for too long, or too many waited.")
	poolDials       = desc("pool_dials_total", "Attempts to make a connection ready (dial, TLS, versions, SASL), by outcome.", "outcome")
	poolRetirements = desc("pool_retirements_total", "Connections that were closed, by reason.", "reason")
	poolRenewals    = desc("pool_renewals_total", "SASL sessions that were renewed on their connection (KIP-368), by outcome: renewed, or failed and the connection replaced.", "outcome")
	kafkaRequests   = desc("kafka_requests_total", "Requests that were sent to brokers, by API and version.", "api", "version")

	brokerConnections = desc("broker_connections", "Open connections to a broker, by its node id and their state. Brokers without a known id are \"unknown\", "+
		"and those beyond the first "+strconv.Itoa(brokersShown)+" \"other\".", "node", "state")
	brokerReachable = desc("broker_reachable", "1 while the broker is connected and has not failed since, else 0; for \"unknown\" and \"other\" how many are.", "node")
	brokers         = desc("brokers", "Brokers that are known, by whether they are reachable.", "reachable")

	waitingKeys    = desc("waiting_keys", "Keys that callers wait for.")
	maxWaitingKeys = desc("waiting_keys_limit", "The most keys that callers may wait for (limits.max-waiting-keys). Calls beyond it are refused as OVERLOADED.")
	unsentKeys     = desc("unsent_keys", "Different keys that no batch has taken yet.")
	batches        = desc("batches_in_flight", "Batches that wait for a connection or an answer.")

	certificateExpiry = desc("certificate_not_after_seconds", "When a certificate in use ends, in seconds since 1970.", "certificate")
)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		poolConnections, poolWaiters, poolAcquires, poolWaits, poolExhausted, poolDials, poolRetirements, poolRenewals, kafkaRequests,
		brokerConnections, brokerReachable, brokers, waitingKeys, maxWaitingKeys, unsentKeys, batches,
	} {
		ch <- d
	}
	if c.Certificates != nil {
		ch <- certificateExpiry
	}
}

// scrape sends metrics of one scrape.
type scrape chan<- prometheus.Metric

func (ch scrape) gauge(d *prometheus.Desc, value int, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
}

func (ch scrape) counter(d *prometheus.Desc, value int64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	ch := scrape(metrics)
	ch.pool(c.Pool())
	ch.brokers(c.Brokers())
	f := c.Finder()
	ch.gauge(waitingKeys, f.WaitingKeys)
	ch.gauge(maxWaitingKeys, f.MaxWaitingKeys)
	ch.gauge(unsentKeys, f.UnsentKeys)
	ch.gauge(batches, f.Batches)
	if c.Certificates == nil {
		return
	}
	for _, cert := range c.Certificates() {
		ch.gauge(certificateExpiry, int(cert.NotAfter.Unix()), cert.Name)
	}
}

func (ch scrape) pool(s pool.Stats) {
	ch.gauge(poolConnections, s.InUse, "in_use")
	ch.gauge(poolConnections, s.Idle, "idle")
	ch.gauge(poolConnections, s.Dialing, "dialing")
	ch.gauge(poolWaiters, s.Waiting)
	ch.counter(poolAcquires, s.Acquired)
	ch.counter(poolWaits, s.Waited)
	ch.counter(poolExhausted, s.Exhausted)
	for outcome, n := range s.Dials {
		ch.counter(poolDials, n, outcome)
	}
	for reason, n := range s.Retired {
		ch.counter(poolRetirements, n, reason)
	}
	ch.counter(poolRenewals, s.Renewals, "renewed")
	ch.counter(poolRenewals, s.FailedRenewals, "failed")
	for _, r := range s.Requests {
		ch.counter(kafkaRequests, r.Count, r.API.String(), strconv.Itoa(int(r.Version)))
	}
}

// brokers sums up by node id. Two endpoints may have one id for a while, when a
// broker moves: two series of one name would spoil the whole scrape.
func (ch scrape) brokers(all []pool.BrokerStatus) {
	type sum struct{ inUse, idle, reachable int }
	slices.SortFunc(all, func(a, b pool.BrokerStatus) int { return cmp.Compare(a.NodeID, b.NodeID) })
	sums := make(map[string]sum)
	reachable, shown, last := 0, 0, int32(-1)
	for i := range all {
		b := &all[i]
		node := strconv.Itoa(int(b.NodeID))
		switch {
		case b.NodeID < 0:
			node = "unknown"
		case b.NodeID == last: // shares the series of the one before it
		case shown < brokersShown:
			shown, last = shown+1, b.NodeID
		default:
			node = other
		}
		s := sums[node]
		s.inUse += b.InUse
		s.idle += b.Idle
		if b.Reachable {
			s.reachable++
			reachable++
		}
		sums[node] = s
	}
	for node, s := range sums {
		ch.gauge(brokerConnections, s.inUse, node, "in_use")
		ch.gauge(brokerConnections, s.idle, node, "idle")
		if node != other && node != "unknown" {
			s.reachable = min(s.reachable, 1)
		}
		ch.gauge(brokerReachable, s.reachable, node)
	}
	ch.gauge(brokers, reachable, "true")
	ch.gauge(brokers, len(all)-reachable, "false")
}
