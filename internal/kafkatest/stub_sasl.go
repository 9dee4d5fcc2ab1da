package kafkatest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/xdg-go/scram"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// SASL makes a [Stub] a listener that wants authentication, as strict as Kafka: until
// a connection has authenticated, and while it does so anew, it may ask for one
// ApiVersions, SaslHandshake and SaslAuthenticate, and nothing else.
type SASL struct {
	// Users are the passwords of PLAIN and SCRAM by name, and for OAUTHBEARER the
	// names by token.
	Users map[string]string
	// Mechanisms are those offered; nil means all that the stub knows.
	Mechanisms []string
	// Session is for how long an authentication holds; 0 is for ever. What is asked
	// after that is answered with ILLEGAL_SASL_STATE.
	Session time.Duration
	// Says is the session lifetime to name in place of Session, if not 0.
	Says int64
	// Takes is how long each SaslAuthenticate takes.
	Takes time.Duration
	// Bare has tokens travel without Kafka's headers, as before Kafka 1.0.
	Bare bool
	// Iterations of SCRAM; 0 means 4096.
	Iterations int
	// Alter, if set, changes what the broker says in a conversation, counted from 1.
	Alter func(round int, answer string) string

	mu         sync.Mutex
	states     map[*Conn]*saslState
	violations []string
	began      []time.Time
}

// RequireSASL has the stub want authentication.
func (s *Stub) RequireSASL(sasl *SASL) {
	sasl.states = make(map[*Conn]*saslState)
	s.mu.Lock()
	s.sasl = sasl
	s.mu.Unlock()
	if sasl.Bare {
		s.SetAPI(kafkawire.APIKeySaslHandshake, kafkawire.VersionRange{})
		s.RemoveAPI(kafkawire.APIKeySaslAuthenticate)
	}
}

// Violations are what connections have asked that they may not.
func (s *SASL) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// Began are the times at which an authentication began, on any connection.
func (s *SASL) Began() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.began)
}

// Change changes the settings of a stub that runs.
func (s *SASL) Change(f func(*SASL)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *SASL) mechanisms() []string {
	if s.Mechanisms != nil {
		return s.Mechanisms
	}
	return []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}
}

// saslState is where a connection stands.
type saslState struct {
	asked         bool // ApiVersions
	mechanism     string
	under         bool // an authentication is under way
	user          string
	until         time.Time // of the session; zero: for ever
	round         int
	conversation  *scram.ServerConversation
	authenticated bool
}

// handle answers what concerns authentication and reports whether it did.
func (s *SASL) handle(r *Request) bool {
	s.mu.Lock()
	st := s.states[r.Conn]
	if st == nil {
		st = &saslState{}
		s.states[r.Conn] = st
	}
	takes := s.Takes
	s.mu.Unlock()
	switch {
	case r.Key == kafkawire.APIKeySaslHandshake:
		s.handshake(r, st)
		return true
	case r.Key == kafkawire.APIKeySaslAuthenticate:
		if r.Conn.Sleep(takes) {
			s.authenticate(r, st)
		}
		return true
	case r.Key == kafkawire.APIKeyAPIVersions && !st.authenticated && !st.asked:
		answer, _ := r.DefaultAnswer().(*kafkawire.APIVersionsResponse)
		st.asked = answer != nil && answer.ErrorCode == kafkawire.ErrNone
		return false
	case st.under || !st.authenticated:
		s.violated("%v before the authentication was done", r.Key)
		r.Conn.Close()
		return true
	case !st.until.IsZero() && time.Now().After(st.until):
		s.violated("%v after the session had ended", r.Key)
		if r.Key != kafkawire.APIKeyFindCoordinator {
			r.Conn.Close()
			return true
		}
		Fail(kafkawire.ErrIllegalSaslState)(r)
		return true
	default:
		return false
	}
}

func (s *SASL) violated(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violations = append(s.violations, fmt.Sprintf(format, args...))
}

func (s *SASL) handshake(r *Request, st *saslState) {
	var asked kafkawire.SaslHandshakeRequest
	if asked.Decode(r.Body, r.Version) != nil {
		r.Conn.Close()
		return
	}
	s.mu.Lock()
	mechanisms := s.mechanisms()
	s.began = append(s.began, time.Now())
	s.mu.Unlock()
	answer := &kafkawire.SaslHandshakeResponse{Mechanisms: mechanisms}
	if !slices.Contains(mechanisms, asked.Mechanism) {
		answer.ErrorCode = kafkawire.ErrUnsupportedSaslMechanism
	} else {
		st.mechanism, st.under, st.round, st.conversation = asked.Mechanism, true, 0, nil
		r.Conn.bare.Store(r.Version == 0)
	}
	r.Reply(answer)
}

// authenticate takes one message of the mechanism.
func (s *SASL) authenticate(r *Request, st *saslState) {
	token := r.Body
	if !r.Bare {
		var asked kafkawire.SaslAuthenticateRequest
		if asked.Decode(r.Body, r.Version) != nil {
			r.Conn.Close()
			return
		}
		token = asked.AuthBytes
	}
	if !st.under {
		s.violated("SaslAuthenticate without SaslHandshake")
		r.Conn.Close()
		return
	}
	st.round++
	reply, user, done, err := s.step(st, string(token))
	s.mu.Lock()
	alter, session, says := s.Alter, s.Session, s.Says
	s.mu.Unlock()
	if err == nil && done && st.authenticated && user != st.user {
		err = fmt.Errorf("Cannot change principals during re-authentication from %s: %s", st.user, user) //nolint:staticcheck // Kafka's words
	}
	if alter != nil {
		reply = alter(st.round, reply)
	}
	answer := &kafkawire.SaslAuthenticateResponse{AuthBytes: []byte(reply)}
	switch {
	case err != nil && r.Bare:
		r.Conn.Close()
		return
	case err != nil:
		answer = &kafkawire.SaslAuthenticateResponse{ErrorCode: kafkawire.ErrSaslAuthenticationFailed, ErrorMessage: err.Error()}
	case done:
		st.under, st.authenticated, st.user, st.until = false, true, user, time.Time{}
		r.Conn.bare.Store(false)
		answer.SessionLifetimeMillis = session.Milliseconds()
		if session > 0 {
			st.until = time.Now().Add(session)
		}
		if says != 0 {
			answer.SessionLifetimeMillis = says
		}
	}
	if r.Bare {
		r.Conn.Write(append([]byte{0, 0, byte(len(reply) >> 8), byte(len(reply))}, reply...))
		return
	}
	r.Reply(answer)
}

func (s *SASL) step(st *saslState, token string) (reply, user string, done bool, err error) {
	refused := fmt.Errorf("Authentication failed: invalid credentials with SASL mechanism %s", st.mechanism) //nolint:staticcheck // Kafka's words
	switch st.mechanism {
	case "PLAIN":
		part := strings.Split(token, "\x00")
		if len(part) != 3 || s.password(part[1]) == "" || part[2] != s.password(part[1]) {
			return "", "", false, refused
		}
		return "", part[1], true, nil
	case "OAUTHBEARER":
		if token == "\x01" {
			return "", "", false, refused
		}
		bearer, _, _ := strings.Cut(strings.TrimPrefix(token, "n,,\x01auth=Bearer "), "\x01")
		user := s.password(bearer)
		if user == "" {
			return `{"status":"invalid_token"}`, "", false, nil
		}
		return "", user, true, nil
	default:
		if st.conversation == nil {
			st.conversation = s.scram(st.mechanism)
		}
		reply, err := st.conversation.Step(token)
		if err != nil {
			return "", "", false, refused
		}
		return reply, st.conversation.Username(), st.conversation.Done(), nil
	}
}

func (s *SASL) password(user string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Users[user]
}

func (s *SASL) scram(mechanism string) *scram.ServerConversation {
	hash := scram.SHA256
	if mechanism == "SCRAM-SHA-512" {
		hash = scram.SHA512
	}
	s.mu.Lock()
	iterations := cmp.Or(s.Iterations, 4096)
	s.mu.Unlock()
	server, err := hash.NewServer(func(user string) (scram.StoredCredentials, error) {
		password := s.password(user)
		if password == "" {
			return scram.StoredCredentials{}, fmt.Errorf("no user %q", user)
		}
		client, err := hash.NewClientUnprepped(user, password, "")
		if err != nil {
			return scram.StoredCredentials{}, err
		}
		return client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "salt", Iters: iterations})
	})
	if err != nil {
		panic(err) // only for hashes that do not exist
	}
	return server.NewConversation()
}
