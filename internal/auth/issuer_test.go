package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
)

// issuer is an OpenID Connect issuer: it publishes keys and signs tokens.
type issuer struct {
	*httptest.Server
	fetches atomic.Int64 // of its keys

	mu        sync.Mutex
	published []any             // JSON web keys
	discovery map[string]string // in place of the usual document
	down      bool
	slow      time.Duration
}

func newIssuer(t testing.TB, overTLS bool) *issuer {
	t.Helper()
	i := &issuer{}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		document := map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"}
		if i.discovery != nil {
			document = i.discovery
		}
		_ = json.NewEncoder(w).Encode(document)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
		i.fetches.Add(1)
		i.mu.Lock()
		slow, published := i.slow, i.published
		i.mu.Unlock()
		select {
		case <-time.After(slow):
		case <-r.Context().Done():
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": published})
	})
	if overTLS {
		i.Server = httptest.NewTLSServer(mux)
	} else {
		i.Server = httptest.NewServer(mux)
	}
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) change(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
}

// publish makes the keys those that the issuer has.
func (i *issuer) publish(keys ...signingKey) {
	i.change(func() {
		i.published = nil
		for _, k := range keys {
			i.published = append(i.published, jose.JSONWebKey{Key: k.private.Public(), KeyID: k.id, Use: "sig"})
		}
	})
}

type signingKey struct {
	id        string
	algorithm jose.SignatureAlgorithm
	private   crypto.Signer
}

func newKey(t testing.TB, id string, algorithm jose.SignatureAlgorithm) signingKey {
	t.Helper()
	var private crypto.Signer
	var err error
	switch algorithm {
	case jose.ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.EdDSA:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	require.NoError(t, err)
	return signingKey{id, algorithm, private}
}

// sign makes a token of the claims, with further headers if given.
func (k signingKey) sign(t testing.TB, claims any, headers map[string]any) string {
	t.Helper()
	return signWith(t, jose.SigningKey{Algorithm: k.algorithm, Key: k.private}, k.id, claims, headers)
}

func signWith(t testing.TB, key jose.SigningKey, id string, claims any, headers map[string]any) string {
	t.Helper()
	options := &jose.SignerOptions{}
	if id != "" {
		options.WithHeader("kid", id)
	}
	for name, value := range headers {
		options.WithHeader(jose.HeaderKey(name), value)
	}
	signer, err := jose.NewSigner(key, options)
	require.NoError(t, err)
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	require.NoError(t, err)
	return token
}

// claims are good ones, but for the changes.
func (i *issuer) claims(changes map[string]any) map[string]any {
	claims := map[string]any{
		"iss": i.URL, "aud": "coordsvc", "sub": "alice",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	for name, value := range changes {
		if value == nil {
			delete(claims, name)
		} else {
			claims[name] = value
		}
	}
	return claims
}

// trusting is an authenticator that accepts the issuer's tokens and runs.
func (i *issuer) trusting(t testing.TB, log io.Writer, times keyTimes) *Authenticator {
	t.Helper()
	cfg := Config{OIDC: OIDC{Issuer: i.URL, Audiences: []string{"other", "coordsvc"}, ClockSkew: time.Minute}}
	if i.TLS != nil {
		cfg.OIDC.CAFile = filepath.Join(t.TempDir(), "ca.crt")
		require.NoError(t, os.WriteFile(cfg.OIDC.CAFile,
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}), 0o600))
	}
	a, err := New(cfg)
	require.NoError(t, err)
	a.jwts.keys.times = times
	logger := slog.New(slog.DiscardHandler)
	if log != nil {
		logger = slog.New(slog.NewTextHandler(log, nil))
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.Run(ctx, time.Hour, logger)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return a
}

// ask shows the token; cause is "" where it is accepted.
func ask(ctx context.Context, a *Authenticator, token string) (caller, cause string) {
	c, err := a.Authenticate(ctx, Credentials{Authorization: []string{"Bearer " + token}})
	if err != nil {
		return "", err.(*RefusalError).Cause //nolint:errorlint // what Authenticate promises
	}
	return c.String(), ""
}
