package kafkawire

import "fmt"

// A MetadataRequest (key 3, v0 to v12) asks for the brokers of the cluster, and
// for topics: some, all or none.
//
//	Topics                              []Topic          nullable from v1 on
//	  TopicId                           uuid             v10 and later; written as zero, not read
//	  Name                              string           nullable from v10 on
//	  tagged fields                                      v9 and later
//	AllowAutoTopicCreation              bool             v4 and later
//	IncludeClusterAuthorizedOperations  bool             v8 to v10; written as false, not read
//	IncludeTopicAuthorizedOperations    bool             v8 and later; written as false, not read
//	tagged fields                                        v9 and later
//
// Request header v1 for v0 to v8, v2 for v9 and later. Topics are asked for by
// name only; a request by topic id (v12) is not decoded.
//
// Source: MetadataRequest.json; KIP-4 (v1, v4), KIP-516 (v10).
type MetadataRequest struct {
	// Topics by name. None asks for the brokers only, which v0 cannot.
	Topics []string
	// AllTopics asks for every topic, and Topics must be empty then.
	AllTopics bool
	// AllowAutoTopicCreation lets the broker create those of Topics that it does
	// not have. Below v4 it always may, and a request that forbids it is refused.
	AllowAutoTopicCreation bool
}

// APIKey returns [APIKeyMetadata].
func (*MetadataRequest) APIKey() APIKey { return APIKeyMetadata }

func (m *MetadataRequest) check(v Version) error {
	c := checker{message: "MetadataRequest", version: v}
	c.spoken(APIKeyMetadata)
	switch {
	case m.AllTopics && len(m.Topics) > 0:
		c.refuse("Topics", fmt.Errorf("%w: all topics, and %d by name", ErrNotExpressible, len(m.Topics)))
	case v == 0 && !m.AllTopics && len(m.Topics) == 0:
		c.refuse("Topics", fmt.Errorf("%w: v0 has no way to ask for no topic, only for all", ErrNotExpressible))
	case v < 4 && !m.AllowAutoTopicCreation && len(m.Topics) > 0:
		c.refuse("AllowAutoTopicCreation", fmt.Errorf("%w: below v4 the broker may create the topics", ErrNotExpressible))
	}
	for _, topic := range m.Topics {
		c.string("Name", topic)
	}
	return c.err
}

// Encode appends the body; see [Request].
func (m *MetadataRequest) Encode(dst []byte, v Version) ([]byte, error) {
	if err := m.check(v); err != nil {
		return dst, err
	}
	w := writeBody(dst, APIKeyMetadata, v)
	if m.AllTopics && v >= 1 {
		w.nullArray()
	} else {
		w.array(len(m.Topics))
	}
	for _, topic := range m.Topics {
		if v >= 10 {
			w.uuid([16]byte{})
		}
		w.string(topic)
		w.tags()
	}
	if v >= 4 {
		w.bool(m.AllowAutoTopicCreation)
	}
	if v >= 8 && v <= 10 {
		w.bool(false)
	}
	if v >= 8 {
		w.bool(false)
	}
	w.tags()
	return w.dst, nil
}

// Decode fills the message from a body; see [Request].
func (m *MetadataRequest) Decode(src []byte, v Version) error {
	r := reader{src: src, message: "MetadataRequest", version: v}
	r.body(APIKeyMetadata)
	d := MetadataRequest{AllowAutoTopicCreation: true}
	d.decodeTopics(&r, v)
	if v >= 4 {
		d.AllowAutoTopicCreation = r.bool("AllowAutoTopicCreation")
	}
	if v >= 8 && v <= 10 {
		r.bool("IncludeClusterAuthorizedOperations")
	}
	if v >= 8 {
		r.bool("IncludeTopicAuthorizedOperations")
	}
	r.tags()
	return decoded(m, d, r.end())
}

func (m *MetadataRequest) decodeTopics(r *reader, v Version) {
	size := r.minString()
	if v >= 9 {
		size++ // tagged fields
	}
	if v >= 10 {
		size += 16 // TopicId
	}
	var n int
	if v == 0 {
		n = r.array("Topics", size)
		m.AllTopics = n == 0
	} else {
		n = r.nullableArray("Topics", size)
		m.AllTopics = n == null
	}
	if n <= 0 {
		return
	}
	m.Topics = make([]string, n)
	r.enter("Topics")
	for i := range m.Topics {
		r.at(i)
		if v >= 10 {
			r.uuid("TopicId")
		}
		m.Topics[i] = r.string("Name")
		r.tags()
	}
	r.leave()
}
