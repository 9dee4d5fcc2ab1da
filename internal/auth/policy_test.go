package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/reload"
)

const goodPolicy = `# who may look up what
rules:
  - callers: ["token:payments", "cert:spiffe://prod.example/payments/*"]
    key-types: [GROUP, transaction]
    prefixes: ["payments-", "ledger"]
  - callers: [token:ops]
    prefixes: [""]
  - callers:
      - "*"   # everybody
    key-types: [SHARE]
    prefixes:
      - 010
`

// inUse is the value as if it came from a file.
func inUse[T any](t testing.TB, made *T) *reload.Value[T] {
	t.Helper()
	v, err := reload.Load(nil, func([][]byte) (*T, error) { return made, nil })
	require.NoError(t, err)
	return v
}

const (
	group       = coordsvcv1.KeyType_GROUP
	transaction = coordsvcv1.KeyType_TRANSACTION
	share       = coordsvcv1.KeyType_SHARE
	unspecified = coordsvcv1.KeyType_KEY_TYPE_UNSPECIFIED
)

func TestPolicy(t *testing.T) {
	p, err := parsePolicy([]byte(goodPolicy))
	require.NoError(t, err)
	for _, c := range []struct {
		names   []string
		keyType coordsvcv1.KeyType
		keys    []string
		denied  []int
	}{
		{[]string{"token:payments"}, group, []string{"payments-a", "ledger", "payments-"}, nil},
		{[]string{"token:payments"}, unspecified, []string{"payments-a"}, nil},
		{[]string{"token:payments"}, transaction, []string{"payments-a"}, nil},
		{[]string{"token:payments"}, group, []string{"orders", "payments-a", "payments", "", "Payments-a"}, []int{0, 2, 3, 4}},
		{[]string{"token:payments"}, share, []string{"payments-a:x:0", "010:x:0"}, []int{0}},
		{[]string{"token:payments2"}, group, []string{"payments-a"}, []int{0}},
		{[]string{"jwt:payments"}, group, []string{"payments-a"}, []int{0}},
		{[]string{"cert:spiffe://prod.example/payments/x"}, group, []string{"payments-a"}, nil},
		{[]string{"token:x", "cert:spiffe://prod.example/payments/x"}, group, []string{"payments-a"}, nil},
		{[]string{"cert:spiffe://prod.example/orders"}, group, []string{"payments-a"}, []int{0}},
		{[]string{"token:ops"}, group, []string{"anything", ""}, nil},
		{[]string{"token:ops"}, share, []string{"anything"}, nil},
		{[]string{"jwt:*"}, group, []string{"payments-a"}, []int{0}}, // a star in a name is no pattern
		{nil, share, []string{"010:x:0"}, []int{0}},
		{[]string{"token:ops"}, group, nil, nil},
	} {
		require.Equal(t, c.denied, p.authorize(Caller{c.names}, c.keyType, c.keys), "%v %v %q", c.names, c.keyType, c.keys)
	}
}

// A certificate has the same names in the policy as in auth.allowed-subjects.
func TestPolicyNamesCertificatesAsSubjects(t *testing.T) {
	p, err := parsePolicy([]byte("rules:\n  - callers: ['cert:Orders.Example', 'cert:Pay*', 'cert:spiffe://prod.example/Ops']\n    prefixes: ['']\n"))
	require.NoError(t, err)
	for certificate, allowed := range map[*x509.Certificate]bool{
		{Subject: pkix.Name{CommonName: "ORDERS.example"}}:                                          true,
		{DNSNames: []string{"orders.Example"}}:                                                      true,
		{Subject: pkix.Name{CommonName: "Payments"}}:                                                true,
		{URIs: []*url.URL{{Scheme: "spiffe", Host: "prod.example", Path: "/Ops"}}}:                  true,
		{URIs: []*url.URL{{Scheme: "spiffe", Host: "prod.example", Path: "/ops"}}}:                  false,
		{Subject: pkix.Name{CommonName: "spiffe://prod.example/Ops"}}:                               false,
		{Subject: pkix.Name{CommonName: "orders"}, DNSNames: []string{"x.orders.example", "repay"}}: false,
	} {
		names, refusal := subjects(nil).names(&tls.ConnectionState{
			PeerCertificates: []*x509.Certificate{certificate}, VerifiedChains: [][]*x509.Certificate{{certificate}},
		})
		require.Nil(t, refusal)
		denied := p.authorize(Caller{names}, group, []string{"k"})
		require.Equal(t, allowed, denied == nil, "%v", names)
	}
}

func TestPolicyMistakes(t *testing.T) {
	for content, says := range map[string]string{
		"":                           "holds no rule",
		"# nothing":                  "holds no rule",
		"rules:":                     "line 1: rules is a list",
		"rules: []":                  "holds no rule",
		"rules: {}":                  "rules is a list",
		"rule:\n":                    `line 1: "rule" is not known here: there is rules`,
		"text":                       "line 1: rules is expected here",
		"rules:\n  - a":              "line 2: callers, key-types, prefixes is expected here",
		"rules:\n  - prefixes: [a]":  "line 2: a rule has callers",
		"rules:\n  - callers: ['*']": "line 2: a rule has prefixes",
		"rules:\n  - callers: '*'\n    prefixes: [a]":                                          "line 2: callers is a list",
		"rules:\n  - callers: []\n    prefixes: [a]":                                           "line 2: callers is a list with at least one",
		"rules:\n  - callers: [payments]\n    prefixes: [a]":                                   `"payments" does not begin with token:, jwt: or cert:`,
		"rules:\n  - callers: [t*]\n    prefixes: [a]":                                         "does not begin with",
		"rules:\n  - callers: ['cert:spiffe://prod*']\n    prefixes: [a]":                      "line 2: \"spiffe://prod*\": a SPIFFE id has a trust domain and a path",
		"rules:\n  - callers: ['cert:CN=orders']\n    prefixes: [a]":                           "of CN=orders,O=Example write orders",
		"rules:\n  - callers: ['*']\n    prefix: [a]":                                          `line 3: "prefix" is not known here`,
		"rules:\n  - callers: ['*']\n    prefixes: [a]\n    prefixes: [b]":                     "line 4: prefixes is given twice",
		"rules:\n  - callers: ['*']\n    key-types: [TOPIC]\n    prefixes: [b]":                `line 3: "TOPIC" is no key type`,
		"rules:\n  - callers: ['*']\n    key-types: [KEY_TYPE_UNSPECIFIED]\n    prefixes: [b]": "is no key type",
		"rules:\n  - &a {callers: ['*'], prefixes: [a]}\n  - *a":                               "line 2",
		"rules:\n  - callers: ['*']\n    prefixes: [&x a, *x]":                                 "plain text",
		"rules: [\n":                "not valid YAML",
		"a: b\n---\nc: d":           "not known",
		"\xff":                      "not UTF-8",
		strings.Repeat("[", 2000):   "brackets",
		strings.Repeat("#", 65<<10): "larger than 64 KiB",
	} {
		p, err := parsePolicy([]byte(content))
		require.ErrorContains(t, err, says, "%.60q", content)
		require.Nil(t, p)
	}
}

func TestDeniedKeysAreNotQuotedWithoutBound(t *testing.T) {
	p, err := parsePolicy([]byte(goodPolicy))
	require.NoError(t, err)
	a := &Authenticator{policy: inUse(t, p)}
	require.NoError(t, a.Authorize(Caller{[]string{"token:ops"}}, group, []string{"x"}))
	err = a.Authorize(Caller{[]string{"jwt:" + strings.Repeat("s", 10_000)}}, group, []string{"payments-a", strings.Repeat("\u00e9", 16_000), "x"})
	var refused *RefusalError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, Denied, refused.Kind)
	require.Equal(t, []int{0, 1, 2}, refused.Denied)
	require.Less(t, len(refused.Message), 500)
	require.NoError(t, (&Authenticator{}).Authorize(Caller{}, group, []string{"x"}), "no policy")
}

// FuzzPolicy: whatever the file holds, it is refused or it is a policy that
// denies what it does not allow.
func FuzzPolicy(f *testing.F) {
	f.Add(goodPolicy, "token:payments", "payments-a")
	f.Add("rules: [{callers: ['*'], prefixes: ['']}]", "jwt:x", "")
	f.Add("rules:\n- callers: [&a '*', *a]\n  prefixes: !!str [x]", "cert:x", "x")
	f.Fuzz(func(t *testing.T, content, name, key string) {
		p, err := parsePolicy([]byte(content))
		if err != nil {
			require.Nil(t, p)
			require.NotEmpty(t, err.Error())
			return
		}
		require.NotEmpty(t, p.rules)
		for _, r := range p.rules {
			require.NotEmpty(t, r.callers)
			require.NotEmpty(t, r.prefixes)
		}
		require.Equal(t, []int{0}, p.authorize(Caller{}, group, []string{key}), "nobody has no rule")
		if len(p.authorize(Caller{[]string{name}}, group, []string{key})) == 0 {
			require.NotEmpty(t, p.allowed(Caller{[]string{name}}, group))
		}
	})
}

// BenchmarkRefusals is what a call costs that is not let in: the auth package's part.
func BenchmarkRefusals(b *testing.B) {
	i := newIssuer(b, false)
	rs, es := newKey(b, "rs", "RS256"), newKey(b, "es", "ES256")
	i.publish(rs, es)
	times := quickKeys
	times.cooldown = 1 << 62
	a := i.trusting(b, nil, times)
	tokenFile := &tokens{}
	for n := range 100 {
		one, err := parseTokens(fmt.Appendf(nil, "n:%032d", n))
		require.NoError(b, err)
		tokenFile.digests, tokenFile.names = append(tokenFile.digests, one.digests...), append(tokenFile.names, one.names...)
	}
	a.tokens, a.cfg.TokenFile = inUse(b, tokenFile), "x"
	_, cause := ask(context.Background(), a, rs.sign(b, i.claims(nil), nil))
	require.Empty(b, cause)
	for name, token := range map[string]string{
		"unknown token, 100 in the file":        opsToken,
		"JWT of an unknown key":                 signingKey{"zz", "ES256", es.private}.sign(b, i.claims(nil), nil),
		"JWT expired, RS256":                    rs.sign(b, i.claims(map[string]any{"exp": 1}), nil),
		"JWT forged, RS256":                     signingKey{"rs", "RS256", newKey(b, "x", "RS256").private}.sign(b, i.claims(nil), nil),
		"JWT forged, ES256":                     signingKey{"es", "ES256", newKey(b, "x", "ES256").private}.sign(b, i.claims(nil), nil),
		"JWT good, seen before (not a refusal)": rs.sign(b, i.claims(nil), nil),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ask(context.Background(), a, token)
			}
		})
	}
}
