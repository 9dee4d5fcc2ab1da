// Package telemetry is what can be seen of a running coordsvc from outside:
// Prometheus metrics, OpenTelemetry traces, and the trace ids in log lines. The
// packages that do the work know neither; they tell an Observer, or count.
//
// No label is chosen by a caller or by a broker: methods, codes, reasons, versions
// and states come from tables of ours, and what is in none of them is "other". Keys,
// addresses and user agents are never a label. The one label that comes from outside
// is the node id of a broker, for a bounded number of brokers; one that left the
// cluster is gone at the next scrape. So the number of series has a bound, whoever asks.
//
// To add a metric: declare it in the file of its subject (calls.go, lookups.go,
// collector.go), then rewrite docs/metrics.md: go test ./internal/telemetry -run TestDocs -update.
package telemetry
