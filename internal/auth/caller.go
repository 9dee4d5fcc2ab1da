package auth

import (
	"fmt"
	"strings"
)

// Caller is somebody whose credentials were accepted. The zero Caller is
// anybody, where no credentials are asked for.
type Caller struct {
	// Names are all names that the caller goes by, the most telling first: of the
	// token, then of the certificate. Each begins with its kind: token:, jwt:, cert:.
	Names []string
}

// String is the first name, for logs; "" for anybody.
func (c Caller) String() string {
	if len(c.Names) == 0 {
		return ""
	}
	return c.Names[0]
}

// Kind says what a refusal means for the caller.
type Kind int

// The kinds of refusals.
const (
	// Unauthenticated: who is calling is not known.
	Unauthenticated Kind = iota
	// Denied: it is known who is calling, and that is not enough.
	Denied
	// Unavailable: it cannot be told now who is calling; later it may.
	Unavailable
)

// RefusalError is the error of a call that must not be answered. Its text is for the
// caller: it says what to do, and nothing of what would be accepted.
type RefusalError struct {
	Kind Kind
	// Cause is one word for programs and metrics, one of the constants below.
	Cause   string
	Message string
	// Denied are the indexes of the keys that the policy does not allow.
	Denied []int
}

// The causes.
const (
	CauseNoCredentials      = "NO_CREDENTIALS"
	CauseMalformed          = "MALFORMED_CREDENTIALS"
	CauseUnknownToken       = "UNKNOWN_TOKEN"
	CauseExpiredToken       = "EXPIRED_TOKEN"
	CauseWrongToken         = "TOKEN_NOT_FOR_THIS_SERVICE"
	CauseIssuerUnreachable  = "ISSUER_UNREACHABLE"
	CauseCertificateRefused = "CERTIFICATE_NO_LONGER_ACCEPTED"
	CauseSubjectNotAllowed  = "SUBJECT_NOT_ALLOWED"
	CauseKeyNotAllowed      = "KEY_NOT_ALLOWED"
)

func (r *RefusalError) Error() string { return r.Message }

func refuse(kind Kind, cause, format string, args ...any) *RefusalError {
	return &RefusalError{Kind: kind, Cause: cause, Message: fmt.Sprintf(format, args...)}
}

// pattern is a name, or the beginning of names where it ends in a star.
type pattern string

func (p pattern) matches(name string) bool {
	if prefix, open := strings.CutSuffix(string(p), "*"); open {
		return strings.HasPrefix(name, prefix)
	}
	return name == string(p)
}
