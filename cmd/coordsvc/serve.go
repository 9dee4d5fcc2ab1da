package main

import (
	"errors"
	"log/slog"

	"github.com/coordsvc/coordsvc/internal/auth"
	"github.com/coordsvc/coordsvc/internal/config"
	"github.com/coordsvc/coordsvc/internal/memlimit"
	"github.com/coordsvc/coordsvc/internal/reload"
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
	if limit := memlimit.Set(); limit > 0 {
		logger.Info("the container bounds memory: the heap is kept below nine tenths of that (set GOMEMLIMIT to choose)", "bytes", limit)
	}
	seen, logger, err := observe(&loaded.Settings, logger)
	if err != nil {
		return err
	}
	defer seen.close(logger)
	defer keepHeapRoom()()
	instance, err := newInstance(&loaded.Settings, seen, logger)
	if err != nil {
		return named(err, loaded)
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
	cfg := serverConfig(&loaded.Settings)
	if err := instance.seen.show(&cfg, loaded); err != nil {
		return nil, err
	}
	srv, err := server.New(cfg, instance, instance.cluster.Ready, logger)
	if err != nil {
		return nil, named(err, loaded)
	}
	instance.seen.collect(instance.cluster, instance.finder, srv)
	return srv, srv.Listen()
}

// serverConfig is what the server needs of the settings.
func serverConfig(settings *config.Settings) server.Config {
	cfg := server.DefaultConfig()
	cfg.GRPCAddress = settings.GRPC.Address
	cfg.HTTPAddress = settings.HTTP.Address
	cfg.AdminAddress = settings.Admin.Address
	cfg.MaxTimeout = settings.Lookup.MaxTimeout
	cfg.MaxCallsInFlight = settings.Limits.MaxCallsInFlight
	cfg.MaxMessageBytes = int(settings.Limits.MaxMessageBytes)
	cfg.MaxConnectionAge = settings.Limits.MaxConnectionAge
	cfg.TLS = server.TLS{
		Enabled:      settings.TLS.Enabled,
		CertFile:     settings.TLS.CertFile,
		KeyFile:      settings.TLS.KeyFile,
		ClientCAFile: settings.TLS.ClientCAFile,
	}
	cfg.Auth = auth.Config{
		AllowedSubjects: settings.Auth.AllowedSubjects,
		TokenFile:       settings.Auth.TokenFile,
		OIDC: auth.OIDC{
			Issuer:    settings.Auth.OIDC.Issuer,
			Audiences: settings.Auth.OIDC.Audience,
			CAFile:    settings.Auth.OIDC.CAFile,
			ClockSkew: settings.Auth.OIDC.ClockSkew,
		},
		PolicyFile: settings.Auth.PolicyFile,
	}
	cfg.Reflection = settings.GRPC.Reflection
	cfg.Docs = settings.HTTP.Docs
	cfg.DrainDelay = settings.Shutdown.DrainDelay
	cfg.DrainTimeout = settings.Shutdown.DrainTimeout
	return cfg
}

// named is err with the place where the setting at fault was set, if one is.
func named(err error, loaded *config.Loaded) error {
	var file *reload.Error
	var setting *auth.SettingError
	switch {
	case errors.As(err, &file):
		err = &config.Error{Setting: file.Setting, Origin: loaded.Origin(file.Setting), Reason: file.Path + ": " + file.Err.Error()}
	case errors.As(err, &setting):
		err = &config.Error{Setting: setting.Setting, Origin: loaded.Origin(setting.Setting), Reason: setting.Err.Error()}
	default:
		return err
	}
	return failf(exitUsage, "%s", err)
}
