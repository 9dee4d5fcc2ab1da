package telemetry_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/telemetry"
	"github.com/coordsvc/coordsvc/pool"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md")

// families are all metrics of a registry that has everything to show, by name.
func families(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	cluster, err := pool.NewCluster(pool.Config{Bootstrap: []string{"kafka-1.example:9092"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close(t.Context())) }()
	text := page(t, telemetry.Sources{
		Pool:    cluster.Stats,
		Brokers: func() []pool.BrokerStatus { return brokersOf(1) },
		Certificates: func() []telemetry.Certificate {
			return []telemetry.Certificate{{Name: "server", NotAfter: time.Now()}}
		},
	})
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	return all
}

// openLabels have values that are not ours to list.
var openLabels = map[string]string{
	"node": "id of a broker", "go_version": "of Go", "version": "of coordsvc", "commit": "of git", "certificate": "`server`, that of tls.cert-file; `kafka`, that of kafka.tls.cert-file",
}

func TestDocs(t *testing.T) {
	const path = "../../docs/metrics.md"
	var b strings.Builder
	b.WriteString(`# Metrics

<!-- Made from the registry. To change it: go test ./internal/telemetry -run TestDocs -update -->

The admin port serves them at ` + "`/metrics`" + `, for Prometheus. A dashboard for Grafana is
[deploy/grafana/coordsvc.json](../deploy/grafana/coordsvc.json), alerts are
[deploy/prometheus/coordsvc.rules.yaml](../deploy/prometheus/coordsvc.rules.yaml).

No label holds anything that a caller chose: no key, path, address or user agent. Values that a broker chose are its
node id, for at most 100 brokers. What is in no table is ` + "`other`" + `. So the number of series has a bound.
A metric whose name ends in ` + "`_total`" + ` counts from the start of the process; a histogram has ` + "`_bucket`, `_sum` and `_count`" + `.

Beside these there are ` + "`go_*`" + ` and ` + "`process_*`" + `, which every Go program has: memory, goroutines, processor, open files.
`)
	all := families(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(name, "coordsvc_") {
			continue
		}
		family := all[name]
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n- Type: %s\n", name, family.GetHelp(), strings.ToLower(family.GetType().String()))
		for _, label := range labelsOf(family) {
			fmt.Fprintf(&b, "- Label `%s`: %s\n", label, labelValues(family, name, label))
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(have), "docs/metrics.md is not what the registry says: run make generate")
}

func labelsOf(family *dto.MetricFamily) []string {
	var names []string
	for _, pair := range family.GetMetric()[0].GetLabel() {
		names = append(names, pair.GetName())
	}
	return names
}

func labelValues(family *dto.MetricFamily, name, label string) string {
	if name == "coordsvc_build_info" || label == "node" || label == "certificate" {
		return openLabels[label]
	}
	values := map[string]bool{}
	for _, m := range family.GetMetric() {
		for _, pair := range m.GetLabel() {
			if pair.GetName() == label {
				values["`"+pair.GetValue()+"`"] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(values)), ", ")
}

var metricName = regexp.MustCompile(`\bcoordsvc_[a-z_]*[a-z]\b`)

// What the dashboard, the alerts, their tests and the documents name must exist: a
// panel or an alert on a metric that is gone is silent for ever.
func TestNamedMetricsExist(t *testing.T) {
	exists := map[string]bool{}
	for name, family := range families(t) {
		exists[name] = true
		if family.GetType() == dto.MetricType_HISTOGRAM {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				exists[name+suffix] = true
			}
		}
	}
	var files []string
	for _, pattern := range []string{"../../deploy/grafana/*.json", "../../deploy/prometheus/*.yaml", "../../docs/*.md", "../../README.md"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		files = append(files, found...)
	}
	named := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, name := range metricName.FindAllString(string(text), -1) {
			require.True(t, exists[name], "%s names %s, which does not exist", file, name)
			named[name] = true
		}
	}
	require.Greater(t, len(named), 20)
}
