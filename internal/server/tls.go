package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordsvc/coordsvc/internal/auth"
	"github.com/coordsvc/coordsvc/internal/reload"
)

// TLS is what the gRPC and the REST port need to speak TLS. The admin port does
// not: probes must get through to it.
type TLS struct {
	Enabled bool
	// CertFile and KeyFile are PEM: the certificate with those between it and its
	// authority, and its private key.
	CertFile, KeyFile string
	// ClientCAFile has the authorities of client certificates. Where it is given
	// no connection is let in without one.
	ClientCAFile string
}

// tlsMaterial is what one reading of the files gave.
type tlsMaterial struct {
	grpc, rest *tls.Config
	leaf       *x509.Certificate
	clients    *auth.Authorities // nil: client certificates are not asked for
}

// loadTLS reads the files: no TLS that was asked for is ever left out because
// they are wrong.
func loadTLS(cfg TLS) (*reload.Value[tlsMaterial], error) {
	files := []reload.File{{Setting: "tls.cert-file", Path: cfg.CertFile}, {Setting: "tls.key-file", Path: cfg.KeyFile}}
	if cfg.ClientCAFile != "" {
		files = append(files, reload.File{Setting: "tls.client-ca-file", Path: cfg.ClientCAFile})
	}
	for _, file := range files[:2] {
		if file.Path == "" {
			return nil, &auth.SettingError{Setting: file.Setting, Err: errors.New("must be given where tls.enabled is true")}
		}
	}
	return reload.Load(files, func(contents [][]byte) (*tlsMaterial, error) { return parseTLS(files, contents) })
}

func parseTLS(files []reload.File, contents [][]byte) (*tlsMaterial, error) {
	if _, err := auth.ParseAuthorities(contents[0]); err != nil { // says what the next would put down to the key
		return nil, &reload.Error{File: files[0], Err: err}
	}
	if reload.IsEncryptedKey(contents[1]) {
		return nil, &reload.Error{File: files[1], Err: errors.New("is encrypted: store it decrypted, readable for the service alone")}
	}
	certificate, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, &reload.Error{File: files[1], Err: fmt.Errorf("is not the key of the certificate in %s (tls.cert-file): %w", files[0].Path, err)}
	}
	m := &tlsMaterial{leaf: certificate.Leaf}
	base := &tls.Config{
		Certificates: []tls.Certificate{certificate},
		MinVersion:   tls.VersionTLS12,
	}
	if len(files) > 2 {
		if m.clients, err = auth.ParseAuthorities(contents[2]); err != nil {
			return nil, &reload.Error{File: files[2], Err: err}
		}
		base.ClientCAs = m.clients.Pool
		base.ClientAuth = tls.RequireAndVerifyClientCert
		base.SessionTicketsDisabled = true // each connection is verified anew, with the authorities of now
	}
	m.grpc, m.rest = base.Clone(), base.Clone()
	m.grpc.NextProtos = []string{"h2"}
	m.rest.NextProtos = []string{"http/1.1"} // see plainErrorListener
	return m, nil
}

// current is a tls.Config that is, for each connection, what pick finds in the
// material of now.
func current(material *reload.Value[tlsMaterial], pick func(*tlsMaterial) *tls.Config) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return pick(material.Get()), nil },
	}
}

func (g *gate) grpcCredentials(logger *slog.Logger) credentials.TransportCredentials {
	if g.tls == nil {
		return insecure.NewCredentials()
	}
	return loggedHandshakes{credentials.NewTLS(current(g.tls, func(m *tlsMaterial) *tls.Config { return m.grpc })), logger}
}

type loggedHandshakes struct {
	credentials.TransportCredentials
	logger *slog.Logger
}

func (l loggedHandshakes) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := l.TransportCredentials.ServerHandshake(c)
	if err != nil {
		logHandshake(l.logger, "gRPC", c, err)
	}
	return secured, info, err
}

// logHandshake tells, at debug level, why a client never got as far as a call.
func logHandshake(logger *slog.Logger, protocol string, c net.Conn, err error) {
	logger.Debug("the TLS handshake of a client failed", "protocol", protocol, "peer", c.RemoteAddr().String(), "error", err)
}

// restTLS is nil where the REST port speaks plain HTTP.
func (g *gate) restTLS() *tls.Config {
	if g.tls == nil {
		return nil
	}
	return current(g.tls, func(m *tlsMaterial) *tls.Config { return m.rest })
}

// Certificate is the server's certificate.
type Certificate struct {
	NotAfter time.Time // when it expires
	Loaded   time.Time // when it was put into use
}

// Certificate is the certificate in use; ok is false where TLS is off.
func (s *Server) Certificate() (c Certificate, ok bool) {
	if s.gate.tls == nil {
		return Certificate{}, false
	}
	return Certificate{NotAfter: s.gate.tls.Get().leaf.NotAfter, Loaded: s.gate.tls.Status().Loaded}, true
}

// ReloadErrors says, by setting, whether files that changed after the start, or
// the keys of an OIDC issuer, can be used; what was there before stays in use
// where the error is not nil. What is not configured has no entry.
func (s *Server) ReloadErrors() map[string]error {
	errs := s.gate.auth.Errors()
	if s.gate.tls != nil {
		errs["tls.cert-file"] = s.gate.tls.Status().Err
	}
	return errs
}
