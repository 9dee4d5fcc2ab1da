package auth

import (
	"crypto/sha256"
	"sync"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// verifiedTokens remembers JWTs whose signature was good: clients show the same
// one for minutes, and checking it costs more than the lookup that it is for.
// Only tokens of the issuer get in, so that strangers cannot fill it. It holds for
// one set of keys: with each fetch of the keys everything is checked anew.
type verifiedTokens struct {
	mu     sync.Mutex
	keys   *[]jose.JSONWebKey
	claims map[[sha256.Size]byte]jwt.Claims
}

// maxVerified bounds the memory, to a few hundred KiB.
const maxVerified = 1024

func (v *verifiedTokens) get(token string, keys *[]jose.JSONWebKey) (jwt.Claims, bool) {
	digest := sha256.Sum256([]byte(token))
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.keys != keys {
		return jwt.Claims{}, false
	}
	claims, ok := v.claims[digest]
	return claims, ok
}

func (v *verifiedTokens) add(token string, claims jwt.Claims, keys *[]jose.JSONWebKey) {
	digest := sha256.Sum256([]byte(token))
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.claims == nil || v.keys != keys || len(v.claims) >= maxVerified {
		v.keys, v.claims = keys, make(map[[sha256.Size]byte]jwt.Claims)
	}
	v.claims[digest] = claims
}
