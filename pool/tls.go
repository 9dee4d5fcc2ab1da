package pool

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

// secure does the TLS handshake, where TLS is wanted.
func (e *endpoint) secure(ctx context.Context, c *conn) error {
	if e.cfg.TLS == nil {
		return nil
	}
	cfg := e.cfg.TLS().Clone()
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = splitAddr(e.addr)
	}
	handshakeCtx, cancel := context.WithTimeout(ctx, e.cfg.DialTimeout)
	defer cancel()
	secured := tls.Client(c.raw, cfg)
	err := secured.HandshakeContext(handshakeCtx)
	switch {
	case err == nil:
		c.nc, c.certified = secured, len(cfg.Certificates) > 0
		e.spokeTLS.Store(true)
		return nil
	case errors.Is(ctx.Err(), context.Canceled), errors.Is(err, net.ErrClosed) && ctx.Err() != nil:
		return &Error{Kind: Closed, Addr: e.addr, Op: opTLS, Err: errors.New("the pool was closed")}
	case isTimeout(err):
		return &Error{Kind: Timeout, Addr: e.addr, Op: opTLS, Err: fmt.Errorf("the broker did not finish the handshake within %s (a plaintext listener may be silent)", e.cfg.DialTimeout)}
	case isHangUp(err) && e.spokeTLS.Load():
		return &Error{Kind: Unreachable, Addr: e.addr, Op: opTLS, Err: fmt.Errorf("the connection was lost during the handshake: %w", ioCause(e.addr, err))}
	default:
		return &Error{Kind: TLSFailed, Addr: e.addr, Op: opTLS, Err: tlsTrouble(err, cfg)}
	}
}

const opTLS = "TLS handshake"

func isHangUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// tlsTrouble says in words what a failed handshake means and what to do.
func tlsTrouble(err error, cfg *tls.Config) error {
	var (
		invalid   x509.CertificateInvalidError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		noTLS     tls.RecordHeaderError
	)
	err = asTold(err)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%s: %w", validity(invalid.Cert), err)
	case errors.As(err, &authority):
		return fmt.Errorf("the broker's certificate%s is signed by an authority that is not trusted here; kafka.tls.ca-file names those that are: %w",
			issuer(authority.Cert), err)
	case errors.As(err, &name):
		return fmt.Errorf("the broker's certificate is not for the name %q (it is for %s); use a name that it has in kafka.brokers, or set kafka.tls.server-name: %w",
			cfg.ServerName, certificateNames(name.Certificate), err)
	case errors.As(err, &noTLS):
		return errors.New("the listener does not speak TLS, it answered with something else; use its TLS port, or unset kafka.tls.enabled")
	case isAlert(err):
		return alertTrouble(err, len(cfg.Certificates) > 0)
	case isHangUp(err):
		return errors.New("the broker closed the connection in place of an answer, as a plaintext listener does; use its TLS port, or unset kafka.tls.enabled")
	default:
		return err
	}
}

func validity(cert *x509.Certificate) string {
	switch now := time.Now(); {
	case cert == nil:
		return "the broker's certificate is not valid now"
	case now.Before(cert.NotBefore):
		return fmt.Sprintf("the broker's certificate is not valid before %s (is a clock wrong?)", cert.NotBefore.UTC().Format(time.RFC3339))
	default:
		return fmt.Sprintf("the broker's certificate has expired on %s", cert.NotAfter.UTC().Format(time.RFC3339))
	}
}

func issuer(cert *x509.Certificate) string {
	if cert == nil {
		return ""
	}
	return fmt.Sprintf(" (of %q)", Excerpt(cert.Issuer.String()))
}

// certificateNames lists the first names of a certificate.
func certificateNames(cert *x509.Certificate) string {
	const shown = 5
	if cert == nil {
		return "others"
	}
	names := cert.DNSNames
	for _, ip := range cert.IPAddresses {
		names = append(names[:len(names):len(names)], ip.String())
	}
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > shown:
		names = append(names[:shown:shown], "others")
	}
	return printable(strings.Join(names, ", "), shown*longestHost)
}

// isAlert recognises an alert of the peer, and what is no TLS any more. Package tls has
// no name for their type. Where a broker refuses our certificate, or misses one, that
// comes after the handshake in TLS 1.3, in place of the first answer.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error")
}

func alertTrouble(err error, certified bool) error {
	var op *net.OpError
	errors.As(err, &op)
	text := op.Err.Error()
	switch {
	case op.Op == "local error" && !certified:
		// Java 17 encrypts the alert by which it asks for a certificate with keys that it
		// has announced to be over.
		return fmt.Errorf("what the broker sends after the TLS handshake cannot be read, as where it wants a client certificate; is kafka.tls.cert-file missing? (%w)", op.Err)
	case op.Op == "local error":
		return fmt.Errorf("what the broker sends after the TLS handshake cannot be read, as where it refuses our certificate, that of kafka.tls.cert-file: %w", op.Err)
	case !strings.Contains(text, "certificate") && !strings.Contains(text, "access denied"):
		return fmt.Errorf("the broker ended TLS with an alert: %w", op.Err)
	case certified:
		return fmt.Errorf("the broker refused our certificate, that of kafka.tls.cert-file: %w", op.Err)
	default:
		return fmt.Errorf("the broker wants a client certificate, set kafka.tls.cert-file and kafka.tls.key-file: %w", op.Err)
	}
}
