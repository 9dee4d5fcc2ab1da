package auth

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	ciToken  = "mF_9.B5f-4.1JqM8yT3kVw"
	ciToken2 = "2YotnFZFEjr1zCsicMWpAA=="
	opsToken = "0123456789abcdef0123456789abcdef"
)

func TestTokenFile(t *testing.T) {
	set, err := parseTokens([]byte("\xef\xbb\xbf# who: token\r\n\r\nci:" + ciToken + "\r\n  ci:" + ciToken2 + "  \n#ops:xxxxxxxxxxxxxxxxxxxx\nops:" + opsToken))
	require.NoError(t, err)
	for token, name := range map[string]string{
		ciToken: "token:ci", ciToken2: "token:ci", opsToken: "token:ops",
		"": "", "ci": "", "ci:" + ciToken: "", ciToken + "=": "", strings.ToUpper(opsToken): "", "xxxxxxxxxxxxxxxxxxxx": "", opsToken[:31]: "",
	} {
		found, ok := set.find(token)
		require.Equal(t, name, found, token)
		require.Equal(t, name != "", ok)
	}
}

// A mistake names the line. It does not quote it: logs are read by many.
func TestTokenFileMistakes(t *testing.T) {
	for content, says := range map[string]string{
		"":                                       "holds no token",
		"\n# nothing\n":                          "holds no token",
		"\xff\xfe":                               "is not text",
		"a:" + ciToken + "\nsecretsecretsecret":  "line 2: has no colon",
		":" + ciToken:                            "line 1: the name before the colon",
		"a b:" + ciToken:                         "line 1: the name before the colon",
		strings.Repeat("a", 129) + ":" + ciToken: "line 1: the name before the colon",
		"a:secret":                               "line 1: the token has fewer than 16 characters",
		"a:":                                     "line 1: the token has fewer",
		"a:secret in secretsecret":               "line 1: the token holds a character",
		"a:secret:secret:secret":                 "line 1: the token holds a character",
		"a:sécretsécretsécret":                   "line 1: the token holds a character",
		"a:================":                     "line 1: the token holds a character",
		"a:" + ciToken + "\n\nb:" + ciToken:      "line 3: the token stands in line 1 already",
		"a:" + strings.Repeat("s", maxTokenLength+1): "line 1: the token has more than",
	} {
		_, err := parseTokens([]byte(content))
		require.ErrorContains(t, err, says, "%.40q", content)
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, err.Error(), ciToken)
	}
}

// The time of a comparison must not tell which token was nearly right: every
// digest is compared, in constant time. A test of clocks would be one of luck;
// this one sees that no entry is skipped.
func TestFindLooksAtAllTokens(t *testing.T) {
	set := &tokens{}
	for i := range 10 {
		set.digests = append(set.digests, sha256.Sum256([]byte(opsToken))) // all the same
		set.names = append(set.names, fmt.Sprint(i))
	}
	name, ok := set.find(opsToken)
	require.True(t, ok)
	require.Equal(t, "9", name, "it went on after the first that was equal")
}

func authenticatorOf(t testing.TB, cfg Config) *Authenticator {
	t.Helper()
	a, err := New(cfg)
	require.NoError(t, err)
	return a
}

func file(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestAuthorizationHeader(t *testing.T) {
	a := authenticatorOf(t, Config{TokenFile: file(t, "tokens", "ci:"+ciToken)})
	for _, c := range []struct {
		headers []string
		cause   string
	}{
		{[]string{"Bearer " + ciToken}, ""},
		{[]string{"bearer " + ciToken}, ""},
		{[]string{"BEARER   " + ciToken + " "}, ""},
		{nil, CauseNoCredentials},
		{[]string{""}, CauseMalformed},
		{[]string{ciToken}, CauseMalformed},
		{[]string{"Bearer"}, CauseMalformed},
		{[]string{"Bearer "}, CauseMalformed},
		{[]string{"Bearer\t" + ciToken}, CauseMalformed},
		{[]string{"Basic " + ciToken}, CauseMalformed},
		{[]string{"Bearer " + ciToken + " x"}, CauseMalformed},
		{[]string{"Bearer " + ciToken + "\x00"}, CauseMalformed},
		{[]string{"Bearer " + strings.Repeat("a", maxTokenLength+1)}, CauseMalformed},
		{[]string{"Bearer " + ciToken, "Bearer " + ciToken}, CauseMalformed},
		{[]string{"Bearer " + opsToken}, CauseUnknownToken},
		{[]string{"Bearer a.b.c"}, CauseUnknownToken}, // no issuer is trusted
	} {
		caller, err := a.Authenticate(t.Context(), Credentials{Authorization: c.headers})
		if c.cause == "" {
			require.NoError(t, err, "%.60q", c.headers)
			require.Equal(t, "token:ci", caller.String())
			continue
		}
		var refused *RefusalError
		require.ErrorAs(t, err, &refused, "%.60q", c.headers)
		require.Equal(t, c.cause, refused.Cause, "%.60q", c.headers)
		require.Equal(t, Unauthenticated, refused.Kind)
		require.Empty(t, caller.Names)
		require.NotContains(t, refused.Message, opsToken)
	}
}

func TestNobodyIsAskedWhereNothingIsConfigured(t *testing.T) {
	a := authenticatorOf(t, Config{})
	caller, err := a.Authenticate(t.Context(), Credentials{Authorization: []string{"Basic whatever"}})
	require.NoError(t, err)
	require.Empty(t, caller.String())
	require.Empty(t, a.Errors())
}

func TestSettingsThatMissOthers(t *testing.T) {
	policy := file(t, "policy", goodPolicy)
	for says, cfg := range map[string]Config{
		"auth.policy-file: ":       {PolicyFile: policy},
		"auth.allowed-subjects: ":  {AllowedSubjects: []string{"a"}},
		"auth.token-file: ":        {TokenFile: file(t, "empty", "")},
		"auth.oidc.audience: must": {OIDC: OIDC{Issuer: "https://login.example"}},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, says)
	}
}

func TestSubjectMistakes(t *testing.T) {
	for entry, says := range map[string]string{
		"*":                        "allows every certificate",
		"a*b":                      "not at its end",
		"**":                       "not at its end",
		"CN=orders,O=Example":      "of CN=orders,O=Example write orders",
		"spiffe://":                "trust domain and a path",
		"spiffe://prod":            "trust domain and a path",
		"spiffe://prod*":           "trust domain and a path",
		"spiffe://prod.example:1/": "no query, fragment, user or port",
		"spiffe://u@prod.example/": "no query, fragment, user or port",
		"https://prod.example/a":   "is neither",
	} {
		_, err := parseSubjects([]string{entry})
		require.ErrorContains(t, err, says, entry)
	}
}

// FuzzTokens: whatever the file and the header hold, nobody gets in but with a
// token of the file.
func FuzzTokens(f *testing.F) {
	f.Add("ci:"+ciToken+"\n", "Bearer "+ciToken)
	f.Add("# x\r\nci:"+ciToken2, "bearer "+ciToken2+" ")
	f.Add("ci:"+ciToken, "Bearer a.b.c")
	f.Fuzz(func(t *testing.T, content, header string) {
		set, err := parseTokens([]byte(content))
		if err != nil {
			require.Nil(t, set)
			return
		}
		a := &Authenticator{cfg: Config{TokenFile: "x"}, tokens: inUse(t, set)}
		caller, refusal := a.Authenticate(t.Context(), Credentials{Authorization: []string{header}})
		if refusal != nil {
			return
		}
		name := strings.TrimPrefix(caller.String(), "token:")
		_, token, _ := strings.Cut(header, " ")
		token = strings.TrimSpace(token)
		require.GreaterOrEqual(t, len(token), minTokenLength)
		require.Contains(t, content, name+":"+token)
	})
}

func BenchmarkFindAmong100Tokens(b *testing.B) {
	var content strings.Builder
	for i := range 100 {
		fmt.Fprintf(&content, "n%d:%032d\n", i, i)
	}
	set, err := parseTokens([]byte(content.String()))
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		set.find(opsToken)
	}
}
