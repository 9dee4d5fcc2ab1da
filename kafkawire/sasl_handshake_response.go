package kafkawire

// A SaslHandshakeResponse (key 17, v0 and v1) accepts the mechanism, or names
// those that the listener offers.
//
//	ErrorCode   int16
//	Mechanisms  []string
//
// Response header v0.
//
// Source: SaslHandshakeResponse.json; KIP-43 (v0), KIP-152 (v1).
type SaslHandshakeResponse struct {
	ErrorCode  ErrorCode
	Mechanisms []string
}

// APIKey returns [APIKeySaslHandshake].
func (*SaslHandshakeResponse) APIKey() APIKey { return APIKeySaslHandshake }

// Encode appends the body; see [Request].
func (m *SaslHandshakeResponse) Encode(dst []byte, v Version) ([]byte, error) {
	c := checker{message: "SaslHandshakeResponse", version: v}
	c.spoken(APIKeySaslHandshake)
	for _, mechanism := range m.Mechanisms {
		c.string("Mechanisms", mechanism)
	}
	if c.err != nil {
		return dst, c.err
	}
	w := writeBody(dst, APIKeySaslHandshake, v)
	w.int16(int16(m.ErrorCode))
	w.array(len(m.Mechanisms))
	for _, mechanism := range m.Mechanisms {
		w.string(mechanism)
	}
	return w.dst, nil
}

// Decode fills the message from a body; see [Request]. A null list is read as
// empty, so that the error code beside it is not lost.
func (m *SaslHandshakeResponse) Decode(src []byte, v Version) error {
	r := reader{src: src, message: "SaslHandshakeResponse", version: v}
	r.body(APIKeySaslHandshake)
	var d SaslHandshakeResponse
	d.ErrorCode = ErrorCode(r.int16("ErrorCode"))
	d.Mechanisms = r.strings("Mechanisms", r.nullableArray("Mechanisms", r.minString()))
	return decoded(m, d, r.end())
}
