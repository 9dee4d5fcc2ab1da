package brokerauth

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/coordsvc/coordsvc/internal/config"
	"github.com/coordsvc/coordsvc/internal/reload"
	"github.com/coordsvc/coordsvc/pool"
)

// SASL says how connections authenticate, or nil where they do not. encrypted says
// that they have TLS.
func SASL(settings config.KafkaSASL, encrypted bool, logger *slog.Logger) (*pool.SASL, error) {
	if settings.Mechanism == "" {
		return nil, nil
	}
	credential, err := credentialOf(&settings, logger)
	if err != nil {
		return nil, err
	}
	if bare := settings.Mechanism == pool.MechanismPlain || settings.Mechanism == pool.MechanismOAuthBearer; bare && !encrypted {
		logger.Warn("the secret of kafka.sasl.* goes over the network as it is: set kafka.tls.enabled and use a TLS port of the brokers",
			"mechanism", settings.Mechanism)
	}
	return &pool.SASL{
		Mechanism: settings.Mechanism, Username: settings.Username,
		Credential: credential, Extensions: extensions(settings.OAuth.Extensions),
	}, nil
}

func extensions(pairs []string) map[string]string {
	if len(pairs) == 0 {
		return nil
	}
	all := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		all[name] = value
	}
	return all
}

// A credential is what a connection proves itself with.
type credential = func(context.Context) (string, error)

func credentialOf(s *config.KafkaSASL, logger *slog.Logger) (credential, error) {
	switch {
	case s.OAuth.TokenEndpointURL != "":
		secret, err := secretOf(s.OAuth.ClientSecret,
			reload.File{Setting: "kafka.sasl.oauth.client-secret-file", Path: s.OAuth.ClientSecretFile}, logger)
		if err != nil {
			return nil, err
		}
		return newTokens(&s.OAuth, secret, logger).current, nil
	case s.TokenFile != "":
		return secretFile(reload.File{Setting: "kafka.sasl.token-file", Path: s.TokenFile}, strings.TrimSpace, logger)
	default:
		return secretOf(s.Password, reload.File{Setting: "kafka.sasl.password-file", Path: s.PasswordFile}, logger)
	}
}

// secretOf is the secret itself, or what the file holds where there is none.
func secretOf(secret string, file reload.File, logger *slog.Logger) (credential, error) {
	if file.Path == "" {
		return func(context.Context) (string, error) { return secret, nil }, nil
	}
	return secretFile(file, withoutLineEnd, logger)
}

func secretFile(file reload.File, trim func(string) string, logger *slog.Logger) (credential, error) {
	value, err := reload.Load([]reload.File{file}, func(contents [][]byte) (*string, error) {
		secret := trim(string(contents[0]))
		switch {
		case secret == "":
			return nil, &reload.Error{File: file, Err: errors.New("it is empty")}
		case strings.ContainsAny(secret, "\x00\x01\r\n"):
			return nil, &reload.Error{File: file, Err: errors.New("it holds more than one line, or a control character")}
		}
		return &secret, nil
	})
	if err != nil {
		return nil, err
	}
	return func(context.Context) (string, error) { return *fresh(value, logger), nil }, nil
}

// withoutLineEnd drops the line's end that editors and echo leave, and nothing else:
// a password may end with a space.
func withoutLineEnd(s string) string { return strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r") }
