package test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/coordsvc/coordsvc/internal/config"
)

// choices are right and wrong values of settings, to be mixed at random.
var choices = map[string][]any{
	"kafka.brokers":                       {"a:9092", []string{"a:9092", "[::1]:9093"}, "a", "", "a:0", "a:9092,", "http://a:9092", "a b:1", "[::1:9092", ":9092", []string{"a:1,b:2"}, []string{}, " a:1 , b:2\n", "a:09092", "a;b:1"},
	"kafka.client-id":                     {"a", "", strings.Repeat("a", 256), "ä"},
	"kafka.discover-brokers":              {true, false},
	"kafka.dial-timeout":                  {"1s", "1ms", "6m", "1", "-1s", ""},
	"kafka.max-api-versions":              {0, 4, 5, -1, 2.5},
	"kafka.tls.enabled":                   {true, false},
	"kafka.tls.ca-file":                   {"/a", ""},
	"kafka.tls.cert-file":                 {"/a", ""},
	"kafka.tls.key-file":                  {"/a", ""},
	"kafka.tls.server-name":               {"a", ""},
	"kafka.tls.insecure-skip-verify":      {true, false},
	"kafka.sasl.mechanism":                {"PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI", "", "plain"},
	"kafka.sasl.username":                 {"a", ""},
	"kafka.sasl.password-file":            {"/a", ""},
	"kafka.sasl.token-file":               {"/a", ""},
	"kafka.sasl.oauth.token-endpoint-url": {"https://a/b", "a", "", "https://u:p@a", "ftp://a", "https://"},
	"kafka.sasl.oauth.client-id":          {"a", ""},
	"kafka.sasl.oauth.client-secret-file": {"/a", ""},
	"kafka.sasl.oauth.scope":              {"a", ""},
	"kafka.sasl.oauth.extensions":         {"a=b", []string{"a=b", "c=d"}, []string{}, "a", "1=b", "a=b,a=c", "auth=b"},
	"pool.max-connections-per-broker":     {1, 1000, 0, 1001},
	"pool.max-idle-time":                  {"1s", "24h", "25h", "0s"},
	"lookup.max-keys":                     {1, 1000000, 0},
	"lookup.default-timeout":              {"1s", "1h", "61m"},
	"lookup.max-timeout":                  {"1s", "1h"},
	"grpc.address":                        {":1", ":8080", "0.0.0.0:9090", "[::]:9090", "a", ":70000", ":0", "127.0.0.1:1"},
	"http.address":                        {":8080", ":8081", "", ":08081", "a b:8080", " :8080", "a(b):8080", "[zzz]:8080"},
	"admin.address":                       {":8081", ":1", "localhost:8081"},
	"tls.enabled":                         {true, false},
	"tls.cert-file":                       {"/a", ""},
	"tls.key-file":                        {"/a", ""},
	"tls.client-auth":                     {"off", "require", "request"},
	"tls.client-ca-file":                  {"/a", ""},
	"auth.allowed-subjects":               {"a", []string{"a", "b*"}, []string{}, "", "a*b"},
	"auth.token-file":                     {"/a", ""},
	"auth.oidc.issuer":                    {"https://a", "http://localhost:1", "http://a", "a", "", "https://a?b", "https://a#b"},
	"auth.oidc.audience":                  {"a", "", []string{}},
	"auth.oidc.ca-file":                   {"/a", ""},
	"auth.oidc.clock-skew":                {"0s", "11m"},
	"auth.policy-file":                    {"/a", ""},
	"limits.max-message-bytes":            {"64KiB", "1GiB", "2GiB", "1KiB", "8MB", "8 MiB"},
	"limits.max-waiting-keys":             {1, 10000, 100000000, 0},
	"log.level":                           {"debug", "trace"},
	"tracing.endpoint":                    {"http://a:1", "a:1", "", "http://u:p@a:1", "https://a", "http://a?b", "http://a/b#c", "http://a:70000"},
	"tracing.sample-ratio":                {0, 1, 0.5, 1.1, -0.1},
	"shutdown.drain-delay":                {"0s", "10m", "11m", "1m30s"},
	"shutdown.drain-timeout":              {"100ms", "99ms", "1h", "0s"},
}

// complete are settings that need each other, so that of a choice on top of them nothing else is wrong.
const complete = `
kafka:
  brokers: [a:9092]
  tls: {enabled: true, ca-file: /a, cert-file: /b, key-file: /c}
  sasl:
    mechanism: OAUTHBEARER
    oauth: {token-endpoint-url: "https://a", client-id: a, client-secret-file: /d}
tls: {enabled: true, cert-file: /e, key-file: /f, client-auth: require, client-ca-file: /g}
auth:
  allowed-subjects: [a]
  token-file: /h
  policy-file: /i
  oidc: {issuer: "https://a", audience: a, ca-file: /j}
`

// TestAgreesWithService: what the service would refuse at its start never gets past helm
// template, one choice at a time and some mixed at random. (The reverse may be: the chart
// knows the Pod.)
func TestAgreesWithService(t *testing.T) {
	var paths []string
	for s := range config.All() {
		if choices[s.Path] != nil {
			paths = append(paths, s.Path)
		}
	}
	require.Len(t, paths, len(choices))
	var cases []map[string]any
	for _, path := range paths {
		for _, choice := range choices[path] {
			settings := map[string]any{}
			require.NoError(t, yaml.Unmarshal([]byte(complete), &settings))
			set(settings, path, choice)
			cases = append(cases, settings)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		settings := map[string]any{}
		set(settings, "kafka.brokers", "a:9092")
		for range 1 + random.IntN(6) {
			path := paths[random.IntN(len(paths))]
			set(settings, path, choices[path][random.IntN(len(choices[path]))])
		}
		cases = append(cases, settings)
	}
	var refused atomic.Int64
	t.Run("each", func(t *testing.T) {
		for i, settings := range cases {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				if refuses(t, settings) {
					refused.Add(1)
				}
			})
		}
	})
	t.Logf("of %d settings files the service refuses %d", len(cases), refused.Load())
	require.Greater(t, refused.Load(), int64(100))
	require.Less(t, refused.Load(), int64(len(cases)-60))
}

// refuses reports whether the service refuses settings; the chart must do so then too.
func refuses(t *testing.T, settings map[string]any) bool {
	t.Helper()
	text, err := yaml.Marshal(settings)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "coordsvc.yaml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	_, refusal := config.Load(config.Sources{File: path, Listens: true, Require: []string{"kafka.brokers"}})
	values, err := yaml.Marshal(map[string]any{"config": settings})
	require.NoError(t, err)
	_, errs, err := helm(helms["Helm 4"], append([]string{"template", "release", chart}, file(t, string(values))...)...)
	require.NotContains(t, errs, "error calling", "a template broke\n%s", text)
	if refusal != nil {
		require.Error(t, err, "the chart lets through what the service refuses: %v\n%s", refusal, text)
	}
	return refusal != nil
}

// set puts a value into nested maps.
func set(settings map[string]any, path string, value any) {
	group, rest, nested := strings.Cut(path, ".")
	if !nested {
		settings[path] = value
		return
	}
	members, ok := settings[group].(map[string]any)
	if !ok {
		members = map[string]any{}
		settings[group] = members
	}
	set(members, rest, value)
}
