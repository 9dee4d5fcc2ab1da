package server

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// authority is a certificate authority for tests.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

var serials atomic.Int64

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return selfSigned(t, name, key)
}

// renewed is the same authority, with the same key, in a new certificate.
func (a *authority) renewed(t testing.TB) *authority {
	t.Helper()
	return selfSigned(t, a.certificate.Subject.CommonName, a.key)
}

func selfSigned(t testing.TB, name string, key *ecdsa.PrivateKey) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{certificate, key, pemOf("CERTIFICATE", der)}
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// issued is a certificate and its key.
type issued struct {
	cert, key []byte // PEM
	pair      tls.Certificate
}

// issue signs a certificate for 127.0.0.1 with this common name and these DNS
// names and URIs; good for the time given.
func (a *authority) issue(t testing.TB, commonName string, good time.Duration, sans ...string) issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{CommonName: commonName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(good),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, san := range sans {
		if strings.Contains(san, "://") {
			u, err := url.Parse(san)
			require.NoError(t, err)
			template.URIs = append(template.URIs, u)
		} else {
			template.DNSNames = append(template.DNSNames, san)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	made := issued{cert: pemOf("CERTIFICATE", der), key: pemOf("PRIVATE KEY", keyDER)}
	made.pair, err = tls.X509KeyPair(made.cert, made.key)
	require.NoError(t, err)
	return made
}

// tlsFolder is a folder as Kubernetes mounts a Secret: files that are links into
// ..data, which is a link to the folder of the current version.
type tlsFolder struct {
	dir      string
	versions int
}

// newTLSFolder begins with a certificate, and with client authorities if given.
func newTLSFolder(t testing.TB, first issued, clientCAs ...*authority) *tlsFolder {
	t.Helper()
	f := &tlsFolder{dir: t.TempDir()}
	f.swap(t, first.cert, first.key, clientCAs...)
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(f.dir, name)))
	}
	return f
}

func (f *tlsFolder) path(name string) string { return filepath.Join(f.dir, name) }

// swap replaces the version and removes the old one, as the kubelet does.
func (f *tlsFolder) swap(t testing.TB, cert, key []byte, clientCAs ...*authority) {
	t.Helper()
	old, _ := os.Readlink(f.path("..data"))
	f.versions++
	version := "..v" + string(rune('a'+f.versions))
	require.NoError(t, os.Mkdir(f.path(version), 0o700))
	var cas []byte
	for _, ca := range clientCAs {
		cas = append(cas, ca.pem...)
	}
	for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": cas} {
		require.NoError(t, os.WriteFile(filepath.Join(f.path(version), name), content, 0o600))
	}
	require.NoError(t, os.Symlink(version, f.path("..data_tmp")))
	require.NoError(t, os.Rename(f.path("..data_tmp"), f.path("..data")))
	if old != "" {
		require.NoError(t, os.RemoveAll(f.path(old)))
	}
}

// serve is the change of the server's Config that has it use the folder.
func (f *tlsFolder) serve(c *Config) {
	c.TLS = TLS{Enabled: true, CertFile: f.path("tls.crt"), KeyFile: f.path("tls.key")}
	c.ReloadInterval = reloadOften
}

// demandCertificates has it ask for client certificates too.
func (f *tlsFolder) demandCertificates(c *Config) {
	f.serve(c)
	c.TLS.ClientCAFile = f.path("ca.crt")
}

const reloadOften = 20 * time.Millisecond

// client calls a server over TLS, on both protocols.
type client struct {
	grpc coordsvcv1.CoordinatorServiceClient
	conn *grpc.ClientConn
	http *http.Client
	rest string // https://127.0.0.1:1234
}

// connect makes a client that trusts ca and shows the certificates given. Each
// client has connections of its own.
func (r *running) connect(t testing.TB, ca *authority, shown ...tls.Certificate) *client {
	t.Helper()
	return r.connectWith(t, &tls.Config{RootCAs: poolOf(ca), Certificates: shown, MinVersion: tls.VersionTLS12})
}

func poolOf(ca *authority) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.certificate)
	return pool
}

func (r *running) connectWith(t testing.TB, cfg *tls.Config) *client {
	t.Helper()
	conn, err := grpc.NewClient(r.GRPCAddr().String(), grpc.WithTransportCredentials(credentials.NewTLS(cfg)))
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: cfg.Clone(), ForceAttemptHTTP2: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, conn.Close())
	})
	return &client{
		grpc: coordsvcv1.NewCoordinatorServiceClient(conn), conn: conn,
		http: &http.Client{Transport: transport}, rest: "https://" + r.HTTPAddr().String(),
	}
}

// get asks over REST.
func (c *client) get(ctx context.Context, target string, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.rest+target, nil)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, text}, err
}

// raw sends bytes to the REST port over TLS and reads what comes until the end.
func (r *running) raw(t testing.TB, ca *authority, request string) answer {
	t.Helper()
	c, err := tls.Dial("tcp", r.HTTPAddr().String(), &tls.Config{RootCAs: poolOf(ca), MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	defer c.Close()
	return sendRaw(t, c, request)
}

// sendRaw sends bytes and reads one answer.
func sendRaw(t testing.TB, c net.Conn, request string) answer {
	t.Helper()
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	_, err := io.WriteString(c, request)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp.StatusCode, resp.Header, body}
}
