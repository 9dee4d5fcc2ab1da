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
	logger, end, err := newServiceLogger(inv.ctx, inv.err, loaded.Log)
	if err != nil {
		return err
	}
	defer end()
	logger.Info("starting", "version", thisBuild().version, "brokers", loaded.Kafka.Brokers)
	if limit := memlimit.Set(); limit > 0 {
		logger.Info("the container bounds memory: the heap is kept below nine tenths of that (set GOMEMLIMIT to choose)", "bytes", limit)
	}
	open, err := openService(loaded, logger)
	if err != nil {
		return err
	}
	defer open.close()
	defer keepHeapRoom()()
	return open.Run(inv.ctx)
}

// openedService is an instance that listens. Calls are answered once the server runs.
type openedService struct {
	*server.Server

	instance *instance
	logger   *slog.Logger
}

// openService makes all parts of the service and opens its ports.
func openService(loaded *config.Loaded, logger *slog.Logger) (*openedService, error) {
	for _, warning := range loaded.Warnings {
		logger.Warn(warning)
	}
	seen, logger, err := observe(&loaded.Settings, logger)
	if err != nil {
		return nil, err
	}
	open := &openedService{logger: logger}
	if open.instance, err = newInstance(&loaded.Settings, seen, logger); err != nil {
		seen.close(logger)
		return nil, named(err, loaded)
	}
	if err := open.listen(loaded); err != nil {
		open.close()
		return nil, err
	}
	open.instance.start()
	return open, nil
}

func (o *openedService) listen(loaded *config.Loaded) error {
	cfg := serverConfig(&loaded.Settings)
	if err := o.instance.seen.show(&cfg, loaded); err != nil {
		return err
	}
	var err error
	if o.Server, err = server.New(cfg, o.instance, o.instance.cluster.Ready, o.logger); err != nil {
		return named(err, loaded)
	}
	o.instance.seen.collect(o.instance, o.Server)
	return o.Listen()
}

func (o *openedService) close() {
	o.instance.close(o.logger)
	o.instance.seen.close(o.logger)
}

// serverConfig is what the server needs of the settings.
func serverConfig(settings *config.Settings) server.Config {
	cfg := server.DefaultConfig()
	cfg.GRPCAddress = settings.GRPC.Address
	cfg.HTTPAddress = settings.HTTP.Address
	cfg.AdminAddress = settings.Admin.Address
	cfg.MaxTimeout = settings.Lookup.MaxTimeout
	cfg.MaxCallsInFlight = settings.Limits.MaxCallsInFlight
	cfg.MaxKeys = settings.Lookup.MaxKeys
	cfg.MaxMemory = int64(settings.Limits.MaxCallsMemory)
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
