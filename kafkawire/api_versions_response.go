package kafkawire

import "encoding/binary"

// An APIVersionsResponse (key 18, v0 to v5) lists the APIs that a broker speaks.
//
//	ErrorCode       int16
//	ApiKeys         []ApiVersion
//	  ApiKey        int16
//	  MinVersion    int16
//	  MaxVersion    int16
//	  tagged fields        v3 and later
//	ThrottleTimeMs  int32  v1 and later
//	tagged fields          v3 and later: the broker's features, which are skipped
//
// Response header v0 in every version.
//
// An answer with UNSUPPORTED_VERSION has the layout of v0 whatever was asked, and
// holds no API (Kafka up to 2.3), only this one (2.4 and later, KIP-511) or all
// (Redpanda). v1 and v2 are read without their throttle time too: some brokers
// leave it out.
//
// Source: ApiVersionsResponse.json; KIP-35 (v0), KIP-511 (v3), KAFKA-17011 (v4),
// KIP-1242 (v5).
type APIVersionsResponse struct {
	ErrorCode ErrorCode
	APIs      []APIVersionRange
	// ThrottleMillis is for how long the broker holds back further requests.
	ThrottleMillis int32
}

// An APIVersionRange is the versions of one API that a broker speaks.
type APIVersionRange struct {
	Key      APIKey
	Min, Max Version
}

// Range returns the versions of an API; ok is false where the answer has none.
func (m *APIVersionsResponse) Range(key APIKey) (versions VersionRange, ok bool) {
	for _, a := range m.APIs {
		if a.Key == key {
			return VersionRange{Min: a.Min, Max: a.Max}, true
		}
	}
	return noVersions, false
}

// APIKey returns [APIKeyAPIVersions].
func (*APIVersionsResponse) APIKey() APIKey { return APIKeyAPIVersions }

// Encode appends the body; see [Request].
func (m *APIVersionsResponse) Encode(dst []byte, v Version) ([]byte, error) {
	c := checker{message: "ApiVersionsResponse", version: v}
	c.spoken(APIKeyAPIVersions)
	if c.err != nil {
		return dst, c.err
	}
	if m.ErrorCode == ErrUnsupportedVersion {
		v = 0
	}
	w := writeBody(dst, APIKeyAPIVersions, v)
	w.int16(int16(m.ErrorCode))
	w.array(len(m.APIs))
	for _, a := range m.APIs {
		w.int16(int16(a.Key))
		w.int16(int16(a.Min))
		w.int16(int16(a.Max))
		w.tags()
	}
	if v >= 1 {
		w.int32(m.ThrottleMillis)
	}
	w.tags()
	return w.dst, nil
}

// Decode fills the message from a body; see [Request]. A null list is read as
// empty.
func (m *APIVersionsResponse) Decode(src []byte, v Version) error {
	r := reader{src: src, message: "ApiVersionsResponse", version: v}
	r.body(APIKeyAPIVersions)
	if len(src) >= 2 && ErrorCode(binary.BigEndian.Uint16(src)) == ErrUnsupportedVersion {
		v, r.flexible = 0, false
	}
	var d APIVersionsResponse
	d.ErrorCode = ErrorCode(r.int16("ErrorCode"))
	if n := r.nullableArray("ApiKeys", 6); n > 0 {
		d.APIs = make([]APIVersionRange, n)
		r.enter("ApiKeys")
		for i := range d.APIs {
			r.at(i)
			d.APIs[i].decode(&r)
		}
		r.leave()
	}
	if v >= 3 || v >= 1 && r.left() > 0 {
		d.ThrottleMillis = r.int32("ThrottleTimeMs")
	}
	r.tags()
	return decoded(m, d, r.end())
}

func (a *APIVersionRange) decode(r *reader) {
	a.Key = APIKey(r.int16("ApiKey"))
	a.Min = Version(r.int16("MinVersion"))
	a.Max = Version(r.int16("MaxVersion"))
	r.tags()
}
