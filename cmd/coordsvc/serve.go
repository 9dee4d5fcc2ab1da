package main

import (
	"log/slog"

	"github.com/coordsvc/coordsvc/internal/config"
	"github.com/coordsvc/coordsvc/internal/server"
)

// requiredToServe are the settings that serve has no default for.
var requiredToServe = []string{"kafka.brokers"}

type serveCmd struct {
	settingsFlags
}

// Help is shown by kong under the usage.
func (serveCmd) Help() string {
	return `It starts while Kafka is down and answers as soon as it is up. SIGTERM or Ctrl-C drains it; a second one stops it at once.

Examples:

    coordsvc serve --kafka-brokers kafka-1.example:9092,kafka-2.example:9092
    coordsvc serve --config coordsvc.yaml --log-format json
    COORDSVC_KAFKA_BROKERS=kafka-1.example:9092 coordsvc serve --http-address 127.0.0.1:0`
}

// Run serves until the signal to stop.
func (c *serveCmd) Run(inv *invocation) error {
	loaded, err := c.load(inv, requiredToServe...)
	if err != nil {
		return err
	}
	logger, err := newLogger(inv.err, loaded.Log)
	if err != nil {
		return err
	}
	logger.Info("starting", "version", thisBuild().version, "brokers", loaded.Kafka.Brokers)
	seen, logger, err := observe(&loaded.Settings, logger)
	if err != nil {
		return err
	}
	defer seen.close(logger)
	instance, err := newInstance(&loaded.Settings, seen, logger)
	if err != nil {
		return err
	}
	defer instance.close(logger)
	srv, err := listen(loaded, instance, logger)
	if err != nil {
		return err
	}
	instance.start()
	return srv.Run(inv.ctx)
}

// listen opens the ports. Calls are answered once the server runs.
func listen(loaded *config.Loaded, instance *instance, logger *slog.Logger) (*server.Server, error) {
	settings := &loaded.Settings
	cfg := server.DefaultConfig()
	cfg.GRPCAddress = settings.GRPC.Address
	cfg.HTTPAddress = settings.HTTP.Address
	cfg.AdminAddress = settings.Admin.Address
	cfg.MaxTimeout = settings.Lookup.MaxTimeout
	cfg.DrainDelay = settings.Shutdown.DrainDelay
	cfg.DrainTimeout = settings.Shutdown.DrainTimeout
	if err := instance.seen.show(&cfg, loaded); err != nil {
		return nil, err
	}
	srv, err := server.New(cfg, instance, instance.cluster.Ready, logger)
	if err != nil {
		return nil, err
	}
	return srv, srv.Listen()
}
