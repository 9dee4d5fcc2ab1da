package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// keySet has the public keys of an issuer. They are fetched in the background:
// when the service starts, every refreshEvery, and when a token names a key that
// is not there, but then no more often than once in cooldown, whatever strangers
// send. What was fetched last stays in use while the issuer cannot be reached.
type keySet struct {
	issuer string
	roots  func() *x509.CertPool // nil: those of the system
	times  keyTimes

	current atomic.Pointer[[]jose.JSONWebKey] // nil before the first fetch
	waiting atomic.Int64
	kick    chan struct{}

	mu      sync.Mutex
	pending chan struct{} // closed when the fetch that is awaited has ended; nil: none is
	ended   time.Time     // of the last fetch
	err     error         // of the last fetch
	closed  bool
}

type keyTimes struct {
	refresh  time.Duration // between fetches
	cooldown time.Duration // between fetches that tokens with unknown keys ask for
	retry    time.Duration // after the first fetch that fails; twice as long after each further one
	timeout  time.Duration // of a fetch
}

var usualKeyTimes = keyTimes{refresh: 5 * time.Minute, cooldown: 10 * time.Second, retry: time.Second, timeout: 5 * time.Second}

const (
	// maxWaiting is how many calls may wait for a fetch. Each may be a stranger's.
	maxWaiting = 64
	// maxDocument bounds what an issuer may answer.
	maxDocument = 1 << 20
	// minRSABits is what NIST SP 800-131A demands.
	minRSABits = 2048
)

func newKeySet(issuer string, roots func() *x509.CertPool, times keyTimes) *keySet {
	return &keySet{
		issuer: issuer, roots: roots, times: times,
		kick:    make(chan struct{}, 1),
		pending: make(chan struct{}), // of the first fetch, which run begins with
	}
}

// find returns the key of that id. It waits for one fetch if the key is unknown.
func (s *keySet) find(ctx context.Context, id string) (jose.JSONWebKey, *RefusalError) {
	if key, ok := s.lookup(id); ok {
		return key, nil
	}
	unreachable := refuse(Unavailable, CauseIssuerUnreachable, "the keys of the tokens' issuer cannot be fetched now: try again")
	if fetched := s.ask(); fetched != nil {
		if s.waiting.Add(1) > maxWaiting {
			s.waiting.Add(-1)
			return jose.JSONWebKey{}, unreachable
		}
		defer s.waiting.Add(-1)
		select {
		case <-fetched:
		case <-ctx.Done():
			return jose.JSONWebKey{}, unreachable
		}
		if key, ok := s.lookup(id); ok {
			return key, nil
		}
	}
	if s.status() != nil {
		return jose.JSONWebKey{}, unreachable
	}
	return jose.JSONWebKey{}, refuse(Unauthenticated, CauseUnknownToken, "the token is signed with a key that is not one of the issuer's")
}

// lookup finds a key among those that are there. A token may name no key only
// where there is just one: trying them all would be work for strangers to give.
func (s *keySet) lookup(id string) (jose.JSONWebKey, bool) {
	keys := s.current.Load()
	if keys == nil {
		return jose.JSONWebKey{}, false
	}
	if id == "" && len(*keys) == 1 {
		return (*keys)[0], true
	}
	i := slices.IndexFunc(*keys, func(k jose.JSONWebKey) bool { return id != "" && k.KeyID == id })
	if i < 0 {
		return jose.JSONWebKey{}, false
	}
	return (*keys)[i], true
}

// ask returns what is closed when the next fetch has ended; nil if there will be
// none soon.
func (s *keySet) ask() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != nil {
		return s.pending
	}
	if s.closed || time.Since(s.ended) < s.times.cooldown {
		return nil
	}
	s.pending = make(chan struct{})
	s.kick <- struct{}{} // has room: there was no pending fetch
	return s.pending
}

// status is why the keys that are there may be old; nil if they are not.
func (s *keySet) status() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// run fetches until ctx is done.
func (s *keySet) run(ctx context.Context, logger *slog.Logger) {
	defer s.end()
	retry := s.times.retry
	for {
		keys, err := s.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		s.take(keys, err, logger)
		next := s.times.refresh
		if err != nil {
			next = min(retry, s.times.refresh)
			retry = 2 * next
		} else {
			retry = s.times.retry
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-s.kick:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// take ends a fetch: what it brought is in use when those who waited go on.
func (s *keySet) take(keys []jose.JSONWebKey, err error, logger *slog.Logger) {
	if err == nil {
		s.current.Store(&keys)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && (s.err == nil || s.err.Error() != err.Error()) {
		logger.Error("the keys of the OIDC issuer cannot be fetched: those fetched before stay in use", "setting", "auth.oidc.issuer",
			"issuer", s.issuer, "have_keys", s.current.Load() != nil, "error", err)
	} else if err == nil && (s.err != nil || s.ended.IsZero()) {
		logger.Info("the keys of the OIDC issuer are there", "issuer", s.issuer, "keys", len(keys))
	}
	s.err, s.ended = err, time.Now()
	s.release()
}

// release lets those go on who wait for a fetch; mu is held.
func (s *keySet) release() {
	if s.pending != nil {
		close(s.pending)
		s.pending = nil
	}
	select {
	case <-s.kick: // what it asked for is done
	default:
	}
}

func (s *keySet) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.release()
}

// fetch asks the issuer where its keys are, and for the keys: OpenID Connect
// Discovery 1.0, section 4, and RFC 7517.
func (s *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(ctx, s.times.timeout)
	defer cancel()
	transport := &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DisableKeepAlives: true, // two requests every few minutes
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if s.roots != nil {
		transport.TLSClientConfig.RootCAs = s.roots()
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

	var discovery struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := getJSON(ctx, client, strings.TrimSuffix(s.issuer, "/")+"/.well-known/openid-configuration", &discovery); err != nil {
		return nil, err
	}
	if discovery.Issuer != s.issuer {
		return nil, fmt.Errorf("the issuer calls itself %s, not %s: auth.oidc.issuer must be the same to the letter", clip(discovery.Issuer), clip(s.issuer))
	}
	u, err := url.Parse(discovery.JWKSURI)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("the issuer's jwks_uri %s is no URL", clip(discovery.JWKSURI))
	}
	if err := checkScheme(u); err != nil {
		return nil, fmt.Errorf("the issuer's jwks_uri: %w", err)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := getJSON(ctx, client, discovery.JWKSURI, &set); err != nil {
		return nil, err
	}
	return usableKeys(set.Keys)
}

func getJSON(ctx context.Context, client *http.Client, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err // has method, URL and cause
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s answered %s, which must be 200 (redirects are not followed)", url, response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	switch {
	case err != nil:
		return fmt.Errorf("GET %s: %w", url, err)
	case len(text) > maxDocument:
		return fmt.Errorf("GET %s answered more than %d MiB", url, maxDocument>>20)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("GET %s answered what is not the JSON expected: %w", url, err)
	}
	return nil
}

// usableKeys are the keys that can check signatures. An issuer may have others
// beside them, also of kinds that are not known here.
func usableKeys(raw []json.RawMessage) ([]jose.JSONWebKey, error) {
	var keys []jose.JSONWebKey
	for _, text := range raw {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(text) == nil && (key.Use == "" || key.Use == "sig") && isStrongPublicKey(key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the issuer has no key that signatures can be checked with (RSA of 2048 bits or more, ECDSA, Ed25519)")
	}
	return keys, nil
}

func isStrongPublicKey(key jose.JSONWebKey) bool {
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return key.Valid()
	default:
		return false
	}
}
