package kafkawire

import "fmt"

// MaxKeyLength is the longest key, in bytes, that Kafka reads, in every version.
// A broker closes the connection on a longer one.
const MaxKeyLength = maxStringLength

// firstBatched is the first version of FindCoordinator that carries many keys
// and answers each (KIP-699).
const firstBatched Version = 4

// A FindCoordinatorRequest (key 10, v0 to v6) asks which broker coordinates each
// of its keys. Note that it writes: a broker that lacks the internal topic behind
// the type of key creates it.
//
//	Key              string    v0 to v3
//	KeyType          int8      v1 and later; v0 is GROUP
//	CoordinatorKeys  []string  v4 and later
//	tagged fields              v3 and later
//
// Request header v1 for v0 to v2, v2 for v3 and later. v2 is v1 again (the broker
// answers before it throttles), v5 too (the answer may hold
// TRANSACTION_ABORTABLE), and v6 (SHARE is allowed).
//
// Source: FindCoordinatorRequest.json; KIP-699 (v4), KIP-890 (v5), KIP-932 (v6).
type FindCoordinatorRequest struct {
	KeyType KeyType
	// Keys are exactly one below v4, any number from there on. A key may repeat.
	// At most [MaxKeyLength] bytes each, passed on as they are: brokers read them
	// as UTF-8.
	Keys []string
}

// APIKey returns [APIKeyFindCoordinator].
func (*FindCoordinatorRequest) APIKey() APIKey { return APIKeyFindCoordinator }

func (m *FindCoordinatorRequest) check(v Version) error {
	c := checker{message: "FindCoordinatorRequest", version: v}
	c.spoken(APIKeyFindCoordinator)
	first, known := m.KeyType.minVersion()
	switch {
	case !known:
		c.refuse("KeyType", fmt.Errorf("%w: %v is not known", ErrKeyType, m.KeyType))
	case v < first:
		c.refuse("KeyType", fmt.Errorf("%w: %v needs v%d or later", ErrKeyType, m.KeyType, first))
	case v < firstBatched && len(m.Keys) != 1:
		c.refuse("Key", fmt.Errorf("%w: %d, but below v%d a request carries exactly one", ErrKeyCount, len(m.Keys), firstBatched))
	}
	for i, key := range m.Keys {
		if len(key) > MaxKeyLength {
			c.refuse(fmt.Sprintf("key %d", i), fmt.Errorf("%w: %d bytes, at most %d", ErrKeyTooLong, len(key), MaxKeyLength))
			break
		}
	}
	return c.err
}

// Encode appends the body; see [Request].
func (m *FindCoordinatorRequest) Encode(dst []byte, v Version) ([]byte, error) {
	if err := m.check(v); err != nil {
		return dst, err
	}
	w := writeBody(dst, APIKeyFindCoordinator, v)
	if v < firstBatched {
		w.string(m.Keys[0])
	}
	if v >= 1 {
		w.int8(int8(m.KeyType))
	}
	if v >= firstBatched {
		w.array(len(m.Keys))
		for _, key := range m.Keys {
			w.string(key)
		}
	}
	w.tags()
	return w.dst, nil
}

// Decode fills the message from a body; see [Request]. A key type that Kafka does
// not know is kept, for a test broker to refuse.
func (m *FindCoordinatorRequest) Decode(src []byte, v Version) error {
	r := reader{src: src, message: "FindCoordinatorRequest", version: v}
	r.body(APIKeyFindCoordinator)
	var d FindCoordinatorRequest
	if v < firstBatched {
		d.Keys = []string{r.string("Key")}
	}
	if v >= 1 {
		d.KeyType = KeyType(r.int8("KeyType"))
	}
	if v >= firstBatched {
		d.Keys = r.strings("CoordinatorKeys", r.array("CoordinatorKeys", r.minString()))
	}
	r.tags()
	return decoded(m, d, r.end())
}
