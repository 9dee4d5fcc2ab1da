package main

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"github.com/coordsvc/coordsvc/internal/config"
	"github.com/coordsvc/coordsvc/internal/server"
	"github.com/coordsvc/coordsvc/internal/telemetry"
	"github.com/coordsvc/coordsvc/service"
)

// observation is what shows a running service to those who run it. It is nil in
// commands that serve nothing, whose methods then do nothing.
type observation struct {
	metrics *telemetry.Metrics
	tracing *telemetry.Tracing // nil: off
}

// observe begins the observation, and returns the logger to use from then on.
func observe(settings *config.Settings, logger *slog.Logger) (*observation, *slog.Logger, error) {
	build := thisBuild()
	o := &observation{metrics: telemetry.NewMetrics(telemetry.Build{Version: build.version, Commit: build.commit})}
	if settings.Tracing.Endpoint == "" {
		return o, logger, nil
	}
	logger = slog.New(telemetry.LogTraces(logger.Handler()))
	tracing, err := telemetry.NewTracing(telemetry.TracingConfig{
		Endpoint:    settings.Tracing.Endpoint,
		SampleRatio: settings.Tracing.SampleRatio,
		Version:     build.version,
		Logger:      logger,
	})
	if err != nil {
		return nil, nil, failf(exitUsage, "%s", err)
	}
	o.tracing = tracing
	return o, logger, nil
}

// watchFinder has the finder tell what it does.
func (o *observation) watchFinder(cfg *service.FinderConfig) {
	if o == nil {
		return
	}
	cfg.Observer = o.metrics
	if o.tracing != nil { // a nil *Tracing would be no nil Tracer
		cfg.Tracer = o.tracing
	}
}

// collect makes metrics of what the parts count themselves.
func (o *observation) collect(i *instance, srv *server.Server) {
	if o == nil {
		return
	}
	sources := telemetry.Sources{Pool: i.cluster.Stats, Brokers: i.cluster.Brokers, Finder: i.finder.Stats}
	certificates := func() []telemetry.Certificate { return certificatesInUse(i, srv) }
	if len(certificates()) > 0 {
		sources.Certificates = certificates
	}
	o.metrics.Collect(sources)
}

// certificatesInUse are those that callers and brokers are shown.
func certificatesInUse(i *instance, srv *server.Server) []telemetry.Certificate {
	var list []telemetry.Certificate
	if c, ok := srv.Certificate(); ok {
		list = append(list, telemetry.Certificate{Name: "server", NotAfter: c.NotAfter})
	}
	if i.secure != nil {
		for _, c := range i.secure().Certificates {
			list = append(list, telemetry.Certificate{Name: "kafka", NotAfter: c.Leaf.NotAfter})
		}
	}
	return list
}

// show has the server show what there is to see.
func (o *observation) show(cfg *server.Config, loaded *config.Loaded) error {
	var settings bytes.Buffer
	if err := settingsJSON(&settings, loaded.Entries()); err != nil {
		return err
	}
	cfg.Metrics, cfg.Tracing = o.metrics, o.tracing
	cfg.OnLimit = o.metrics.LimitMet
	cfg.Settings = settings.Bytes()
	cfg.Pprof = loaded.Admin.Pprof
	return nil
}

// flushTimeout is what delivering the last spans may take.
const flushTimeout = 3 * time.Second

// close delivers the last spans. It comes after the calls and the lookups have ended.
func (o *observation) close(logger *slog.Logger) {
	if o == nil || o.tracing == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := o.tracing.Close(ctx); err != nil {
		logger.Warn("stopping: the last traces were not delivered", "error", err)
	}
}
