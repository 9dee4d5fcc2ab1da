package kafkawire

import "fmt"

// An APIVersionsRequest (key 18, v0 to v5) asks which APIs a broker speaks, in
// which versions. It is the first request on a connection, and the only one whose
// version a broker need not know: it then answers UNSUPPORTED_VERSION instead of
// closing (Kafka 0.10 and later; older ones close, or never answer).
//
//	ClientSoftwareName     string           v3 and later
//	ClientSoftwareVersion  string           v3 and later
//	ClusterId              nullable string  v5
//	NodeId                 int32            v5; -1 is none
//	tagged fields                           v3 and later
//
// Request header v1 for v0 to v2, v2 for v3 and later. The project asks for v4 at
// most, v3 by default: some brokers reset the connection above it.
//
// Source: ApiVersionsRequest.json; KIP-35 (v0), KIP-511 (v3), KIP-1242 (v5).
type APIVersionsRequest struct {
	// ClientSoftwareName and ClientSoftwareVersion show up in the broker's
	// metrics. A broker refuses both with INVALID_REQUEST unless they match
	// [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?
	ClientSoftwareName    string
	ClientSoftwareVersion string
	// ClusterID and NodeID say whom the client means to reach, so that one that
	// was led elsewhere is told so (REBOOTSTRAP_REQUIRED). Both or neither: nil
	// and [NoNode] while bootstrapping.
	ClusterID *string
	NodeID    int32
}

// APIKey returns [APIKeyAPIVersions].
func (*APIVersionsRequest) APIKey() APIKey { return APIKeyAPIVersions }

func (m *APIVersionsRequest) check(v Version) error {
	c := checker{message: "ApiVersionsRequest", version: v}
	c.spoken(APIKeyAPIVersions)
	if v >= 3 {
		c.string("ClientSoftwareName", m.ClientSoftwareName)
		c.string("ClientSoftwareVersion", m.ClientSoftwareVersion)
	}
	if v >= 5 {
		if m.ClusterID != nil {
			c.string("ClusterId", *m.ClusterID)
		}
		if (m.ClusterID == nil) != (m.NodeID == NoNode) {
			c.refuse("NodeId", fmt.Errorf("%w: cluster id and node id go together, or are nil and %d", ErrNotExpressible, NoNode))
		}
	}
	return c.err
}

// Encode appends the body; see [Request].
func (m *APIVersionsRequest) Encode(dst []byte, v Version) ([]byte, error) {
	if err := m.check(v); err != nil {
		return dst, err
	}
	w := writeBody(dst, APIKeyAPIVersions, v)
	if v >= 3 {
		w.string(m.ClientSoftwareName)
		w.string(m.ClientSoftwareVersion)
	}
	if v >= 5 {
		if m.ClusterID == nil {
			w.nullString()
		} else {
			w.string(*m.ClusterID)
		}
		w.int32(m.NodeID)
	}
	w.tags()
	return w.dst, nil
}

// Decode fills the message from a body; see [Request]. Below v5 NodeID is [NoNode].
func (m *APIVersionsRequest) Decode(src []byte, v Version) error {
	r := reader{src: src, message: "ApiVersionsRequest", version: v}
	r.body(APIKeyAPIVersions)
	d := APIVersionsRequest{NodeID: NoNode}
	if v >= 3 {
		d.ClientSoftwareName = r.string("ClientSoftwareName")
		d.ClientSoftwareVersion = r.string("ClientSoftwareVersion")
	}
	if v >= 5 {
		d.ClusterID = r.optionalString("ClusterId")
		d.NodeID = r.int32("NodeId")
	}
	r.tags()
	return decoded(m, d, r.end())
}
