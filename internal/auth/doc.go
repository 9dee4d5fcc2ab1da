// Package auth says who is calling, and whether the caller may ask what it asks.
// It knows neither gRPC nor HTTP: it gets what a caller has shown (Credentials)
// and answers with a Caller or a Refusal.
//
// There are two layers, and each that is configured must be passed, so that
// nothing that is added ever lets more callers in:
//
//	certificate  the TLS handshake has checked it; here its names are compared
//	             with the allowed subjects (subjects.go)
//	bearer token one of the token file (tokens.go) or, where both are configured,
//	             alternatively a JWT of an OIDC issuer (oidc.go, keys.go)
//
// A caller has a name for each layer: cert:orders.example,
// cert:spiffe://prod.example/orders, token:ci, jwt:8f14e45f. The policy
// (policy.go) grants keys to names.
package auth
