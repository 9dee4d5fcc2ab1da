package kafkawire

// A SaslHandshakeRequest (key 17, v0 and v1) chooses the SASL mechanism.
//
//	Mechanism  string
//
// Request header v1. After v0 the mechanism's own bytes follow without Kafka
// framing; after v1 they travel in SaslAuthenticate (KIP-152). A broker takes
// exactly one successful ApiVersions before it.
//
// Source: SaslHandshakeRequest.json; KIP-43 (v0), KIP-152 (v1).
type SaslHandshakeRequest struct {
	Mechanism string // such as "SCRAM-SHA-256"
}

// APIKey returns [APIKeySaslHandshake].
func (*SaslHandshakeRequest) APIKey() APIKey { return APIKeySaslHandshake }

// Encode appends the body; see [Request].
func (m *SaslHandshakeRequest) Encode(dst []byte, v Version) ([]byte, error) {
	c := checker{message: "SaslHandshakeRequest", version: v}
	c.spoken(APIKeySaslHandshake)
	c.string("Mechanism", m.Mechanism)
	if c.err != nil {
		return dst, c.err
	}
	w := writeBody(dst, APIKeySaslHandshake, v)
	w.string(m.Mechanism)
	return w.dst, nil
}

// Decode fills the message from a body; see [Request].
func (m *SaslHandshakeRequest) Decode(src []byte, v Version) error {
	r := reader{src: src, message: "SaslHandshakeRequest", version: v}
	r.body(APIKeySaslHandshake)
	d := SaslHandshakeRequest{Mechanism: r.string("Mechanism")}
	return decoded(m, d, r.end())
}
