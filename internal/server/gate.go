package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/coordsvc/coordsvc/internal/auth"
	"github.com/coordsvc/coordsvc/internal/reload"
)

// gate decides who gets in: TLS and the authenticator, for both protocols.
type gate struct {
	auth *auth.Authenticator
	tls  *reload.Value[tlsMaterial] // nil: TLS is off
}

// Check says what is wrong with cfg and with the files that it names, as New does.
// Errors of settings are *reload.Error and *auth.SettingError.
func Check(cfg Config) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	_, err := newGate(cfg)
	return err
}

func newGate(cfg Config) (*gate, error) {
	g := &gate{}
	var err error
	switch {
	case cfg.TLS.Enabled:
		if g.tls, err = loadTLS(cfg.TLS); err != nil {
			return nil, err
		}
	case cfg.TLS.ClientCAFile != "" || cfg.Auth.Certificates:
		return nil, &auth.SettingError{Setting: "tls.client-ca-file", Err: errors.New("is given, but tls.enabled is false")}
	}
	cfg.Auth.Certificates = cfg.TLS.ClientCAFile != ""
	if g.auth, err = auth.New(cfg.Auth); err != nil {
		return nil, err
	}
	return g, nil
}

// run follows the files and the issuer's keys until ctx is done.
func (g *gate) run(ctx context.Context, every time.Duration, logger *slog.Logger) {
	var running sync.WaitGroup
	running.Go(func() { g.auth.Run(ctx, every, logger) })
	if g.tls != nil {
		running.Go(func() { reload.Watch(ctx, every, logger, g.tls) })
	}
	running.Wait()
}

// admit says who is calling; the error is an *auth.RefusalError.
func (g *gate) admit(ctx context.Context, authorization []string) (auth.Caller, error) {
	shown := auth.Credentials{Authorization: authorization}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			shown.TLS = &info.State
		}
	}
	if g.tls != nil && shown.TLS != nil {
		if clients := g.tls.Get().clients; clients != nil && !clients.StillTrust(shown.TLS.VerifiedChains) {
			return auth.Caller{}, &auth.RefusalError{Kind: auth.Unauthenticated, Cause: auth.CauseCertificateRefused,
				Message: "the client certificate of this connection has expired, or its authority is trusted no more: connect with a new one"}
		}
	}
	return g.auth.Authenticate(ctx, shown)
}

// authorizationOf are the values of the authorization header of a gRPC call.
func authorizationOf(ctx context.Context) []string {
	return metadata.ValueFromIncomingContext(ctx, "authorization")
}

// warn says, when the server listens, what makes it less safe than it could be.
func (s *Server) warn() {
	secrets := []reload.File{{Setting: "auth.token-file", Path: s.cfg.Auth.TokenFile}}
	if s.cfg.TLS.Enabled {
		secrets = append(secrets, reload.File{Setting: "tls.key-file", Path: s.cfg.TLS.KeyFile})
		if c, ok := s.Certificate(); ok && time.Now().After(c.NotAfter) {
			s.logger.Warn("the certificate has expired: clients will refuse it", "setting", "tls.cert-file",
				"file", s.cfg.TLS.CertFile, "not_after", c.NotAfter)
		}
	}
	for _, file := range secrets {
		if file.Path != "" && reload.ReadableByAll(file.Path) {
			s.logger.Warn("every user of this machine can read a secret: take the right away (chmod o-r; in Kubernetes defaultMode: 0440)",
				"setting", file.Setting, "file", file.Path)
		}
	}
	s.warnExposed()
}

// warnExposed is one line, and none where only this machine can connect.
func (s *Server) warnExposed() {
	var exposed []string
	for _, l := range []net.Listener{s.grpcListener, s.restListener} {
		if tcp, ok := l.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
			exposed = append(exposed, l.Addr().String())
		}
	}
	encrypted, open := s.cfg.TLS.Enabled, s.cfg.TLS.ClientCAFile == "" && !s.cfg.Auth.Bearer()
	var lacks, then string
	switch {
	case len(exposed) == 0 || encrypted && !open:
		return
	case !encrypted && open:
		lacks, then = "without TLS and without authentication", "whoever reaches these ports can look up keys, and read the answers of others"
	case open:
		lacks, then = "without authentication", "whoever reaches these ports can look up keys"
	default:
		lacks, then = "without TLS", "whoever is on the way can read tokens and answers"
	}
	s.logger.Warn(fmt.Sprintf("listening beyond this machine %s: %s", lacks, then), "addresses", exposed,
		"settings", "tls.enabled, tls.client-auth, auth.token-file, auth.oidc.issuer")
}
