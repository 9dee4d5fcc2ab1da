package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/reload"
)

// Config says who may call. The zero Config lets everybody.
type Config struct {
	// Certificates: the TLS handshake demands a client certificate. With
	// AllowedSubjects it must have one of these names.
	Certificates    bool
	AllowedSubjects []string
	// TokenFile has the bearer tokens; "" for none.
	TokenFile string
	OIDC      OIDC
	// PolicyFile says which caller may look up which keys; "" if all may all.
	PolicyFile string
}

// Bearer reports whether callers must show a bearer token.
func (c Config) Bearer() bool { return c.TokenFile != "" || c.OIDC.Issuer != "" }

// Open reports whether everybody may call.
func (c Config) Open() bool { return !c.Bearer() && !c.Certificates }

// Authenticator decides who may call. Its methods may be called at any time from
// anywhere.
type Authenticator struct {
	cfg      Config
	subjects subjects
	tokens   *reload.Value[tokens] // nil: no token file
	jwts     *verifier             // nil: no issuer
	policy   *reload.Value[policy] // nil: no policy
	watched  []reload.Watched
}

// New reads the files and asks nobody: an issuer that is down does not keep the
// service from starting.
func New(cfg Config) (*Authenticator, error) {
	a := &Authenticator{cfg: cfg}
	var err error
	if a.subjects, err = parseSubjects(cfg.AllowedSubjects); err != nil {
		return nil, &SettingError{"auth.allowed-subjects", err}
	}
	if cfg.PolicyFile != "" && cfg.Open() {
		return nil, &SettingError{"auth.policy-file", errors.New("is given, but nothing tells who is calling: " +
			"set auth.token-file, auth.oidc.issuer or tls.client-auth too")}
	}
	if len(cfg.AllowedSubjects) > 0 && !cfg.Certificates {
		return nil, &SettingError{"auth.allowed-subjects", errors.New("is given, but client certificates are not asked for: set tls.client-auth to require")}
	}
	if a.tokens, err = load(a, "auth.token-file", cfg.TokenFile, parseTokens); err != nil {
		return nil, err
	}
	if a.policy, err = load(a, "auth.policy-file", cfg.PolicyFile, parsePolicy); err != nil {
		return nil, err
	}
	if cfg.OIDC.Issuer != "" {
		a.jwts, err = a.newVerifier(cfg.OIDC)
	}
	return a, err
}

// SettingError is a setting that is wrong by itself, not by a file that it names.
type SettingError struct {
	Setting string
	Err     error
}

func (e *SettingError) Error() string { return e.Setting + ": " + e.Err.Error() }
func (e *SettingError) Unwrap() error { return e.Err }

// load reads a file that may be missing from the settings; then the value is nil.
func load[T any](a *Authenticator, setting, path string, parse func([]byte) (*T, error)) (*reload.Value[T], error) {
	if path == "" {
		return nil, nil
	}
	file := reload.File{Setting: setting, Path: path}
	value, err := reload.Load([]reload.File{file}, func(contents [][]byte) (*T, error) {
		made, err := parse(contents[0])
		if err != nil {
			return nil, &reload.Error{File: file, Err: err}
		}
		return made, nil
	})
	if err != nil {
		return nil, err
	}
	a.watched = append(a.watched, value)
	return value, nil
}

func (a *Authenticator) newVerifier(cfg OIDC) (*verifier, error) {
	if err := checkIssuer(cfg.Issuer); err != nil {
		return nil, &SettingError{"auth.oidc.issuer", err}
	}
	if len(cfg.Audiences) == 0 {
		return nil, &SettingError{"auth.oidc.audience", errors.New("must be given with auth.oidc.issuer: " +
			"without it every token that the issuer made for anybody would be accepted")}
	}
	var roots func() *x509.CertPool
	pool, err := load(a, "auth.oidc.ca-file", cfg.CAFile, ParseAuthorities)
	if err != nil {
		return nil, err
	}
	if pool != nil {
		roots = func() *x509.CertPool { return pool.Get().Pool }
	}
	return &verifier{OIDC: cfg, keys: newKeySet(cfg.Issuer, roots, usualKeyTimes)}, nil
}

// Run follows the files and the issuer's keys until ctx is done.
func (a *Authenticator) Run(ctx context.Context, every time.Duration, logger *slog.Logger) {
	var running sync.WaitGroup
	running.Go(func() { reload.Watch(ctx, every, logger, a.watched...) })
	if a.jwts != nil {
		running.Go(func() { a.jwts.keys.run(ctx, logger) })
	}
	running.Wait()
}

// Errors says what is wrong now with what was read before, by setting: a changed
// file that cannot be used, an issuer that cannot be reached. nil is all well.
func (a *Authenticator) Errors() map[string]error {
	errs := map[string]error{}
	for _, v := range a.watched {
		errs[v.Files()[0].Setting] = v.Status().Err
	}
	if a.jwts != nil {
		errs["auth.oidc.issuer"] = a.jwts.keys.status()
	}
	return errs
}

// Credentials are what a caller has shown.
type Credentials struct {
	Authorization []string             // each value of the header
	TLS           *tls.ConnectionState // nil: the connection is not encrypted
}

// Authenticate says who is calling. The error is a *RefusalError.
func (a *Authenticator) Authenticate(ctx context.Context, shown Credentials) (Caller, error) {
	var caller Caller
	if a.cfg.Certificates {
		names, refusal := a.subjects.names(shown.TLS)
		if refusal != nil {
			return Caller{}, refusal
		}
		caller.Names = names
	}
	if a.cfg.Bearer() {
		name, refusal := a.bearer(ctx, shown.Authorization)
		if refusal != nil {
			return Caller{}, refusal
		}
		caller.Names = append([]string{name}, caller.Names...)
	}
	return caller, nil
}

func (a *Authenticator) bearer(ctx context.Context, authorization []string) (name string, refusal *RefusalError) {
	switch len(authorization) {
	case 0:
		return "", refuse(Unauthenticated, CauseNoCredentials, "the call has no bearer token: send the header authorization: Bearer …")
	case 1:
	default:
		return "", refuse(Unauthenticated, CauseMalformed, "the call has more than one authorization header")
	}
	scheme, token, _ := strings.Cut(authorization[0], " ")
	token = strings.Trim(token, " ")
	if len(token) > maxTokenLength {
		return "", refuse(Unauthenticated, CauseMalformed, "the bearer token has more than %d bytes", maxTokenLength)
	}
	if !strings.EqualFold(scheme, "Bearer") || !isBearerToken(token) {
		return "", refuse(Unauthenticated, CauseMalformed, "the authorization header is not of the form: Bearer, a space, the token")
	}
	if a.tokens != nil {
		if name, ok := a.tokens.Get().find(token); ok {
			return name, nil
		}
	}
	if a.jwts != nil && looksLikeJWT(token) {
		subject, refusal := a.jwts.subject(ctx, token)
		return "jwt:" + subject, refusal
	}
	return "", refuse(Unauthenticated, CauseUnknownToken, "the bearer token is not one that is accepted here")
}

// Authorize says whether the caller may look up the keys. The error is a *RefusalError
// that has the keys that it may not.
func (a *Authenticator) Authorize(caller Caller, keyType coordsvcv1.KeyType, keys []string) error {
	if a.policy == nil {
		return nil
	}
	denied := a.policy.Get().authorize(caller, keyType, keys)
	if len(denied) == 0 {
		return nil
	}
	r := refuse(Denied, CauseKeyNotAllowed, "%s may not look up %d of the %d keys asked for, the first is %s: see the policy of this service",
		clip(caller.String()), len(denied), len(keys), clip(keys[denied[0]]))
	r.Denied = denied
	return r
}
