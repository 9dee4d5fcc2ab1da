package kafkatest

import (
	"slices"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// This file and the next are the brokers that no release under test is: slow,
// broken, hostile, of other makers, or none at all. Each is a script for a [Stub]
// and says what a lookup must come to.

// OddBroker is one of them.
type OddBroker struct {
	Name string
	Seen string // where: a product, a version, a thread; empty: made up

	Release string // what the stub is without its script; empty is the newest
	KeyType kafkawire.KeyType
	Keys    []string // asked for in one call; none is "orders"
	Script  func(*Stub)

	// Want is the outcome of each key when there is no other broker, and WantOf that
	// of keys that differ. A retriable outcome arrives when the caller's time is up,
	// every other at once unless Slow.
	Want   Outcome
	WantOf map[string]Outcome
	Slow   bool

	// Pause is between the two calls that are made.
	Pause time.Duration
	// Asked is how many FindCoordinator requests, and Dials how many connections, one
	// call may cost, with the one that the pool keeps ready; 0 is not checked.
	Asked, Dials int
	// Hostile is one whose answers aim at memory.
	Hostile bool
}

// Outcome is the error of a key as callers see it; the zero value is success.
type Outcome struct {
	Reason    string
	Code      kafkawire.ErrorCode
	Retriable bool
}

// Final reports whether the broker's own answer decided, so that no other is asked.
func (o Outcome) Final() bool { return o.Code != kafkawire.ErrNone && !o.Retriable }

// LookupKeys are the keys to ask for.
func (b *OddBroker) LookupKeys() []string {
	if len(b.Keys) == 0 {
		return []string{"orders"}
	}
	return b.Keys
}

// Of is the outcome of one key.
func (b *OddBroker) Of(key string) Outcome {
	if o, ok := b.WantOf[key]; ok {
		return o
	}
	return b.Want
}

// The outcomes that no Kafka code stands for.
var (
	found         = Outcome{}
	unreachable   = Outcome{Reason: "BROKER_UNREACHABLE", Retriable: true}
	tooLate       = Outcome{Reason: "DEADLINE_EXCEEDED", Retriable: true}
	invalidAnswer = Outcome{Reason: "INVALID_ANSWER", Retriable: true}
	notInAnswer   = Outcome{Reason: "NOT_IN_ANSWER", Retriable: true}
	notKafka      = Outcome{Reason: "NOT_A_KAFKA_BROKER"}
	noVersion     = Outcome{Reason: "UNSUPPORTED_VERSION"}
	noKeyType     = Outcome{Reason: "UNSUPPORTED_KEY_TYPE"}
	saslFailed    = Outcome{Reason: "SASL_AUTHENTICATION_FAILED"}
)

// ofCode is the outcome of a key that the broker answers a code for.
func ofCode(code kafkawire.ErrorCode) Outcome {
	return Outcome{Reason: code.Name(), Code: code, Retriable: code.Retriable()}
}

// shareKeys are well formed; what a broker makes of them is its script's affair.
var shareKeys = []string{"sg:nT3i4OXyR0mr0my1RZx9pQ:0", "sg:nT3i4OXyR0mr0my1RZx9pQ:1", "bad:nT3i4OXyR0mr0my1RZx9pQ:2"}

// OddBrokers is the table, made anew by each call: scripts count what they did.
func OddBrokers() []OddBroker {
	return slices.Concat(oddTiming(), oddFrames(), oddBodies(), oddNegotiation(), oddVersions(), oddRows(), oddCodes(), oddConnections(), oddMetadata())
}

func oddTiming() []OddBroker {
	return []OddBroker{
		{Name: "answers late", Seen: "any broker in a long garbage collection; Redpanda waits up to 5 s for a leader",
			Script: lookups(After(100*time.Millisecond, Default)), Want: found},
		{Name: "answers after the request timeout", Seen: "kafkajs#309",
			Script: lookups(After(30*time.Second, Default)), Want: tooLate},
		{Name: "is silent on lookups", Script: lookups(Silent), Want: tooLate},
		{Name: "sends single bytes", Script: all(lookups(InPieces(1, Default)), handshakes(InPieces(1, Default))), Want: found},
		{Name: "sends a byte now and then", Script: lookups(trickle), Want: tooLate},
		{Name: "sends half an answer and no more", Script: lookups(half(Silent)), Want: tooLate},
		{Name: "sends half an answer and closes", Script: lookups(half(Hangup)), Want: unreachable},
		{Name: "sends half a size and closes", Script: lookups(then(Raw([]byte{0, 0}), Hangup)), Want: unreachable},
		{Name: "sends two answers in one segment", Release: "2.8.2", Keys: []string{"a", "b"}, Script: lookups(inPairs(false)), Want: found},
		{Name: "swaps two pipelined answers", Release: "2.8.2", Keys: []string{"a", "b"}, Script: lookups(inPairs(true)), Want: invalidAnswer},
		{Name: "answers twice", Script: lookups(then(Default, Default)), Want: found},
		{Name: "answers slowly at every step", Script: slowly(80 * time.Millisecond), Want: found, Slow: true},
		{Name: "takes longer than the dial timeout at every step", Script: slowly(3 * time.Second), Want: tooLate},
		{Name: "throttles and mutes the connection", Seen: "Kafka 2.0 and later under a request quota (KIP-219)",
			Script: lookups(throttled(200, 200*time.Millisecond)), Want: found, Slow: true},
		{Name: "claims to throttle for 24 days", Script: lookups(throttled(1<<31-1, 0)), Want: found},
		{Name: "claims to throttle for less than no time", Script: lookups(throttled(-5, 0)), Want: found},
	}
}

func oddFrames() []OddBroker {
	return []OddBroker{
		{Name: "answers with wrong correlation ids", Script: lookups(withID(func(id int32) int32 { return id + 1 })), Want: invalidAnswer},
		{Name: "answers with the id of the request before", Script: lookups(withID(func(id int32) int32 { return id - 1 })), Want: invalidAnswer},
		{Name: "answers with correlation id 0", Script: lookups(withID(func(int32) int32 { return 0 })), Want: invalidAnswer},
		{Name: "answers errors with correlation id 0", Seen: "Kafka 0.8.2, ConsumerMetadataRequest", Release: "0.8.2.2",
			Script: lookups(zeroIDOnErrors), Want: ofCode(15)},
		{Name: "announces 2 GiB", Script: lookups(Raw([]byte{0x7f, 0xff, 0xff, 0xff})), Want: notKafka, Asked: 3, Dials: 4},
		{Name: "announces 17 MiB", Script: lookups(Raw([]byte{1, 0x10, 0, 0})), Want: notKafka, Asked: 3, Dials: 4},
		{Name: "announces -1 bytes", Script: lookups(Raw([]byte{0xff, 0xff, 0xff, 0xff})), Want: notKafka},
		{Name: "announces no bytes", Script: lookups(Raw([]byte{0, 0, 0, 0})), Want: notKafka},
		{Name: "announces 128 KiB and sends none", Script: lookups(Raw([]byte{0, 2, 0, 0})), Want: tooLate, Hostile: true},
		{Name: "sends a correlation id and nothing else", Script: lookups(body()), Want: invalidAnswer},
		{Name: "is a TLS listener", Seen: "librdkafka, kafkajs#1643: plain text to a TLS port", Script: handshakes(tlsAlert), Want: notKafka},
		{Name: "is a web server", Script: handshakes(webPage), Want: notKafka},
		{Name: "is a proxy that answers lookups with a web page", Script: lookups(webPage), Want: notKafka, Asked: 3, Dials: 4},
		{Name: "is an SSH server", Script: greets("SSH-2.0-OpenSSH_9.6\r\n"), Want: notKafka},
		{Name: "greets with binary", Script: greets("\x00\x00\x00\x0a\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09"), Want: notKafka},
		{Name: "answers the handshake with noise", Script: handshakes(body(filled(400, 0xa5))), Want: notKafka},
		{Name: "sends bytes that nobody asked for", Script: lookups(then(Default, Raw([]byte{0, 0, 0, 4, 0, 0, 0, 0}))), Want: found},
	}
}

func oddBodies() []OddBroker {
	return []OddBroker{
		{Name: "answers out of order by key", Keys: []string{"a", "b", "c"}, Script: lookups(reorder(reversed)), Want: found},
		{Name: "leaves a key out", Keys: []string{"a", "b", "c"}, Script: lookups(reorder(without("b"))), Want: found,
			WantOf: map[string]Outcome{"b": notInAnswer}},
		{Name: "adds a key", Keys: []string{"a", "b"}, Script: lookups(reorder(and("x"))), Want: found},
		{Name: "collapses duplicates", Keys: []string{"a", "b", "a"}, Script: lookups(reorder(distinct)), Want: found},
		{Name: "answers each key twice", Keys: []string{"a", "b"}, Script: lookups(reorder(doubled)), Want: found},
		{Name: "answers for no key", Seen: "Java takes this for an old version", Script: lookups(reorder(none)), Want: notInAnswer},
		{Name: "answers for another key", Script: lookups(Alter(func(row *kafkawire.Coordinator) { row.Key = "other" })), Want: notInAnswer},
		{Name: "has tags at every level", Seen: "kafka-proxy's fixtures", Script: all(lookups(tagged), handshakes(taggedHandshake)), Want: found},
		{Name: "has a tag longer than the answer", Script: lookups(v4(rawBytes{}.uvarint(1).uvarint(0).uvarint(1 << 30))), Want: invalidAnswer},
		{Name: "has 4 billion tags", Script: lookups(v4(rawBytes{}.uvarint(1<<32 - 1))), Want: invalidAnswer},
		{Name: "counts 2 billion keys", Script: lookups(body([]byte{0, 0, 0, 0, 0}, rawBytes{}.uvarint(1<<31))), Want: invalidAnswer, Hostile: true},
		{Name: "counts -1 keys", Script: lookups(body([]byte{0, 0, 0, 0, 0}, []byte{0, 0})), Want: invalidAnswer},
		{Name: "counts in six bytes", Script: lookups(body([]byte{0, 0, 0, 0, 0}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 1})), Want: invalidAnswer},
		{Name: "has a host of -2 bytes", Release: "2.3.1", Script: lookups(body([]byte{0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 1, 0xff, 0xfe})), Want: invalidAnswer},
		{Name: "has a host longer than the answer", Release: "2.3.1", Script: lookups(body([]byte{0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 1, 0x7f, 0xff, 'h'})), Want: invalidAnswer},
		{Name: "has bytes after the answer", Script: lookups(v4(rawBytes{0, 0xca, 0xfe})), Want: invalidAnswer},
		{Name: "answers v4 in the layout of v3", Seen: "clients that take v3 for batched, the other way round", Release: "3.0.2",
			Script: lookups(inVersion(3)), Want: invalidAnswer},
		{Name: "answers v3 in the layout of v4", Seen: "several JavaScript clients take v3 for batched", Release: "2.8.2",
			Script: lookups(inVersion(4)), Want: invalidAnswer},
		{Name: "answers v2 in the layout of v0", Seen: "Kafka 0.8.2 answers every version so", Release: "2.3.1",
			Script: lookups(inVersion(0)), Want: invalidAnswer},
		{Name: "fills the cap with rows", Keys: many(500), Script: lookups(manyRows), Want: invalidAnswer, Hostile: true},
		{Name: "fills the cap with rows on all connections", Keys: many(2_000), Script: lookups(manyRows), Want: invalidAnswer, Hostile: true},
		{Name: "sends far more than the cap", Script: lookups(endless), Want: notKafka, Hostile: true},
		{Name: "fills single answers with tags", Release: "2.8.2", Keys: []string{"a", "b", "c", "d"}, Script: lookups(heavySingles), Want: found, Hostile: true},
	}
}
