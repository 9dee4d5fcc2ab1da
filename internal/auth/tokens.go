package auth

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// tokens are the bearer tokens of the token file. The file is read as lines:
//
//	# who: token
//	ci:mF_9.B5f-4.1JqM8yT3kVw
//	dashboard:2YotnFZFEjr1zCsicMWpAA==
//
// Each line is a name and a token, and a colon between. Two lines may have the
// same name: while a token is replaced, the old one and the new one are both good.
// Empty lines and lines that begin with # count for nothing.
//
// Only digests are kept, so that a dump of the process does not show tokens.
type tokens struct {
	digests [][sha256.Size]byte
	names   []string // token:ci, by the index of the digest
}

const (
	// minTokenLength is what makes guessing hopeless if the characters are random:
	// 16 of base64 are 96 bits.
	minTokenLength = 16
	// maxTokenLength is far more than any token needs, a JWT too, and bounds the
	// work on one that nobody issued.
	maxTokenLength = 16 << 10
	maxNameLength  = 128
)

// parseTokens reads a token file. Its errors name the line and never quote it.
func parseTokens(content []byte) (*tokens, error) {
	if !utf8.Valid(content) {
		return nil, errors.New("is not text")
	}
	set := &tokens{}
	lineOf := map[[sha256.Size]byte]int{}
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, token, found := strings.Cut(line, ":")
		if err := checkTokenLine(name, token, found); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		digest := sha256.Sum256([]byte(token))
		if first, again := lineOf[digest]; again {
			return nil, fmt.Errorf("line %d: the token stands in line %d already", number, first)
		}
		lineOf[digest] = number
		set.digests = append(set.digests, digest)
		set.names = append(set.names, "token:"+name)
	}
	if len(set.digests) == 0 {
		return nil, errors.New("holds no token: write lines of name:token")
	}
	return set, nil
}

func checkTokenLine(name, token string, found bool) error {
	switch {
	case !found:
		return errors.New("has no colon: write name:token")
	case name == "" || len(name) > maxNameLength || strings.ContainsFunc(name, notOfName):
		return fmt.Errorf("the name before the colon must be 1 to %d letters, digits, dots, dashes or underscores", maxNameLength)
	case len(token) < minTokenLength:
		return fmt.Errorf("the token has fewer than %d characters, which can be guessed: make one with `openssl rand -hex 32`", minTokenLength)
	case len(token) > maxTokenLength:
		return fmt.Errorf("the token has more than %d characters", maxTokenLength)
	case !isBearerToken(token):
		return errors.New("the token holds a character that no bearer token can have (RFC 6750: letters, digits, - . _ ~ + / and = at the end)")
	}
	return nil
}

func notOfName(r rune) bool {
	isLetter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	isDigit := r >= '0' && r <= '9'
	return !isLetter && !isDigit && r != '.' && r != '-' && r != '_'
}

// isBearerToken reports whether text is a b64token of RFC 6750, section 2.1.
func isBearerToken(text string) bool {
	text = strings.TrimRight(text, "=")
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return notOfName(r) && r != '~' && r != '+' && r != '/'
	})
}

// find returns the name of whoever has the token. It takes as long for a wrong
// token as for a right one, whichever it is: all digests are compared, and digests
// of tokens, so that no time tells how much of a guess was right.
func (t *tokens) find(token string) (name string, ok bool) {
	given := sha256.Sum256([]byte(token))
	found := -1
	for i := range t.digests {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(given[:], t.digests[i][:]), i, found)
	}
	if found < 0 {
		return "", false
	}
	return t.names[found], true
}
