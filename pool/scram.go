package pool

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/xdg-go/scram"
)

const (
	// Fewer iterations make a stolen exchange easy to break (RFC 7677, section 4), more
	// are meant to keep us busy: a million of SHA-512 take about a second.
	minIterations = 4096
	maxIterations = 1_000_000
	// maxConversations is how many conversations share what was derived from the
	// password. It is kept by salt, and a broker may send another salt each time.
	maxConversations = 1000
)

// scramClients keeps what is costly to derive from a password.
type scramClients struct {
	mu            sync.Mutex
	client        *scram.Client
	password      string
	conversations int
}

func (s *scramClients) begin(mechanism, username, password string) conversation {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conversations++
	if s.client == nil || s.password != password || s.conversations > maxConversations {
		hash := scram.SHA256
		if mechanism == MechanismScramSHA512 {
			hash = scram.SHA512
		}
		// Kafka does not prepare names and passwords (RFC 4013), so neither do we. The
		// error is that of preparation.
		client, err := hash.NewClientUnprepped(username, password, "")
		if err != nil {
			return failedScram{err}
		}
		s.client, s.password, s.conversations = client.WithMinIterations(minIterations), password, 1
	}
	return &scramConversation{steps: s.client.NewConversation()}
}

type failedScram struct{ err error }

func (f failedScram) next([]byte) ([]byte, bool, error) { return nil, false, f.err }

// scramConversation is RFC 5802 without channel binding, which Kafka does not have.
type scramConversation struct {
	steps *scram.ClientConversation
	nonce string // ours
	round int
}

func (s *scramConversation) next(challenge []byte) ([]byte, bool, error) {
	s.round++
	if s.round == 2 {
		if err := s.checkServerFirst(string(challenge)); err != nil {
			return nil, false, err
		}
	}
	response, err := s.steps.Step(string(challenge))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("the broker's message is not right: %w", asTold(err))
	case s.round == 1:
		_, s.nonce, _ = strings.Cut(response, ",r=")
	case s.steps.Valid():
		return nil, true, nil
	case s.round > 2:
		return nil, false, errors.New("the broker did not prove that it knows the password")
	}
	return []byte(response), false, nil
}

// checkServerFirst refuses what the library would take: a nonce that the broker added
// nothing to, and work without end.
func (s *scramConversation) checkServerFirst(message string) error {
	fields := strings.Split(message, ",")
	for _, field := range fields {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "r":
			if !strings.HasPrefix(value, s.nonce) || len(value) == len(s.nonce) {
				return errors.New("the broker's nonce does not extend ours: the answer may be one that was recorded")
			}
		case "i":
			n, err := strconv.Atoi(value)
			if err != nil || n < minIterations || n > maxIterations {
				return fmt.Errorf("the broker asks for %.20q iterations; %d to %d are taken", value, minIterations, maxIterations)
			}
		}
	}
	return nil
}
