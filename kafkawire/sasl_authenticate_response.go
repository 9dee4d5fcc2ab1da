package kafkawire

// A SaslAuthenticateResponse (key 36, v0 to v2) carries one message of the SASL
// mechanism from broker to client.
//
//	ErrorCode          int16
//	ErrorMessage       nullable string
//	AuthBytes          bytes
//	SessionLifetimeMs  int64            v1 and later
//	tagged fields                       v2
//
// Response header v0 for v0 and v1, v1 for v2.
//
// Source: SaslAuthenticateResponse.json; KIP-152 (v0), KIP-368 (v1).
type SaslAuthenticateResponse struct {
	ErrorCode ErrorCode
	// ErrorMessage is prose of the broker or its plug-ins. Null is read as "", and
	// "" is written as "".
	ErrorMessage string
	AuthBytes    []byte
	// SessionLifetimeMillis is for how long the broker takes requests before it
	// wants the client to authenticate again; 0 is for ever. Brokers have sent
	// negative and huge ones.
	SessionLifetimeMillis int64
}

// APIKey returns [APIKeySaslAuthenticate].
func (*SaslAuthenticateResponse) APIKey() APIKey { return APIKeySaslAuthenticate }

// Encode appends the body; see [Request].
func (m *SaslAuthenticateResponse) Encode(dst []byte, v Version) ([]byte, error) {
	c := checker{message: "SaslAuthenticateResponse", version: v}
	c.spoken(APIKeySaslAuthenticate)
	c.string("ErrorMessage", m.ErrorMessage)
	if c.err != nil {
		return dst, c.err
	}
	w := writeBody(dst, APIKeySaslAuthenticate, v)
	w.int16(int16(m.ErrorCode))
	w.string(m.ErrorMessage)
	w.bytes(m.AuthBytes)
	if v >= 1 {
		w.int64(m.SessionLifetimeMillis)
	}
	w.tags()
	return w.dst, nil
}

// Decode fills the message from a body; see [Request]. Null bytes are read as
// none, so that the error code beside them is not lost.
func (m *SaslAuthenticateResponse) Decode(src []byte, v Version) error {
	r := reader{src: src, message: "SaslAuthenticateResponse", version: v}
	r.body(APIKeySaslAuthenticate)
	var d SaslAuthenticateResponse
	d.ErrorCode = ErrorCode(r.int16("ErrorCode"))
	d.ErrorMessage = r.nullableString("ErrorMessage")
	d.AuthBytes = r.nullableBytes("AuthBytes")
	if v >= 1 {
		d.SessionLifetimeMillis = r.int64("SessionLifetimeMs")
	}
	r.tags()
	return decoded(m, d, r.end())
}
