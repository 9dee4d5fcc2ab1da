package kafkawire

// A SaslAuthenticateRequest (key 36, v0 to v2) carries one message of the SASL
// mechanism from client to broker.
//
//	AuthBytes      bytes
//	tagged fields         v2
//
// Request header v1 for v0 and v1, v2 for v2. A broker reads at most 512 KiB
// until the connection is authenticated.
//
// Source: SaslAuthenticateRequest.json; KIP-152 (v0), KIP-368 (v1).
type SaslAuthenticateRequest struct {
	AuthBytes []byte
}

// APIKey returns [APIKeySaslAuthenticate].
func (*SaslAuthenticateRequest) APIKey() APIKey { return APIKeySaslAuthenticate }

// Encode appends the body; see [Request].
func (m *SaslAuthenticateRequest) Encode(dst []byte, v Version) ([]byte, error) {
	c := checker{message: "SaslAuthenticateRequest", version: v}
	c.spoken(APIKeySaslAuthenticate)
	if c.err != nil {
		return dst, c.err
	}
	w := writeBody(dst, APIKeySaslAuthenticate, v)
	w.bytes(m.AuthBytes)
	w.tags()
	return w.dst, nil
}

// Decode fills the message from a body; see [Request].
func (m *SaslAuthenticateRequest) Decode(src []byte, v Version) error {
	r := reader{src: src, message: "SaslAuthenticateRequest", version: v}
	r.body(APIKeySaslAuthenticate)
	d := SaslAuthenticateRequest{AuthBytes: r.bytes("AuthBytes")}
	r.tags()
	return decoded(m, d, r.end())
}
