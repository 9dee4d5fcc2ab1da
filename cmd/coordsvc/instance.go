package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/coordsvc/coordsvc/internal/brokerauth"
	"github.com/coordsvc/coordsvc/internal/config"
	"github.com/coordsvc/coordsvc/internal/socket"
	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
	"github.com/coordsvc/coordsvc/service"
)

// instance is the service without its ports: what serve, demo and lookup share.
type instance struct {
	*service.CoordinatorService

	cluster *pool.Cluster
	finder  *service.Finder
	secure  func() *tls.Config // what connections to brokers are secured with; nil: nothing
	seen    *observation
}

// newInstance puts the parts together. Nothing is dialled before start. seen is nil
// where nobody looks.
func newInstance(settings *config.Settings, seen *observation, logger *slog.Logger) (*instance, error) {
	secure, sasl, err := brokerAuth(settings, logger)
	if err != nil {
		return nil, err
	}
	cluster, err := pool.NewCluster(pool.Config{
		Bootstrap:               settings.Kafka.Brokers,
		ClientID:                settings.Kafka.ClientID,
		SoftwareName:            "coordsvc",
		SoftwareVersion:         thisBuild().version,
		DiscoverBrokers:         settings.Kafka.DiscoverBrokers,
		DialTimeout:             settings.Kafka.DialTimeout,
		RequestTimeout:          settings.Kafka.RequestTimeout,
		MaxAPIVersions:          kafkawire.Version(settings.Kafka.MaxAPIVersions),
		MaxConnectionsPerBroker: settings.Pool.MaxConnectionsPerBroker,
		MaxIdleTime:             settings.Pool.MaxIdleTime,
		MaxLifetime:             settings.Pool.MaxLifetime,
		AcquireTimeout:          settings.Pool.AcquireTimeout,
		MaxWaiters:              settings.Pool.MaxWaiters,
		TLS:                     secure,
		SASL:                    sasl,
		Dial:                    socket.Dial,
		Logger:                  logger,
	})
	if err != nil {
		return nil, failf(exitUsage, "%s", err)
	}
	finderConfig := service.FinderConfig{
		ChunkKeys:      settings.Lookup.ChunkKeys,
		PipelineWindow: settings.Lookup.PipelineWindow,
		RequestTimeout: settings.Kafka.RequestTimeout,
		MaxWaitingKeys: settings.Limits.MaxWaitingKeys,
		Logger:         logger,
	}
	seen.watchFinder(&finderConfig)
	finder := service.NewFinder(cluster, finderConfig)
	return &instance{
		CoordinatorService: service.NewCoordinatorService(finder, cluster, service.Limits{
			MaxKeys:        settings.Lookup.MaxKeys,
			DefaultTimeout: settings.Lookup.DefaultTimeout,
			MaxTimeout:     settings.Lookup.MaxTimeout,
		}),
		cluster: cluster,
		finder:  finder,
		secure:  secure,
		seen:    seen,
	}, nil
}

// brokerAuth reads the files that connections to brokers need. Nothing is dialled. The
// error is one for named.
func brokerAuth(settings *config.Settings, logger *slog.Logger) (func() *tls.Config, *pool.SASL, error) {
	secure, err := brokerauth.TLS(settings.Kafka.TLS, logger)
	if err != nil {
		return nil, nil, err
	}
	sasl, err := brokerauth.SASL(settings.Kafka.SASL, settings.Kafka.TLS.Enabled, logger)
	if err != nil {
		return nil, nil, err
	}
	return secure, sasl, nil
}

func (i *instance) start() { i.cluster.Start() }

// closeTimeout is what closing may take when calls or brokers hang.
const closeTimeout = 2 * time.Second

// close ends the lookups first, then the connections that they use.
func (i *instance) close(logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := i.finder.Close(ctx); err != nil {
		logger.Warn("stopping: lookups did not end in time", "error", err)
	}
	if err := i.cluster.Close(ctx); err != nil {
		logger.Warn("stopping: connections did not close in time", "error", err)
	}
}
