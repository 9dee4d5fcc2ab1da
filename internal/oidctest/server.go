// Package oidctest has an identity provider for tests: that of zitadel/oidc, which
// signs tokens with a key of its own and serves it to who checks them.
package oidctest

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// The client that the provider knows. It is the audience and the subject of its own
// tokens.
const (
	ClientID     = "sid1"
	ClientSecret = "verysecret"
)

// Server is a running provider.
type Server struct {
	URL    string // the issuer
	asked  atomic.Int64
	broken atomic.Bool
}

// Start runs a provider until the end of the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{}
	listener := httptest.NewUnstartedServer(nil)
	s.URL = "http://" + listener.Listener.Addr().String()
	provider := exampleop.SetupServer(s.URL, jwtStorage{storage.NewStorage(storage.NewUserStore(s.URL))}, slog.New(slog.DiscardHandler), false)
	listener.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == tokenPath {
			s.asked.Add(1)
			if s.broken.Load() {
				http.Error(w, "out of order", http.StatusServiceUnavailable)
				return
			}
		}
		provider.ServeHTTP(w, r)
	})
	listener.Start()
	t.Cleanup(listener.Close)
	return s
}

const tokenPath = "/oauth/token"

// TokenEndpoint is where tokens are fetched.
func (s *Server) TokenEndpoint() string { return s.URL + tokenPath }

// Keys is where the keys are that tokens are signed with.
func (s *Server) Keys() string { return s.URL + "/keys" }

// Asked is how often a token was asked for.
func (s *Server) Asked() int { return int(s.asked.Load()) }

// Break has the token endpoint fail, or mends it.
func (s *Server) Break(broken bool) { s.broken.Store(broken) }

// jwtStorage gives the client tokens that carry their claims; else they would be
// references that only the provider understands.
type jwtStorage struct{ *storage.Storage }

func (s jwtStorage) ClientCredentials(ctx context.Context, id, secret string) (op.Client, error) {
	client, err := s.Storage.ClientCredentials(ctx, id, secret)
	if err != nil {
		return nil, err
	}
	return jwtClient{client}, nil
}

type jwtClient struct{ op.Client }

func (jwtClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }
