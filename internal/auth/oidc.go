package auth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// OIDC says whose JWTs are accepted. No Issuer: none are.
type OIDC struct {
	// Issuer is the URL that stands in the tokens as iss, and under which
	// /.well-known/openid-configuration is found.
	Issuer string
	// Audiences: a token must be meant for one of them (aud).
	Audiences []string
	// CAFile has the authorities that the issuer's certificate is checked with;
	// "" for those of the system.
	CAFile string
	// ClockSkew is how much the clocks of issuer and service may differ.
	ClockSkew time.Duration
}

// algorithms are those that a token may be signed with: all have a public half.
// With a shared secret (HS256) the public key of the issuer, which everybody has,
// could pass for the secret; "none" is no signature.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// types are the typ headers of tokens that are meant to be shown to a service.
// An issuer signs others with the same keys, such as logout+jwt (RFC 8725, 3.11).
var types = map[string]bool{"": true, "jwt": true, "at+jwt": true, "application/at+jwt": true}

// verifier accepts the JWTs of one issuer.
type verifier struct {
	OIDC
	keys     *keySet
	verified verifiedTokens
}

// looksLikeJWT tells a JWT from other tokens: it has three parts.
func looksLikeJWT(token string) bool { return strings.Count(token, ".") == 2 }

// subject returns the sub of a token that was signed by the issuer, for this
// service, and is good now.
//
// What can be refused without arithmetic is refused first: a client that goes on
// with an old token costs a signature check no more than it costs a key fetch. A
// token that was accepted before is not checked again but for its times.
func (v *verifier) subject(ctx context.Context, token string) (string, *RefusalError) {
	if claims, ok := v.verified.get(token, v.keys.current.Load()); ok {
		return claims.Subject, v.check(claims)
	}
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return "", refuse(Unauthenticated, CauseMalformed,
			"the token is no JWT that can be read, or is not signed with one of RS256 to RS512, PS256 to PS512, ES256 to ES512, EdDSA")
	}
	header := parsed.Headers[0]
	typ, isText := header.ExtraHeaders[jose.HeaderType].(string)
	if _, given := header.ExtraHeaders[jose.HeaderType]; given && !isText || !types[strings.ToLower(typ)] {
		return "", refuse(Unauthenticated, CauseWrongToken, "the token is of type %s, which is none that a service accepts", clip(typ))
	}
	var claims jwt.Claims
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		return "", refuse(Unauthenticated, CauseMalformed, "the claims of the token cannot be read")
	}
	if refusal := v.check(claims); refusal != nil {
		return "", refusal
	}
	keys := v.keys.current.Load() // before, so that what a later set no longer has is not remembered with it
	key, refusal := v.keys.find(ctx, header.KeyID)
	if refusal != nil {
		return "", refusal
	}
	if key.Algorithm != "" && key.Algorithm != header.Algorithm {
		return "", refuse(Unauthenticated, CauseUnknownToken, "the token is signed with %s, which is not what its key is for", clip(header.Algorithm))
	}
	claims = jwt.Claims{}
	if err := parsed.Claims(key.Key, &claims); err != nil {
		return "", refuse(Unauthenticated, CauseUnknownToken, "the signature of the token is not one of the issuer's")
	}
	if refusal := v.check(claims); refusal != nil { // of what was signed
		return "", refusal
	}
	v.verified.add(token, claims, keys)
	return claims.Subject, nil
}

func (v *verifier) check(claims jwt.Claims) *RefusalError {
	if claims.Expiry == nil {
		return refuse(Unauthenticated, CauseWrongToken, "the token has no time at which it expires (exp)")
	}
	err := claims.ValidateWithLeeway(jwt.Expected{Issuer: v.Issuer, AnyAudience: v.Audiences, Time: time.Now()}, v.ClockSkew)
	switch {
	case errors.Is(err, jwt.ErrExpired):
		return refuse(Unauthenticated, CauseExpiredToken, "the token expired at %s: get a new one", claims.Expiry.Time().UTC().Format(time.RFC3339))
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return refuse(Unauthenticated, CauseExpiredToken, "the token is not valid yet: check the clocks of the issuer and of this service")
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return refuse(Unauthenticated, CauseWrongToken, "the token's issuer (iss) is not the one that is accepted here")
	case errors.Is(err, jwt.ErrInvalidAudience):
		return refuse(Unauthenticated, CauseWrongToken, "the token is not meant for this service: its audience (aud) is another")
	case err != nil:
		return refuse(Unauthenticated, CauseWrongToken, "the token's claims are not accepted here")
	case claims.Subject == "":
		return refuse(Unauthenticated, CauseWrongToken, "the token does not say whose it is (sub)")
	}
	return nil
}

// checkIssuer wants https, for whoever can answer for the issuer can sign tokens.
func checkIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is not the URL of an issuer, for example https://login.example/realms/prod", issuer)
	}
	return checkScheme(u)
}

// checkScheme lets http pass on this machine only, for trying things out.
func checkScheme(u *url.URL) error {
	if u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("%q must begin with https://", u.Redacted())
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && net.IP(ip.AsSlice()).IsLoopback()
}
