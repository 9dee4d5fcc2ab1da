package server

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/reload"
)

// shownSerial is the serial number of the certificate that a port shows.
func shownSerial(t testing.TB, at net.Addr, ca *authority, protocol string) string {
	t.Helper()
	c, err := tls.Dial("tcp", at.String(), &tls.Config{RootCAs: poolOf(ca), NextProtos: []string{protocol}, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, protocol, c.ConnectionState().NegotiatedProtocol)
	return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// eventually waits for what the next reading of the files brings.
func eventually(t testing.TB, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 10*time.Second, 5*time.Millisecond)
}

func TestTLSFollowsTheFilesOnBothPorts(t *testing.T) {
	ca := newAuthority(t, "ca")
	first := ca.issue(t, "server", time.Hour)
	folder := newTLSFolder(t, first)
	r := start(t, &fakeService{}, folder.serve)
	serial := func(i issued) string { return i.pair.Leaf.SerialNumber.String() }
	shows := func(want issued) bool {
		return shownSerial(t, r.GRPCAddr(), ca, "h2") == serial(want) &&
			shownSerial(t, r.HTTPAddr(), ca, "http/1.1") == serial(want)
	}
	require.True(t, shows(first))
	old := r.connect(t, ca) // its connections live through all changes
	ask := func() {
		t.Helper()
		_, err := old.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: "a"})
		require.NoError(t, err)
		got, err := old.get(t.Context(), "/v1/coordinators/GROUP/a")
		require.NoError(t, err)
		require.Equal(t, 200, got.status)
	}
	ask()

	second := ca.issue(t, "server", 2*time.Hour)
	folder.swap(t, second.cert, second.key)
	eventually(t, func() bool { return shows(second) })

	folder.swap(t, []byte("no certificate"), second.key) // a broken one changes nothing
	eventually(t, func() bool { return r.ReloadErrors()["tls.cert-file"] != nil })
	require.True(t, shows(second))
	var fault *reload.Error
	require.ErrorAs(t, r.ReloadErrors()["tls.cert-file"], &fault)
	require.Equal(t, "tls.cert-file", fault.Setting)

	third := ca.issue(t, "server", 3*time.Hour)
	folder.swap(t, third.cert, third.key)
	eventually(t, func() bool { return shows(third) })
	ask()

	c, ok := r.Certificate()
	require.True(t, ok)
	require.WithinDuration(t, time.Now().Add(3*time.Hour), c.NotAfter, time.Minute)
	require.NoError(t, r.ReloadErrors()["tls.cert-file"])
	require.Equal(t, 1, strings.Count(r.log.String(), "changed files cannot be used"), "said once")
	require.Equal(t, 2, strings.Count(r.log.String(), "changed files are in use"))
}

func TestTLSThatCannotBeIsAnErrorBeforeAnythingListens(t *testing.T) {
	ca := newAuthority(t, "ca")
	good, other := ca.issue(t, "server", time.Hour), ca.issue(t, "other", time.Hour)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	cert, key := file("cert", good.cert), file("key", good.key)
	otherKey, empty, garbage := file("other-key", other.key), file("empty", nil), file("garbage", []byte("garbage"))
	encrypted := file("encrypted", []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"))
	missing := filepath.Join(dir, "missing")
	for name, c := range map[string]struct {
		tls  TLS
		says []string
	}{
		"no certificate named":  {TLS{KeyFile: key}, []string{"tls.cert-file", "must be given"}},
		"no key named":          {TLS{CertFile: cert}, []string{"tls.key-file", "must be given"}},
		"missing certificate":   {TLS{CertFile: missing, KeyFile: key}, []string{"tls.cert-file", missing, "no such file"}},
		"missing key":           {TLS{CertFile: cert, KeyFile: missing}, []string{"tls.key-file", missing, "no such file"}},
		"folder":                {TLS{CertFile: dir, KeyFile: key}, []string{"tls.cert-file", dir, "is not a file"}},
		"empty certificate":     {TLS{CertFile: empty, KeyFile: key}, []string{"tls.cert-file", empty, "no certificate in PEM form"}},
		"garbage":               {TLS{CertFile: garbage, KeyFile: key}, []string{"tls.cert-file", garbage, "no certificate in PEM form"}},
		"garbage key":           {TLS{CertFile: cert, KeyFile: garbage}, []string{"tls.key-file", garbage, cert}},
		"encrypted key":         {TLS{CertFile: cert, KeyFile: encrypted}, []string{"tls.key-file", encrypted, "is encrypted"}},
		"key of another":        {TLS{CertFile: cert, KeyFile: otherKey}, []string{"tls.key-file", otherKey, cert, "does not match"}},
		"swapped":               {TLS{CertFile: key, KeyFile: cert}, []string{"tls.cert-file", key}},
		"missing client CA":     {TLS{CertFile: cert, KeyFile: key, ClientCAFile: missing}, []string{"tls.client-ca-file", missing}},
		"empty client CA":       {TLS{CertFile: cert, KeyFile: key, ClientCAFile: empty}, []string{"tls.client-ca-file", empty, "no certificate"}},
		"key in the client CA":  {TLS{CertFile: cert, KeyFile: key, ClientCAFile: key}, []string{"tls.client-ca-file", key, "no certificate"}},
		"client CA without TLS": {TLS{ClientCAFile: cert}, []string{"tls.client-ca-file", "tls.enabled is false"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.TLS = c.tls
			cfg.TLS.Enabled = name != "client CA without TLS"
			s, err := New(cfg, &fakeService{}, func() bool { return true }, nil)
			require.Nil(t, s)
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
			require.Equal(t, err.Error(), Check(cfg).Error())
		})
	}
}

func TestTLSIsNotGoneAround(t *testing.T) {
	ca := newAuthority(t, "ca")
	r := start(t, &fakeService{}, newTLSFolder(t, ca.issue(t, "server", time.Hour)).serve)

	t.Run("plaintext gRPC", func(t *testing.T) {
		_, err := r.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: "a"})
		require.Equal(t, codes.Unavailable, status.Code(err))
	})
	t.Run("plain HTTP gets JSON", func(t *testing.T) {
		got := r.do(t, "GET", "/v1/brokers", "")
		require.Equal(t, 400, got.status)
		requireStatus(t, got, "TLS_REQUIRED")
	})
	t.Run("bytes that are neither", func(t *testing.T) {
		c, err := net.Dial("tcp", r.HTTPAddr().String())
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
		_, err = c.Write([]byte("\x00\x00\x00\x10\x00\x12\x00\x03"))
		require.NoError(t, err)
		got, _ := io.ReadAll(c)
		require.NotContains(t, string(got), "HTTP")
	})
	t.Run("old TLS", func(t *testing.T) {
		for _, at := range []net.Addr{r.GRPCAddr(), r.HTTPAddr()} {
			_, err := tls.Dial("tcp", at.String(), &tls.Config{RootCAs: poolOf(ca), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}) //nolint:gosec // old on purpose
			require.ErrorContains(t, err, "protocol version")
		}
	})
	t.Run("the admin port is plain", func(t *testing.T) {
		require.Equal(t, 200, r.doAt(t, r.AdminAddr(), "GET", "/readyz", "").status)
	})
}

// Errors that net/http writes itself are JSON inside of TLS too.
func TestErrorsOverTLSAreJSON(t *testing.T) {
	ca := newAuthority(t, "ca")
	r := start(t, &fakeService{}, newTLSFolder(t, ca.issue(t, "server", time.Hour)).serve)
	for request, want := range map[string]int{
		"GET /v1/coordinators/GROUP/100% HTTP/1.1\r\nHost: x\r\n\r\n":                                        400,
		"GET /v1/brokers HTTP/1.1\r\n\r\n":                                                                   400,
		"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", maxHeaderBytes+8<<10) + "\r\n\r\n":          431,
		"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                                      404,
		"DELETE /v1/brokers HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                                405,
		"POST /v1/coordinators:find HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}": 415,
	} {
		got := r.raw(t, ca, request)
		require.Equal(t, want, got.status, "%.60q: %s", request, got.body)
		require.Equal(t, "application/json", got.header.Get("Content-Type"), "%.60q", request)
		require.NotNil(t, got.json(t)["details"])
	}
}

// A client that connects and says nothing is not waited for longer than headers are.
func TestSilentHandshakesEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("waits out the handshake's time of 5 s")
	}
	t.Parallel()
	ca := newAuthority(t, "ca")
	r := start(t, &fakeService{}, newTLSFolder(t, ca.issue(t, "server", time.Hour)).serve)
	for _, at := range []net.Addr{r.GRPCAddr(), r.HTTPAddr()} {
		c, err := net.Dial("tcp", at.String())
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(readHeaderTimeout+5*time.Second)))
		_, err = io.ReadAll(c)
		var timeout net.Error
		if err != nil {
			require.NotErrorAs(t, err, &timeout, "the server ends the connection first")
		}
	}
}

func TestCertificateSubjects(t *testing.T) {
	ca, strangers := newAuthority(t, "ca"), newAuthority(t, "strangers")
	folder := newTLSFolder(t, ca.issue(t, "server", time.Hour), ca)
	r := start(t, &fakeService{}, folder.demandCertificates, func(c *Config) {
		c.Auth.AllowedSubjects = []string{"orders", "Payments.example", "spiffe://prod.example/ns/*"}
	})
	for name, c := range map[string]struct {
		shown  []tls.Certificate
		caller string // "": refused by name
		fails  bool   // in the handshake
	}{
		"none":                   {fails: true},
		"another authority":      {shown: []tls.Certificate{strangers.issue(t, "orders", time.Hour).pair}, fails: true},
		"expired":                {shown: []tls.Certificate{ca.issue(t, "orders", -time.Minute).pair}, fails: true},
		"common name":            {shown: []tls.Certificate{ca.issue(t, "orders", time.Hour).pair}, caller: "cert:orders"},
		"DNS name":               {shown: []tls.Certificate{ca.issue(t, "x", time.Hour, "payments.EXAMPLE").pair}, caller: "cert:payments.example"},
		"SPIFFE id":              {shown: []tls.Certificate{ca.issue(t, "", time.Hour, "spiffe://prod.example/ns/a").pair}, caller: "cert:spiffe://prod.example/ns/a"},
		"other SPIFFE id":        {shown: []tls.Certificate{ca.issue(t, "", time.Hour, "spiffe://prod.example/no").pair}},
		"other trust domain":     {shown: []tls.Certificate{ca.issue(t, "", time.Hour, "spiffe://prod.example.evil/ns/a").pair}},
		"SPIFFE id as a CN":      {shown: []tls.Certificate{ca.issue(t, "spiffe://prod.example/ns/a", time.Hour).pair}},
		"the name, and further":  {shown: []tls.Certificate{ca.issue(t, "orders.evil", time.Hour).pair}},
		"no name":                {shown: []tls.Certificate{ca.issue(t, "", time.Hour).pair}},
		"a DNS name that is SAN": {shown: []tls.Certificate{ca.issue(t, "", time.Hour, "orders").pair}, caller: "cert:orders"},
	} {
		t.Run(name, func(t *testing.T) {
			from := r.connect(t, ca, c.shown...)
			_, overGRPC := from.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: "a"})
			got, overREST := from.get(t.Context(), "/v1/coordinators/GROUP/a")
			switch {
			case c.fails:
				require.Equal(t, codes.Unavailable, status.Code(overGRPC))
				require.Error(t, overREST)
			case c.caller == "":
				require.NoError(t, overREST)
				require.Equal(t, codes.PermissionDenied, status.Code(overGRPC))
				require.Equal(t, "PERMISSION_DENIED", reasonOf(overGRPC))
				require.Equal(t, http.StatusForbidden, got.status)
				require.Equal(t, status.Convert(overGRPC).Message(), requireStatus(t, got, "PERMISSION_DENIED").Message())
			default:
				require.NoError(t, overGRPC)
				require.NoError(t, overREST)
				require.Equal(t, 200, got.status, "%s", got.body)
				require.Equal(t, 2, strings.Count(r.log.String(), `"caller":"`+c.caller+`"`))
			}
			if c.caller == "cert:orders" { // another case has the same
				r.log.reset()
			}
		})
	}
}

// A client without a certificate never makes a call that could be logged.
func TestFailedHandshakesAreLogged(t *testing.T) {
	ca := newAuthority(t, "ca")
	folder := newTLSFolder(t, ca.issue(t, "server", time.Hour), ca)
	r := start(t, &fakeService{}, folder.demandCertificates)
	r.level.Set(slog.LevelDebug)
	bare := r.connect(t, ca)
	_, err := bare.get(t.Context(), "/v1/brokers")
	require.Error(t, err)
	_, err = bare.grpc.ListBrokers(t.Context(), &coordsvcv1.ListBrokersRequest{})
	require.Error(t, err)
	for _, protocol := range []string{"REST", "gRPC"} {
		said := regexp.MustCompile(`"msg":"the TLS handshake of a client failed","protocol":"` + protocol + `","peer":"127.0.0.1:\d+","error":"tls: client didn't provide a certificate"`)
		eventually(t, func() bool { return said.MatchString(r.log.String()) })
	}
}

// What fails in the handshake is no request: the log and the metrics do not have a 400 that nobody was sent.
func TestFailedHandshakesAreNoRequests(t *testing.T) {
	ca := newAuthority(t, "ca")
	r := start(t, &fakeService{}, newTLSFolder(t, ca.issue(t, "server", time.Hour), ca).demandCertificates)
	for name, trusted := range map[string]*x509.CertPool{
		"without a certificate":               poolOf(ca),
		"who does not trust the server's one": poolOf(newAuthority(t, "another")),
	} {
		c, err := net.Dial("tcp", r.HTTPAddr().String())
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
		over := tls.Client(c, &tls.Config{RootCAs: trusted, ServerName: "127.0.0.1"})
		_, err = io.ReadAll(over)
		require.Error(t, err, name)
		_, _ = io.ReadAll(c) // until the server is done with it
		require.NotContains(t, r.log.String(), "request refused", name)
	}
}

// An authority that is taken away is refused, also on connections that were open.
func TestClientAuthoritiesFollowTheFile(t *testing.T) {
	ca, second := newAuthority(t, "ca"), newAuthority(t, "second")
	server := ca.issue(t, "server", time.Hour)
	folder := newTLSFolder(t, server, ca)
	r := start(t, &fakeService{}, folder.demandCertificates)
	old, fresh := r.connect(t, ca, ca.issue(t, "old", time.Hour).pair), r.connect(t, ca, second.issue(t, "fresh", time.Hour).pair)
	ask := func(c *client) (overGRPC error, overREST answer, restErr error) {
		_, overGRPC = c.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: "a"})
		overREST, restErr = c.get(t.Context(), "/v1/coordinators/GROUP/a")
		return overGRPC, overREST, restErr
	}
	overGRPC, overREST, err := ask(old)
	require.NoError(t, overGRPC)
	require.NoError(t, err)
	require.Equal(t, 200, overREST.status)
	_, _, err = ask(fresh)
	require.Error(t, err)

	folder.swap(t, server.cert, server.key, ca, second)
	eventually(t, func() bool { overGRPC, _, err := ask(fresh); return overGRPC == nil && err == nil })

	folder.swap(t, server.cert, server.key, second)
	eventually(t, func() bool { overGRPC, _, _ := ask(old); return status.Code(overGRPC) == codes.Unauthenticated })
	_, overREST, err = ask(old)
	require.NoError(t, err, "the connection is still open")
	require.Equal(t, 401, overREST.status)
	require.Equal(t, "CERTIFICATE_NO_LONGER_ACCEPTED", errorInfoOf(requireStatus(t, overREST, "UNAUTHENTICATED")).GetMetadata()["cause"])
	_, _, err = ask(r.connect(t, ca, ca.issue(t, "old", time.Hour).pair))
	require.Error(t, err, "a new connection is not let in")
	overGRPC, overREST, err = ask(fresh)
	require.NoError(t, overGRPC)
	require.NoError(t, err)
	require.Equal(t, 200, overREST.status)
}

// An authority that renews its own certificate, and keeps its key, is the same one:
// connections that were open before go on.
func TestRenewedClientAuthorityIsTheSame(t *testing.T) {
	ca := newAuthority(t, "ca")
	renewed, server := ca.renewed(t), ca.issue(t, "server", time.Hour)
	require.NotEqual(t, ca.pem, renewed.pem)
	folder := newTLSFolder(t, server, ca)
	r := start(t, &fakeService{}, folder.demandCertificates)
	open := r.connect(t, ca, ca.issue(t, "open", time.Hour).pair)
	ask := func() {
		t.Helper()
		_, err := open.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: "a"})
		require.NoError(t, err)
		got, err := open.get(t.Context(), "/v1/coordinators/GROUP/a")
		require.NoError(t, err)
		require.Equal(t, 200, got.status, "%s", got.body)
	}
	ask()
	folder.swap(t, server.cert, server.key, renewed)
	eventually(t, func() bool { return strings.Contains(r.log.String(), "changed files are in use") })
	ask()
}
