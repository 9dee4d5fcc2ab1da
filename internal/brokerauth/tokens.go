package brokerauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/coordsvc/coordsvc/internal/config"
)

const (
	// fetchTimeout bounds a question to the token endpoint, where the caller does not.
	fetchTimeout = 10 * time.Second
	// freshPart is how much of a token's life it is used for without another being
	// fetched. In the rest a failure to fetch does no harm.
	freshPart = 0.8
	// lastMoments is what a token must have left to be shown to a broker.
	lastMoments = 5 * time.Second
)

// tokens fetches tokens by the client credentials grant (RFC 6749, section 4.4) and
// keeps the last one. All connections share it.
type tokens struct {
	settings *config.KafkaOAuth
	secret   credential
	client   *http.Client
	logger   *slog.Logger

	turn    chan struct{} // holds one value while nobody fetches; guards what follows
	token   *oauth2.Token
	freshTo time.Time
}

func newTokens(settings *config.KafkaOAuth, secret credential, logger *slog.Logger) *tokens {
	if endpoint, err := url.Parse(settings.TokenEndpointURL); err == nil && endpoint.Scheme == "http" {
		logger.Warn("the client's secret goes over the network as it is: kafka.sasl.oauth.token-endpoint-url begins with http://")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true // a token lasts much longer than a connection
	t := &tokens{
		settings: settings, secret: secret, logger: logger, turn: make(chan struct{}, 1),
		client: &http.Client{
			Transport: transport, Timeout: fetchTimeout,
			// Elsewhere the secret is none of anybody's business.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	t.turn <- struct{}{}
	return t
}

// current is a token with some life left. While one is fetched the others wait.
func (t *tokens) current(ctx context.Context) (string, error) {
	select {
	case <-t.turn:
		defer func() { t.turn <- struct{}{} }()
	case <-ctx.Done():
		return "", fmt.Errorf("token endpoint %s: %w", t.settings.TokenEndpointURL, ctx.Err())
	}
	if t.token != nil && time.Now().Before(t.freshTo) {
		return t.token.AccessToken, nil
	}
	token, err := t.fetch(ctx)
	switch {
	case err == nil:
		t.token = token
		t.freshTo = time.Time{}
		if life := time.Until(token.Expiry); !token.Expiry.IsZero() {
			t.freshTo = time.Now().Add(time.Duration(freshPart * float64(life)))
		}
	case t.token != nil && !t.token.Expiry.IsZero() && time.Until(t.token.Expiry) > lastMoments:
		t.logger.Warn("no new token for the brokers, the last one is used until it expires", "expires", t.token.Expiry, "error", err.Error())
	default:
		return "", err
	}
	return t.token.AccessToken, nil
}

func (t *tokens) fetch(ctx context.Context) (*oauth2.Token, error) {
	secret, err := t.secret(ctx)
	if err != nil {
		return nil, err
	}
	grant := clientcredentials.Config{
		ClientID: t.settings.ClientID, ClientSecret: secret,
		TokenURL: t.settings.TokenEndpointURL, Scopes: strings.Fields(t.settings.Scope),
	}
	token, err := grant.Token(context.WithValue(ctx, oauth2.HTTPClient, t.client))
	if err == nil && strings.ContainsAny(token.AccessToken, "\x00\x01\r\n") {
		err = errors.New("the token holds a control character")
	}
	if err != nil {
		return nil, fmt.Errorf("token endpoint %s: %w", t.settings.TokenEndpointURL, refusal(err, secret))
	}
	return token, nil
}

// refusal is the error without what the endpoint may have repeated of the request:
// the library's has the whole answer in it.
func refusal(err error, secret string) error {
	const shown = 300
	var refused *oauth2.RetrieveError
	var failed *url.Error
	switch {
	case errors.As(err, &refused):
		text := refused.Response.Status
		for _, part := range []string{refused.ErrorCode, refused.ErrorDescription} {
			if part != "" {
				part = strings.ToValidUTF8(strings.ReplaceAll(part, secret, "[secret]"), "?")
				text += fmt.Sprintf(", %q", strings.ToValidUTF8(part[:min(len(part), shown)], ""))
			}
		}
		return errors.New("it answered " + text + "; check kafka.sasl.oauth.*")
	case errors.As(err, &failed):
		return failed.Err // the URL is said already
	default:
		return errors.New(strings.ReplaceAll(err.Error(), secret, "[secret]"))
	}
}
