package pool

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// The SASL mechanisms that are spoken.
const (
	MechanismPlain       = "PLAIN"         // RFC 4616
	MechanismScramSHA256 = "SCRAM-SHA-256" // RFC 7677
	MechanismScramSHA512 = "SCRAM-SHA-512"
	MechanismOAuthBearer = "OAUTHBEARER" // RFC 7628, KIP-255
)

// Mechanisms are the SASL mechanisms that are spoken.
func Mechanisms() []string {
	return []string{MechanismPlain, MechanismScramSHA256, MechanismScramSHA512, MechanismOAuthBearer}
}

// SASL says how connections authenticate.
type SASL struct {
	// Mechanism is one of [Mechanisms].
	Mechanism string
	// Username is for PLAIN and SCRAM.
	Username string
	// Credential returns the password, or for OAUTHBEARER the token. It is asked at
	// each authentication, so that a new one is used without a restart, and has
	// DialTimeout.
	Credential func(context.Context) (string, error)
	// Extensions are sent with the token of OAUTHBEARER (KIP-342).
	Extensions map[string]string
}

func (s *SASL) validate() error {
	switch {
	case !slices.Contains(Mechanisms(), s.Mechanism):
		return fmt.Errorf("SASL mechanism %q is none of %s", s.Mechanism, strings.Join(Mechanisms(), ", "))
	case s.Credential == nil:
		return errors.New("SASL without a credential")
	case s.Username == "" && s.Mechanism != MechanismOAuthBearer:
		return fmt.Errorf("SASL mechanism %s needs a username", s.Mechanism)
	}
	return nil
}

// authenticator authenticates connections. It is safe for concurrent use.
type authenticator struct {
	cfg   *Config
	scram scramClients
}

// conversation is one run of a mechanism.
type conversation interface {
	// next answers the broker's challenge, which is nil at first. done says that
	// nothing is left to be sent, and that the broker has proved what it must.
	next(challenge []byte) (response []byte, done bool, err error)
}

const (
	// maxRounds is more than any mechanism takes.
	maxRounds = 5
	// maxToken is Kafka's own limit of a message in authentication
	// (sasl.server.max.receive.size), in bytes.
	maxToken = 512 << 10
)

// authenticate runs the mechanism on a connection that has negotiated, anew too
// (KIP-368): nothing may be in flight, and on an error the connection is of no use.
func (a *authenticator) authenticate(ctx context.Context, c *conn) error {
	credentialCtx, cancel := context.WithTimeout(ctx, a.cfg.DialTimeout)
	defer cancel()
	secret, err := a.cfg.SASL.Credential(credentialCtx)
	if err != nil {
		return c.refused(fmt.Errorf("no credential to authenticate with: %w", asTold(err)))
	}
	if secret == "" {
		return c.refused(errors.New("no credential to authenticate with: it is empty"))
	}
	timeout := c.timeout
	c.timeout = a.cfg.DialTimeout
	defer func() { c.timeout = timeout }()

	s := &saslExchange{c: c, ctx: ctx, secret: secret, mechanism: a.cfg.SASL.Mechanism}
	if err := s.handshake(); err != nil {
		return err
	}
	begun := c.pulse.clock.now() // before the broker counts
	c.in.secret = secret
	if err := s.converse(a.begin(secret)); err != nil {
		return err
	}
	c.session.Store(newSession(a.cfg.SASL.Mechanism, begun, s.lifetime))
	return nil
}

func (a *authenticator) begin(secret string) conversation {
	s := a.cfg.SASL
	switch s.Mechanism {
	case MechanismPlain:
		return &plain{username: s.Username, password: secret}
	case MechanismOAuthBearer:
		return &oauthBearer{token: secret, extensions: s.Extensions}
	default:
		return a.scram.begin(s.Mechanism, s.Username, secret)
	}
}

// saslExchange is one authentication of a connection.
type saslExchange struct {
	c         *conn
	ctx       context.Context
	mechanism string
	secret    string
	bare      bool // tokens travel without Kafka's headers: after SaslHandshake v0
	lifetime  time.Duration
}

// handshake agrees on the mechanism. Where the broker offers SaslHandshake v1, what
// follows is wrapped in SaslAuthenticate (KIP-152, Kafka 1.0).
func (s *saslExchange) handshake() error {
	c := s.c
	v := c.versions.saslHandshake
	if v < 0 {
		return c.refused(errors.New("the broker offers no SaslHandshake; kafka.sasl.* needs Kafka 0.10 or later"))
	}
	if c.versions.saslAuthenticate < 0 {
		v = 0
	}
	s.bare = v == 0
	var resp kafkawire.SaslHandshakeResponse
	if err := c.call(s.ctx, &kafkawire.SaslHandshakeRequest{Mechanism: s.mechanism}, &resp, v); err != nil {
		return err
	}
	switch resp.ErrorCode {
	case kafkawire.ErrNone:
		return nil
	case kafkawire.ErrUnsupportedSaslMechanism:
		return c.refused(fmt.Errorf("the listener does not offer the mechanism %s; it offers %s", s.mechanism, s.offered(resp.Mechanisms)))
	case kafkawire.ErrIllegalSaslState:
		return c.refused(fmt.Errorf("the listener does not authenticate by SASL, or not now (%s); use its SASL port, or unset kafka.sasl.mechanism",
			resp.ErrorCode.Name()))
	default:
		return c.refused(&codeError{resp.ErrorCode})
	}
}

// offered lists a broker's mechanisms, as far as they are worth showing.
func (s *saslExchange) offered(mechanisms []string) string {
	const shown = 20
	if len(mechanisms) == 0 {
		return "none"
	}
	list := make([]string, 0, shown)
	for _, m := range mechanisms[:min(len(mechanisms), shown)] {
		list = append(list, quotedUnlessPlain(without(s.secret, m)))
	}
	return strings.Join(list, ", ")
}

func quotedUnlessPlain(s string) string {
	const longest = 40
	s = s[:min(len(s), longest)]
	for _, r := range s {
		if r != '-' && r != '_' && !isAlphanumeric(r) {
			return fmt.Sprintf("%q", s)
		}
	}
	return s
}

func (s *saslExchange) converse(conv conversation) error {
	var challenge []byte
	for range maxRounds {
		response, done, err := conv.next(challenge)
		if err != nil {
			return s.c.refused(fmt.Errorf("%s: %w", s.mechanism, err))
		}
		if done {
			return nil
		}
		if s.bare {
			challenge, err = s.sendBare(response)
		} else {
			challenge, err = s.send(response)
		}
		if err != nil {
			return s.withStatus(conv, err)
		}
	}
	return s.c.refused(fmt.Errorf("%s: the broker goes on asking", s.mechanism))
}

func (s *saslExchange) send(token []byte) ([]byte, error) {
	var resp kafkawire.SaslAuthenticateResponse
	if err := s.c.call(s.ctx, &kafkawire.SaslAuthenticateRequest{AuthBytes: token}, &resp, s.c.versions.saslAuthenticate); err != nil {
		return nil, err
	}
	switch resp.ErrorCode {
	case kafkawire.ErrNone:
		s.lifetime = lifetime(resp.SessionLifetimeMillis)
		return append([]byte{}, resp.AuthBytes...), nil // the bytes are the frame's
	case kafkawire.ErrSaslAuthenticationFailed:
		return nil, s.c.refused(fmt.Errorf("the broker refused the credentials (%s)%s", s.mechanism, s.words(resp.ErrorMessage)))
	default:
		return nil, s.c.refused(fmt.Errorf("%w%s", &codeError{resp.ErrorCode}, s.words(resp.ErrorMessage)))
	}
}

// sendBare exchanges a token the way that Kafka 0.10 and 0.11 have: a size and the
// bytes. A broker that refuses says nothing, it closes.
func (s *saslExchange) sendBare(token []byte) ([]byte, error) {
	answer, err := s.c.exchangeToken(s.ctx, token)
	if KindOf(err) == Unreachable {
		return nil, s.c.refused(fmt.Errorf("the broker closed the connection in place of an answer, as Kafka before 1.0 does where it refuses the credentials (%s)", s.mechanism))
	}
	return answer, err
}

// words is what the broker says, without the secret if it repeats that.
func (s *saslExchange) words(message string) string {
	if message == "" {
		return ""
	}
	return fmt.Sprintf(": it says %q", Excerpt(without(s.secret, message)))
}

// without takes the secret, if there is one, out of what a broker says.
func without(secret, message string) string {
	if secret == "" || message == "" {
		return message
	}
	return strings.ReplaceAll(message, secret, "[secret]")
}

// withStatus adds what the broker said of a token before it refused it.
func (s *saslExchange) withStatus(conv conversation, err error) error {
	bearer, ok := conv.(*oauthBearer)
	if !ok || bearer.status == "" || KindOf(err) != SASLFailed {
		return err
	}
	return s.c.refused(fmt.Errorf("the broker refused the token%s", s.words(bearer.status)))
}

// refused breaks the connection for a failed authentication.
func (c *conn) refused(err error) error {
	c.broken = &Error{Kind: SASLFailed, Addr: c.addr, Op: "SASL", Err: err}
	return c.broken
}

// exchangeToken writes bytes that are no Kafka request and reads the like.
func (c *conn) exchangeToken(ctx context.Context, token []byte) ([]byte, error) {
	if c.broken != nil {
		return nil, c.broken
	}
	stop := c.begin(ctx, context.Background())
	defer func() { c.end(stop) }()
	c.out = append(binary.BigEndian.AppendUint32(c.out[:0], uint32(len(token))), token...)
	const key, v = kafkawire.APIKeySaslAuthenticate, 0 // for messages
	if err := c.flush(key, v); err != nil {
		return nil, err
	}
	c.armed = false
	answer, err := c.in.sized(0, maxToken)
	if err != nil {
		return nil, c.lost(key, v, err)
	}
	c.pulse.heard(c.ready)
	return append([]byte{}, answer...), nil
}

// plain is RFC 4616.
type plain struct {
	username, password string
	sent               bool
}

func (p *plain) next([]byte) ([]byte, bool, error) {
	if p.sent {
		return nil, true, nil
	}
	p.sent = true
	return []byte("\x00" + p.username + "\x00" + p.password), false, nil
}

// oauthBearer is RFC 7628.
type oauthBearer struct {
	token      string
	extensions map[string]string
	sent       bool
	status     string // what the broker said of the token
}

const endOfPair = "\x01"

func (o *oauthBearer) next(challenge []byte) ([]byte, bool, error) {
	if o.sent {
		if len(challenge) == 0 {
			return nil, true, nil
		}
		o.status = string(challenge) // JSON; the answer is fixed, and then the broker refuses
		return []byte(endOfPair), false, nil
	}
	o.sent = true
	var b strings.Builder
	b.WriteString("n,," + endOfPair + "auth=Bearer " + o.token + endOfPair)
	names := make([]string, 0, len(o.extensions))
	for name := range o.extensions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.WriteString(name + "=" + o.extensions[name] + endOfPair)
	}
	b.WriteString(endOfPair)
	return []byte(b.String()), false, nil
}
