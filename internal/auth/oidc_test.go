package auth

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
)

var quickKeys = keyTimes{refresh: time.Hour, cooldown: time.Millisecond, retry: 10 * time.Millisecond, timeout: 5 * time.Second}

func TestJWTs(t *testing.T) {
	i := newIssuer(t, true)
	rs, es, ed := newKey(t, "rs", jose.RS256), newKey(t, "es", jose.ES256), newKey(t, "ed", jose.EdDSA)
	ps := signingKey{"rs", jose.PS384, rs.private}
	stranger := newKey(t, "rs", jose.RS256) // the same id, another key
	i.publish(rs, es, ed)
	a := i.trusting(t, nil, quickKeys)

	publicDER, err := x509.MarshalPKIXPublicKey(rs.private.Public())
	require.NoError(t, err)
	unsigned := func(header string) string {
		payload, err := json.Marshal(i.claims(nil))
		require.NoError(t, err)
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(payload) + "."
	}
	good := rs.sign(t, i.claims(nil), nil)
	parts := strings.Split(good, ".")
	forged := base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf(`{"iss":%q,"aud":"coordsvc","sub":"root","exp":9999999999}`, i.URL)))
	at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	with := func(changes map[string]any) string { return rs.sign(t, i.claims(changes), nil) }

	for name, c := range map[string]struct{ token, caller, cause string }{
		"RS256":                     {good, "jwt:alice", ""},
		"PS384":                     {ps.sign(t, i.claims(nil), nil), "jwt:alice", ""},
		"ES256":                     {es.sign(t, i.claims(nil), nil), "jwt:alice", ""},
		"EdDSA":                     {ed.sign(t, i.claims(nil), nil), "jwt:alice", ""},
		"access token":              {rs.sign(t, i.claims(nil), map[string]any{"typ": "at+JWT"}), "jwt:alice", ""},
		"several audiences":         {with(map[string]any{"aud": []string{"x", "coordsvc"}}), "jwt:alice", ""},
		"expired within the skew":   {with(map[string]any{"exp": at(-30 * time.Second)}), "jwt:alice", ""},
		"not yet, within the skew":  {with(map[string]any{"nbf": at(30 * time.Second)}), "jwt:alice", ""},
		"expired":                   {with(map[string]any{"exp": at(-90 * time.Second)}), "", CauseExpiredToken},
		"not yet":                   {with(map[string]any{"nbf": at(90 * time.Second)}), "", CauseExpiredToken},
		"issued in the future":      {with(map[string]any{"iat": at(90 * time.Second)}), "", CauseExpiredToken},
		"never expires":             {with(map[string]any{"exp": nil}), "", CauseWrongToken},
		"other audience":            {with(map[string]any{"aud": "coordsvc2"}), "", CauseWrongToken},
		"no audience":               {with(map[string]any{"aud": nil}), "", CauseWrongToken},
		"other issuer":              {with(map[string]any{"iss": i.URL + "/"}), "", CauseWrongToken},
		"no issuer":                 {with(map[string]any{"iss": nil}), "", CauseWrongToken},
		"no subject":                {with(map[string]any{"sub": nil}), "", CauseWrongToken},
		"exp as text":               {with(map[string]any{"exp": "tomorrow"}), "", CauseMalformed},
		"logout token":              {rs.sign(t, i.claims(nil), map[string]any{"typ": "logout+jwt"}), "", CauseWrongToken},
		"typ as a number":           {rs.sign(t, i.claims(nil), map[string]any{"typ": 1}), "", CauseWrongToken},
		"critical header":           {rs.sign(t, i.claims(nil), map[string]any{"crit": []string{"x"}, "x": 1}), "", CauseUnknownToken},
		"signed by a stranger":      {stranger.sign(t, i.claims(nil), nil), "", CauseUnknownToken},
		"unknown key":               {signingKey{"zz", jose.RS256, rs.private}.sign(t, i.claims(nil), nil), "", CauseUnknownToken},
		"no key id among several":   {signingKey{"", jose.RS256, rs.private}.sign(t, i.claims(nil), nil), "", CauseUnknownToken},
		"key of another algorithm":  {signingKey{"es", jose.RS256, rs.private}.sign(t, i.claims(nil), nil), "", CauseUnknownToken},
		"none":                      {unsigned(`{"alg":"none","kid":"rs"}`), "", CauseMalformed},
		"no signature":              {parts[0] + "." + parts[1] + ".", "", CauseUnknownToken},
		"claims exchanged":          {parts[0] + "." + forged + "." + parts[2], "", CauseUnknownToken},
		"HS256 with the public key": {signWith(t, jose.SigningKey{Algorithm: jose.HS256, Key: publicDER}, "rs", i.claims(nil), nil), "", CauseMalformed},
		"four parts":                {good + ".x", "", CauseUnknownToken},
		"two parts":                 {parts[0] + "." + parts[1], "", CauseUnknownToken},
		"no JSON":                   {"YQ.YQ.YQ", "", CauseMalformed},
		"too long":                  {strings.Repeat("a", maxTokenLength) + ".b.c", "", CauseMalformed},
		"its own key in the header": {embedded(t, i), "", CauseUnknownToken},
	} {
		t.Run(name, func(t *testing.T) {
			caller, cause := ask(t.Context(), a, c.token)
			require.Equal(t, c.cause, cause)
			require.Equal(t, c.caller, caller)
		})
	}
}

// embedded is a token that brings the key along that it is signed with.
func embedded(t *testing.T, i *issuer) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return signWith(t, jose.SigningKey{Algorithm: jose.RS256, Key: key}, "rs", i.claims(nil),
		map[string]any{"jwk": jose.JSONWebKey{Key: &key.PublicKey, KeyID: "rs"}})
}

// A key that the issuer signs with for the first time is fetched at once; one that
// it has taken back is refused after the next fetch.
func TestKeysRotate(t *testing.T) {
	i := newIssuer(t, false)
	first, second, third := newKey(t, "1", jose.ES256), newKey(t, "2", jose.ES256), newKey(t, "3", jose.ES256)
	i.publish(first)
	a := i.trusting(t, nil, quickKeys)
	tokens := map[string]string{} // the same ones all along: those accepted before are remembered
	for _, k := range []signingKey{first, second, third} {
		tokens[k.id] = k.sign(t, i.claims(nil), nil)
	}
	accepted := func(k signingKey) bool { _, cause := ask(t.Context(), a, tokens[k.id]); return cause == "" }
	require.True(t, accepted(first), "the first call waits for the first fetch")

	i.publish(first, second)
	require.Eventually(t, func() bool { return accepted(second) }, 5*time.Second, time.Millisecond)
	require.True(t, accepted(first))
	i.publish(third)
	require.Eventually(t, func() bool { return accepted(third) }, 5*time.Second, time.Millisecond)
	require.False(t, accepted(first))
	require.False(t, accepted(second))
}

// A token that was accepted is not checked again, but it still expires.
func TestRememberedTokensExpire(t *testing.T) {
	i := newIssuer(t, false)
	key := newKey(t, "1", jose.ES256)
	i.publish(key)
	a := i.trusting(t, nil, quickKeys)
	a.jwts.ClockSkew = 0
	token := key.sign(t, i.claims(map[string]any{"exp": time.Now().Add(4 * time.Second).Unix()}), nil)
	_, cause := ask(t.Context(), a, token)
	require.Empty(t, cause)
	require.Len(t, a.jwts.verified.claims, 1)
	require.Eventually(t, func() bool { _, cause := ask(t.Context(), a, token); return cause == CauseExpiredToken }, 20*time.Second, 10*time.Millisecond)

	for n := range maxVerified + 10 {
		_, cause := ask(t.Context(), a, key.sign(t, i.claims(map[string]any{"jti": fmt.Sprint(n)}), nil))
		require.Empty(t, cause)
	}
	require.LessOrEqual(t, len(a.jwts.verified.claims), maxVerified)
}

// Tokens with made-up key ids must not make the service ask the issuer each time.
func TestUnknownKeysDoNotFloodTheIssuer(t *testing.T) {
	i := newIssuer(t, false)
	key := newKey(t, "1", jose.ES256)
	i.publish(key)
	times := quickKeys
	times.cooldown = time.Hour
	a := i.trusting(t, nil, times)
	_, cause := ask(t.Context(), a, key.sign(t, i.claims(nil), nil))
	require.Empty(t, cause)
	var asking sync.WaitGroup
	for n := range 200 {
		asking.Go(func() {
			made := signingKey{fmt.Sprint("made-up-", n), jose.ES256, key.private}
			_, cause := ask(t.Context(), a, made.sign(t, i.claims(nil), nil))
			require.Equal(t, CauseUnknownToken, cause)
		})
	}
	asking.Wait()
	require.EqualValues(t, 1, i.fetches.Load())
}

// While a fetch hangs, strangers may hold no more than a few calls open.
func TestWaitersAreBounded(t *testing.T) {
	i := newIssuer(t, false)
	key := newKey(t, "1", jose.ES256)
	i.publish(key)
	i.change(func() { i.slow = time.Hour }) // ends with the request
	a := i.trusting(t, nil, keyTimes{refresh: time.Hour, cooldown: time.Hour, retry: time.Hour, timeout: time.Hour})
	token := key.sign(t, i.claims(nil), nil)
	ctx, leave := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range maxWaiting {
		waiting.Go(func() { ask(ctx, a, token) })
	}
	require.Eventually(t, func() bool { return a.jwts.keys.waiting.Load() == maxWaiting }, 5*time.Second, time.Millisecond)
	_, cause := ask(t.Context(), a, token)
	require.Equal(t, CauseIssuerUnreachable, cause)
	leave()
	waiting.Wait()
	require.Zero(t, a.jwts.keys.waiting.Load())
}

func TestIssuerThatIsDown(t *testing.T) {
	i := newIssuer(t, false)
	key := newKey(t, "1", jose.ES256)
	i.publish(key)
	i.change(func() { i.down = true })
	log := &lockedLog{}
	a := i.trusting(t, log, quickKeys)
	token := key.sign(t, i.claims(nil), nil)
	_, err := a.Authenticate(t.Context(), Credentials{Authorization: []string{"Bearer " + token}})
	var refused *RefusalError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, Unavailable, refused.Kind)
	require.ErrorContains(t, a.Errors()["auth.oidc.issuer"], "503")

	i.change(func() { i.down = false })
	require.Eventually(t, func() bool { _, cause := ask(t.Context(), a, token); return cause == "" }, 5*time.Second, time.Millisecond)
	require.NoError(t, a.Errors()["auth.oidc.issuer"])
	require.Equal(t, 1, strings.Count(log.String(), "cannot be fetched"), "said once, however often it is tried")

	// Down again: the keys that are there stay good, others cannot be judged.
	i.change(func() { i.down = true })
	other := newKey(t, "2", jose.ES256)
	require.Eventually(t, func() bool {
		_, cause := ask(t.Context(), a, other.sign(t, i.claims(nil), nil))
		return cause == CauseIssuerUnreachable
	}, 5*time.Second, time.Millisecond)
	caller, cause := ask(t.Context(), a, token)
	require.Empty(t, cause)
	require.Equal(t, "jwt:alice", caller)
}

// An issuer that stays down is asked at the usual pace, however long that lasts: a pause
// that went on doubling would overflow, and be none.
func TestIssuerThatStaysDownIsNotFlooded(t *testing.T) {
	const asked = 100 // a pause has 63 bits to double in
	times := keyTimes{refresh: 5 * time.Millisecond, retry: time.Hour, timeout: 5 * time.Second}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var count atomic.Int64
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "down", http.StatusServiceUnavailable)
		if count.Add(1) == asked {
			stop()
		}
	}))
	defer down.Close()
	start := time.Now()
	newKeySet(down.URL, nil, times).run(ctx, slog.New(slog.DiscardHandler))
	require.GreaterOrEqual(t, time.Since(start), (asked-1)*times.refresh)
}

func TestIssuersThatAreNotBelieved(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // weak on purpose
	if err != nil {
		t.Skip("this Go makes no weak keys") // GODEBUG rsa1024min
	}
	for name, c := range map[string]struct {
		spoil func(i *issuer)
		says  string
	}{
		"another name": {func(i *issuer) {
			i.discovery = map[string]string{"issuer": "https://evil.example", "jwks_uri": i.URL + "/keys"}
		}, "calls itself"},
		"keys over http": {func(i *issuer) {
			i.discovery = map[string]string{"issuer": i.URL, "jwks_uri": "http://evil.example/keys"}
		}, "must begin with https"},
		"keys nowhere": {func(i *issuer) { i.discovery = map[string]string{"issuer": i.URL} }, "jwks_uri"},
		"no keys":      {func(i *issuer) { i.published = nil }, "no key that signatures"},
		"a weak key":   {func(i *issuer) { i.published = []any{jose.JSONWebKey{Key: &weak.PublicKey, KeyID: "1"}} }, "no key that signatures"},
		"a shared secret": {func(i *issuer) {
			i.published = []any{jose.JSONWebKey{Key: []byte("0123456789abcdef0123456789abcdef"), KeyID: "1"}}
		}, "no key that signatures"},
		"keys of no kind":   {func(i *issuer) { i.published = []any{map[string]any{"kty": "XX"}, "text", 1, nil} }, "no key that signatures"},
		"only encryption":   {func(i *issuer) { i.published = []any{map[string]any{"kty": "RSA", "use": "enc"}} }, "no key that signatures"},
		"an endless answer": {func(i *issuer) { i.published = []any{strings.Repeat("x", maxDocument)} }, "more than 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t, false)
			i.change(func() { c.spoil(i) })
			a := i.trusting(t, nil, quickKeys)
			require.Eventually(t, func() bool { return a.Errors()["auth.oidc.issuer"] != nil }, 5*time.Second, time.Millisecond)
			require.ErrorContains(t, a.Errors()["auth.oidc.issuer"], c.says)
		})
	}
}

// The issuer's certificate is checked: with the authorities of the system this
// one's is not good.
func TestIssuerCertificateIsChecked(t *testing.T) {
	i := newIssuer(t, true)
	keys := newKeySet(i.URL, nil, quickKeys)
	_, err := keys.fetch(t.Context())
	require.ErrorContains(t, err, "certificate")
	require.Zero(t, i.fetches.Load())
}

func TestOIDCSettings(t *testing.T) {
	for _, c := range []struct {
		oidc OIDC
		says string
	}{
		{OIDC{Issuer: "https://login.example"}, "auth.oidc.audience: must be given"},
		{OIDC{Issuer: "http://login.example", Audiences: []string{"a"}}, "must begin with https://"},
		{OIDC{Issuer: "login.example", Audiences: []string{"a"}}, "is not the URL of an issuer"},
		{OIDC{Issuer: "https://u:p@login.example", Audiences: []string{"a"}}, "is not the URL of an issuer"},
		{OIDC{Issuer: "https://login.example", Audiences: []string{"a"}, CAFile: "/nowhere"}, "auth.oidc.ca-file: /nowhere: "},
	} {
		_, err := New(Config{OIDC: c.oidc})
		require.ErrorContains(t, err, c.says)
	}
	_, err := New(Config{OIDC: OIDC{Issuer: "http://127.0.0.1:1/realm", Audiences: []string{"a"}}})
	require.NoError(t, err, "on this machine, for trying out")
}

type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// FuzzJWTs: of what strangers send only a token that the issuer has signed gets in; and
// whatever claims the issuer signs, only those that are good now, for this service.
func FuzzJWTs(f *testing.F) {
	i := newIssuer(f, false)
	key := newKey(f, "1", jose.ES256)
	i.publish(key)
	a := i.trusting(f, nil, keyTimes{refresh: time.Hour, cooldown: time.Hour, retry: time.Hour, timeout: 5 * time.Second})
	good := key.sign(f, i.claims(nil), nil)
	_, cause := ask(f.Context(), a, good)
	require.Empty(f, cause)
	parts := strings.Split(good, ".")
	text, err := json.Marshal(i.claims(nil))
	require.NoError(f, err)
	f.Add(good, string(text))
	f.Add("e30."+parts[1]+"."+parts[2], `{}`)
	f.Add(parts[0]+"."+parts[1]+".", strings.Replace(string(text), `"coordsvc"`, `["x","coordsvc"]`, 1))
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))+"."+parts[1]+".", strings.Replace(string(text), `"sub":"alice"`, `"sub":["alice"]`, 1))
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"1","typ":"at+jwt"}`))+"."+parts[1]+"."+parts[2], `{"exp":1e300,"iss":1}`)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key.private}, (&jose.SignerOptions{}).WithHeader("kid", "1"))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, token, claims string) {
		if _, cause := ask(t.Context(), a, token); cause == "" {
			require.True(t, strings.HasPrefix(strings.Trim(token, " "), parts[0]+"."+parts[1]+"."), "%q", token)
		}
		signed, err := signer.Sign([]byte(claims))
		require.NoError(t, err)
		compact, err := signed.CompactSerialize()
		require.NoError(t, err)
		caller, cause := ask(t.Context(), a, compact)
		if cause != "" {
			return
		}
		c := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(claims), &c), "%s", claims)
		require.Equal(t, i.URL, c["iss"])
		require.Equal(t, "jwt:"+c["sub"].(string), caller)
		require.NotEmpty(t, c["sub"])
		require.Greater(t, c["exp"], float64(time.Now().Add(-2*time.Minute).Unix()))
		list, _ := c["aud"].([]any)
		require.True(t, slices.ContainsFunc(append(list, c["aud"]), func(aud any) bool { return aud == any("coordsvc") || aud == any("other") }), "%v", c["aud"])
	})
}
