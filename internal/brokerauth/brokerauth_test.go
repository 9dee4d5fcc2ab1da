package brokerauth

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/config"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/internal/oidctest"
	"github.com/coordsvc/coordsvc/internal/reload"
	"github.com/coordsvc/coordsvc/pool"
)

// folder is where a test keeps its files.
type folder struct {
	t   *testing.T
	dir string
}

func newFolder(t *testing.T) folder { return folder{t, t.TempDir()} }

func (f folder) write(name string, content []byte) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	require.NoError(f.t, os.WriteFile(path, content, 0o600))
	return path
}

func newLog() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}

func TestTLSFiles(t *testing.T) {
	f := newFolder(t)
	authority := kafkatest.NewAuthority(t, "ca")
	mine, other := authority.Issue("coordsvc"), authority.Issue("another")
	ca, cert, key := f.write("ca.pem", authority.PEM), f.write("cert.pem", mine.CertPEM), f.write("key.pem", mine.KeyPEM)
	encrypted := []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
	encryptedOfOld := []byte("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n")
	garbled := []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	for name, test := range map[string]struct {
		settings config.KafkaTLS
		says     string // after the name of the setting
		setting  string
	}{
		"none":                    {settings: config.KafkaTLS{}},
		"ca":                      {settings: config.KafkaTLS{CAFile: ca}},
		"all":                     {settings: config.KafkaTLS{CAFile: ca, CertFile: cert, KeyFile: key}},
		"ca missing":              {config.KafkaTLS{CAFile: f.dir + "/nothing"}, "/nothing: cannot be read: no such file", "kafka.tls.ca-file"},
		"ca a folder":             {config.KafkaTLS{CAFile: f.dir}, "is not a file", "kafka.tls.ca-file"},
		"ca without any":          {config.KafkaTLS{CAFile: key}, "holds no certificate in PEM form", "kafka.tls.ca-file"},
		"certificate garbled":     {config.KafkaTLS{CertFile: f.write("garbled", garbled), KeyFile: key}, "its certificate cannot be read", "kafka.tls.cert-file"},
		"key in its place":        {config.KafkaTLS{CertFile: key, KeyFile: key}, "holds no certificate in PEM form", "kafka.tls.cert-file"},
		"key of another":          {config.KafkaTLS{CertFile: cert, KeyFile: f.write("other", other.KeyPEM)}, "it is not the key of the certificate in " + cert, "kafka.tls.key-file"},
		"key encrypted":           {config.KafkaTLS{CertFile: cert, KeyFile: f.write("enc", encrypted)}, "the key is encrypted", "kafka.tls.key-file"},
		"key encrypted as of old": {config.KafkaTLS{CertFile: cert, KeyFile: f.write("old", encryptedOfOld)}, "the key is encrypted", "kafka.tls.key-file"},
		"key empty":               {config.KafkaTLS{CertFile: cert, KeyFile: f.write("empty", nil)}, "it is not the key", "kafka.tls.key-file"},
	} {
		t.Run(name, func(t *testing.T) {
			test.settings.Enabled = true
			get, err := TLS(test.settings, slog.New(slog.DiscardHandler))
			if test.says == "" {
				require.NoError(t, err)
				require.NotNil(t, get())
				return
			}
			require.ErrorContains(t, err, test.says)
			var wrong *reload.Error
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, test.setting, wrong.Setting)
			require.NotContains(t, err.Error(), "BEGIN")
		})
	}
	get, err := TLS(config.KafkaTLS{}, nil)
	require.NoError(t, err)
	require.Nil(t, get)
}

// A new connection takes the files as they are; a mistake in them is said once, and
// changes nothing.
func TestCertificatesAreReplaced(t *testing.T) {
	f := newFolder(t)
	authority := kafkatest.NewAuthority(t, "ca")
	one, two := authority.Issue("one"), authority.Issue("two")
	logger, log := newLog()
	settings := config.KafkaTLS{Enabled: true, CertFile: f.write("cert", one.CertPEM), KeyFile: f.write("key", one.KeyPEM)}
	get, err := TLS(settings, logger)
	require.NoError(t, err)
	certificate := func() []byte { return get().Certificates[0].Certificate[0] }
	first := certificate()
	require.Equal(t, first, certificate())
	require.Empty(t, log.String())

	f.write("cert", two.CertPEM) // the key is still the old one
	for range 3 {
		require.Equal(t, first, certificate())
	}
	require.Equal(t, 1, strings.Count(log.String(), "changed files cannot be used"))
	require.Contains(t, log.String(), "kafka.tls.key-file")

	f.write("key", two.KeyPEM)
	require.NotEqual(t, first, certificate())
	require.Equal(t, 1, strings.Count(log.String(), "changed files are in use"))
	require.NoError(t, os.Remove(settings.CertFile))
	require.NotEqual(t, first, certificate())
	require.Equal(t, 2, strings.Count(log.String(), "changed files cannot be used"))
}

func TestWarnings(t *testing.T) {
	logger, log := newLog()
	for mechanism, warned := range map[string]bool{"PLAIN": true, "SCRAM-SHA-256": false} {
		for _, encrypted := range []bool{false, true} {
			log.Reset()
			_, err := SASL(config.KafkaSASL{Mechanism: mechanism, Username: "a", Password: "hunter2"}, encrypted, logger)
			require.NoError(t, err)
			require.Equal(t, warned && !encrypted, strings.Contains(log.String(), "goes over the network as it is"), "%s %v", mechanism, encrypted)
			require.LessOrEqual(t, strings.Count(log.String(), "\n"), 1)
			require.NotContains(t, log.String(), "hunter2")
		}
	}
	log.Reset()
	_, err := TLS(config.KafkaTLS{Enabled: true, InsecureSkipVerify: true}, logger)
	require.NoError(t, err)
	require.Contains(t, log.String(), "not checked")
}

func TestSecretFiles(t *testing.T) {
	f := newFolder(t)
	for _, test := range []struct{ content, want string }{
		{"hunter2", "hunter2"}, {"hunter2\n", "hunter2"}, {"hunter2\r\n", "hunter2"}, {" hunter2 \n", " hunter2 "},
	} {
		sasl, err := SASL(config.KafkaSASL{Mechanism: "PLAIN", Username: "a", PasswordFile: f.write("password", []byte(test.content))}, true, slog.Default())
		require.NoError(t, err)
		got, err := sasl.Credential(t.Context())
		require.NoError(t, err)
		require.Equal(t, test.want, got)
	}
	for content, says := range map[string]string{"": "it is empty", "\n": "it is empty", "hunter2\nhunter3\n": "more than one line", "a\x00b": "control character"} {
		_, err := SASL(config.KafkaSASL{Mechanism: "PLAIN", Username: "a", PasswordFile: f.write("password", []byte(content))}, true, slog.Default())
		require.ErrorContains(t, err, "kafka.sasl.password-file: "+f.dir)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "hunter")
	}
	_, err := SASL(config.KafkaSASL{Mechanism: "OAUTHBEARER", TokenFile: f.dir + "/none"}, true, slog.Default())
	require.ErrorContains(t, err, "kafka.sasl.token-file: "+f.dir+"/none: cannot be read: no such file")

	logger, log := newLog()
	sasl, err := SASL(config.KafkaSASL{Mechanism: "OAUTHBEARER", TokenFile: f.write("token", []byte("  one\n"))}, true, logger)
	require.NoError(t, err)
	read := func() string {
		token, err := sasl.Credential(t.Context())
		require.NoError(t, err)
		return token
	}
	require.Equal(t, "one", read())
	f.write("token", []byte("two"))
	require.Equal(t, "two", read())
	f.write("token", nil)
	require.Equal(t, "two", read())
	require.Equal(t, "two", read())
	require.Equal(t, 1, strings.Count(log.String(), "cannot be used"))
}

func oauthSettings(endpoint, secret string) config.KafkaSASL {
	return config.KafkaSASL{Mechanism: pool.MechanismOAuthBearer, OAuth: config.KafkaOAuth{
		TokenEndpointURL: endpoint, ClientID: oidctest.ClientID, ClientSecret: secret, Scope: "openid profile",
		Extensions: []string{"logicalCluster=lkc-1", "identityPoolId=pool=2"},
	}}
}

// Tokens of a real provider: fetched once for all, kept while they are fresh, and used
// on when the provider fails.
func TestTokensOfAProvider(t *testing.T) {
	provider := oidctest.Start(t)
	logger, log := newLog()
	sasl, err := SASL(oauthSettings(provider.TokenEndpoint(), oidctest.ClientSecret), true, logger)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"logicalCluster": "lkc-1", "identityPoolId": "pool=2"}, sasl.Extensions)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			token, err := sasl.Credential(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			var claims struct {
				Iss, Sub string
			}
			text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
			if err != nil || json.Unmarshal(text, &claims) != nil || claims.Iss != provider.URL || claims.Sub != oidctest.ClientID {
				t.Errorf("%s %v", text, err)
			}
		})
	}
	all.Wait()
	require.Equal(t, 1, provider.Asked())
	require.NotContains(t, log.String(), oidctest.ClientSecret)
}

func TestTokensAreKeptWhileTheEndpointFails(t *testing.T) {
	var broken atomic.Bool
	var asked atomic.Int64
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if broken.Load() {
			http.Error(w, r.Header.Get("Authorization")+" is out of order hunter2", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "one", "token_type": "bearer", "expires_in": 100})
	}))
	defer endpoint.Close()
	logger, log := newLog()
	settings := oauthSettings(endpoint.URL, "hunter2")
	now := time.Now()
	tokens := startTokens(t, &settings.OAuth, logger)
	token, err := tokens.current(t.Context())
	require.NoError(t, err)
	require.Equal(t, "one", token)
	require.WithinDuration(t, now.Add(80*time.Second), tokens.freshTo, 2*time.Second)

	broken.Store(true)
	tokens.freshTo = now
	token, err = tokens.current(t.Context())
	require.NoError(t, err, "it has 20 s left")
	require.Equal(t, "one", token)
	require.Contains(t, log.String(), "no new token for the brokers")
	tokens.token.Expiry = now.Add(time.Second)
	_, err = tokens.current(t.Context())
	require.ErrorContains(t, err, "it answered 503 Service Unavailable; check kafka.sasl.oauth.*")
	require.NotContains(t, err.Error()+log.String(), "hunter2")
	require.Greater(t, asked.Load(), int64(2))
}

func startTokens(t *testing.T, settings *config.KafkaOAuth, logger *slog.Logger) *tokens {
	t.Helper()
	secret, err := secretOf(settings.ClientSecret, reload.File{}, logger)
	require.NoError(t, err)
	return newTokens(settings, secret, logger)
}

func TestTokenEndpointsThatRefuse(t *testing.T) {
	provider := oidctest.Start(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the secret went elsewhere") }))
	defer elsewhere.Close()
	answer := func(status int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = new(bytes.Buffer).ReadFrom(r.Body)
		<-r.Context().Done()
	}))
	defer silent.Close()
	for name, test := range map[string]struct{ endpoint, says string }{
		"wrong secret": {provider.TokenEndpoint(), "it answered 4"},
		"wrong path":   {provider.URL + "/nothing", "it answered 404"},
		"refused":      {"http://127.0.0.1:1/token", "connection refused"},
		"redirect":     {answer(http.StatusTemporaryRedirect, ""), "it answered 307"},
		"echo":         {answer(http.StatusBadRequest, `{"error":"invalid_client","error_description":"hunter2 is wrong"}`), `"invalid_client", "[secret] is wrong"`},
		"no token":     {answer(http.StatusOK, `{"token_type":"bearer"}`), "access_token"},
		"no JSON":      {answer(http.StatusOK, `hunter2`), "token endpoint"},
		"odd token":    {answer(http.StatusOK, `{"access_token":"a\u0001b"}`), "control character"},
		"silence":      {silent.URL, "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			sasl, err := SASL(oauthSettings(test.endpoint, "hunter2"), true, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			patience := 20 * time.Second
			if test.endpoint == silent.URL {
				patience = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err = sasl.Credential(ctx)
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, test.endpoint)
			require.NotContains(t, err.Error(), "hunter2")
			require.Equal(t, 1, strings.Count(err.Error(), test.endpoint), "%v", err)
		})
	}
}
