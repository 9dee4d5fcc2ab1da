package telemetry_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/telemetry"
	"github.com/coordsvc/coordsvc/pool"
	"github.com/coordsvc/coordsvc/service"
)

var goVersion = runtime.Version()

// page is what Prometheus reads of a cluster with those brokers.
func page(t *testing.T, sources telemetry.Sources) string {
	t.Helper()
	m := telemetry.NewMetrics(telemetry.Build{})
	if sources.Pool == nil {
		sources.Pool = func() pool.Stats { return pool.Stats{} }
	}
	if sources.Brokers == nil {
		sources.Brokers = func() []pool.BrokerStatus { return nil }
	}
	if sources.Finder == nil {
		sources.Finder = func() service.FinderStats { return service.FinderStats{} }
	}
	m.Collect(sources)
	m.Ready(func() bool { return true })
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, 200, w.Code, w.Body.String())
	return w.Body.String()
}

func TestBrokersBecomeABoundedNumberOfSeries(t *testing.T) {
	series := func(all []pool.BrokerStatus) (lines []string) {
		for line := range strings.Lines(page(t, telemetry.Sources{Brokers: func() []pool.BrokerStatus { return all }})) {
			if strings.HasPrefix(line, "coordsvc_broker_connections{") || strings.HasPrefix(line, "coordsvc_broker_reachable{") {
				lines = append(lines, strings.TrimSpace(strings.TrimPrefix(line, "coordsvc_broker_")))
			}
		}
		return lines
	}
	require.Empty(t, series(nil))
	require.ElementsMatch(t, []string{
		`connections{node="7",state="in_use"} 2`, `connections{node="7",state="idle"} 4`, `reachable{node="7"} 1`,
		`connections{node="unknown",state="in_use"} 2`, `connections{node="unknown",state="idle"} 4`, `reachable{node="unknown"} 2`,
	}, series(brokersOf(7, -1, 7, -1)), "a broker that moves is two endpoints for a while; a series twice would spoil the scrape")

	nodes := make([]int32, 2000)
	for i := range nodes {
		nodes[i] = int32(i)
	}
	lines := series(brokersOf(nodes...))
	require.Len(t, lines, 3*101)
	require.Contains(t, lines, `connections{node="99",state="idle"} 2`)
	require.Contains(t, lines, `connections{node="other",state="idle"} 3800`)
	require.Contains(t, lines, `reachable{node="other"} 1900`)
}

func TestBrokersThatLeftAreGone(t *testing.T) {
	all := brokersOf(1, 2)
	m := telemetry.NewMetrics(telemetry.Build{})
	m.Collect(telemetry.Sources{
		Pool:    func() pool.Stats { return pool.Stats{} },
		Brokers: func() []pool.BrokerStatus { return all },
		Finder:  func() service.FinderStats { return service.FinderStats{} },
	})
	scrape := func() string {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	require.Contains(t, scrape(), `node="2"`)
	all = brokersOf(1)
	require.NotContains(t, scrape(), `node="2"`)
}

func TestCertificatesAreShownWhereThereAreSome(t *testing.T) {
	require.NotContains(t, page(t, telemetry.Sources{}), "certificate")
	ends := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	got := page(t, telemetry.Sources{Certificates: func() []telemetry.Certificate {
		return []telemetry.Certificate{{Name: "server", NotAfter: ends}}
	}})
	require.Contains(t, got, `coordsvc_certificate_not_after_seconds{certificate="server"} 1.893553445e+09`)
}

// brokersOf are what a cluster may name.
func brokersOf(nodes ...int32) []pool.BrokerStatus {
	all := make([]pool.BrokerStatus, len(nodes))
	for i, node := range nodes {
		all[i] = pool.BrokerStatus{NodeID: node, Host: fmt.Sprint("kafka-", i), Port: 9092, Reachable: true, Open: 3, Idle: 2, InUse: 1}
	}
	return all
}
