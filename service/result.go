package service

import (
	"fmt"
	"strings"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// Result is what was learned of one key.
type Result struct {
	Key string
	// Coordinator is set where Err is nil.
	Coordinator Coordinator
	Err         *LookupError
	// APIVersion is the FindCoordinator version of the answer and AnsweredBy the
	// host:port of the broker that gave it; zero and empty where none did.
	APIVersion kafkawire.Version
	AnsweredBy string
}

// Coordinator is a broker as it advertises itself on the listener that was asked.
type Coordinator struct {
	Host   string
	NodeID int32
	Port   int32
}

// LookupError says why a key has no coordinator. One value may be shared by the
// results of many keys, so it does not name the key; Message does.
type LookupError struct {
	Contract
	// Detail is what was seen: the error of the connection, or the text that the
	// broker sent where it says anything.
	Detail string
	// doubted says that a session near its end may be what was refused, see doubtRefusals.
	doubted bool
}

func failure(r Reason, detail string) *LookupError {
	return &LookupError{Contract: ContractOfReason(r), Detail: detail}
}

// Message says what happened, to which key, seen from where, and what to do.
func (e *LookupError) Message(t kafkawire.KeyType, key, answeredBy string) string {
	var b strings.Builder
	b.WriteString(nameKey(t, key))
	b.WriteString(": ")
	b.WriteString(fill(e.Happened, t, key))
	b.WriteString(" (")
	b.WriteString(string(e.Reason))
	if answeredBy != "" {
		b.WriteString(" from ")
		b.WriteString(answeredBy)
	}
	b.WriteString(")")
	if e.Detail != "" {
		b.WriteString(": ")
		b.WriteString(e.Detail)
	}
	b.WriteString("; ")
	b.WriteString(fill(e.Do, t, key))
	return b.String()
}

// fill puts the internal topic (%[1]s) and the quoted key (%[2]s) into a sentence.
func fill(sentence string, t kafkawire.KeyType, key string) string {
	if !strings.Contains(sentence, "%[") {
		return sentence
	}
	return strings.NewReplacer("%[1]s", internalTopic(t), "%[2]s", quoteKey(key)).Replace(sentence)
}

// internalTopic is the topic whose partition leaders are the coordinators.
func internalTopic(t kafkawire.KeyType) string {
	switch t {
	case kafkawire.KeyTypeTransaction:
		return "__transaction_state"
	case kafkawire.KeyTypeShare:
		return "__share_group_state"
	default:
		return "__consumer_offsets"
	}
}

// nameKey names a key in a sentence: group "orders".
func nameKey(t kafkawire.KeyType, key string) string {
	switch t {
	case kafkawire.KeyTypeTransaction:
		return "transactional id " + quoteKey(key)
	case kafkawire.KeyTypeShare:
		return "share partition " + quoteKey(key)
	default:
		return "group " + quoteKey(key)
	}
}

// quotedKeyLength is how many bytes of a key a sentence shows; keys may have 32,767.
const quotedKeyLength = 120

func quoteKey(key string) string {
	if len(key) <= quotedKeyLength {
		return fmt.Sprintf("%q", key)
	}
	return fmt.Sprintf("%q... (%d bytes)", strings.ToValidUTF8(key[:quotedKeyLength], ""), len(key))
}
