package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// stragglerTimeout is how long a call that was cut off may take to notice.
const stragglerTimeout = 2 * time.Second

// Run serves until ctx is done or a listener fails, then stops as stop says. It
// returns nil after a stop that was asked for, also when calls had to be cut off
// (the log has that). A Server runs once. What the service stands on may be
// closed once Run has returned: no call is in flight any more.
func (s *Server) Run(ctx context.Context) error {
	if s.grpcListener == nil {
		return errors.New("server: Run before Listen")
	}
	var serving sync.WaitGroup
	failed := make(chan error, 3)
	serve := func(name string, serve func(net.Listener) error, l net.Listener) {
		serving.Go(func() {
			if err := serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serving %s on %s: %w", name, l.Addr(), err)
			}
		})
	}
	s.grpc = s.newGRPC()
	serve("gRPC", s.grpc.Serve, unreadListener{s.grpcListener})
	serve("REST", s.rest.Serve, plainErrorListener{s.restListener, s.gate.restTLS(), s.front.unread, s.logger})
	serve("the admin port", s.admin.Serve, s.adminListener)

	following, stopFollowing := context.WithCancel(context.Background())
	serving.Go(func() { followReadiness(following, s.health, s.ready) })
	serving.Go(func() { s.gate.run(following, s.cfg.ReloadInterval, s.logger) })

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		s.logger.Error("a listener failed", "error", err)
	}
	s.stop()
	stopFollowing()
	serving.Wait()
	return err
}

// stop takes the server out of service without losing a call. Its steps:
//
//  1. Say not ready: /readyz answers 503, gRPC health NOT_SERVING, REST answers
//     ask to close their connections. Calls are still taken and answered.
//  2. Wait DrainDelay, so that load balancers and clients notice.
//  3. Drain gRPC and REST together: no new connection, no new call; those in
//     flight end. Streams that only watch (health, reflection) are ended.
//  4. At DrainTimeout, cut off what is left.
//  5. Wait until the calls that were cut off have left the service, so that
//     the caller of Run may close what they use.
//  6. Close the admin port, last, so that probes get an answer until here.
//
// A second signal that must not wait is the caller's business.
func (s *Server) stop() {
	s.logger.Info("stopping: not ready from now on", "drain_delay", s.cfg.DrainDelay.String())
	s.drain.stopping.Store(true) // 1
	s.health.Shutdown()

	<-time.After(s.cfg.DrainDelay) // 2

	s.logger.Info("stopping: draining", "calls_in_flight", s.inFlight.count(), "drain_timeout", s.cfg.DrainTimeout.String())
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	s.drain.endStreams() // 3 and 4
	var draining sync.WaitGroup
	draining.Go(func() { s.drainGRPC(ctx) })
	draining.Go(func() { s.drainREST(ctx) })
	draining.Wait()

	if left := s.inFlight.closeAndWait(stragglerTimeout); left > 0 { // 5
		s.logger.Error("stopping: calls did not end when they were cut off", "calls_in_flight", left)
	}

	_ = s.admin.Close() // 6
	s.logger.Info("stopped")
}

func (s *Server) drainGRPC(ctx context.Context) {
	drained := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(drained)
	}()
	select {
	case <-drained:
	case <-ctx.Done():
		s.logger.Warn("stopping: drain timeout, gRPC calls are cut off", "calls_in_flight", s.inFlight.count())
		s.grpc.Stop()
	}
}

func (s *Server) drainREST(ctx context.Context) {
	if err := s.rest.Shutdown(ctx); err != nil {
		s.logger.Warn("stopping: drain timeout, REST calls are cut off", "calls_in_flight", s.inFlight.count())
		_ = s.rest.Close()
	}
}
