package kafkawire

import (
	"fmt"
	"math"
)

// A MetadataResponse (key 3, v0 to v12) lists the brokers that are alive, and the
// topics asked for with their partitions.
//
//	ThrottleTimeMs                int32            v3 and later
//	Brokers                       []Broker
//	  NodeId                      int32
//	  Host                        string
//	  Port                        int32
//	  Rack                        nullable string  v1 and later
//	  tagged fields                                v9 and later
//	ClusterId                     nullable string  v2 and later
//	ControllerId                  int32            v1 and later
//	Topics                        []Topic
//	  ErrorCode                   int16
//	  Name                        string           nullable in v12
//	  TopicId                     uuid             v10 and later
//	  IsInternal                  bool             v1 and later
//	  Partitions                  []Partition
//	    ErrorCode                 int16
//	    PartitionIndex            int32
//	    LeaderId                  int32
//	    LeaderEpoch               int32            v7 and later
//	    ReplicaNodes              []int32
//	    IsrNodes                  []int32
//	    OfflineReplicas           []int32          v5 and later
//	    tagged fields                              v9 and later
//	  TopicAuthorizedOperations   int32            v8 and later; written as not asked for, not read
//	  tagged fields                                v9 and later
//	ClusterAuthorizedOperations   int32            v8 to v10; written as not asked for, not read
//	tagged fields                                  v9 and later
//
// Response header v0 for v0 to v8, v1 for v9 and later.
//
// Source: MetadataResponse.json; KIP-4 (v1), KIP-78 (v2), KIP-112 (v5), KIP-320
// (v7), KIP-430 (v8), KIP-516 (v10).
type MetadataResponse struct {
	// ThrottleMillis is for how long the broker holds back further requests.
	ThrottleMillis int32
	// Brokers that are alive, as reached over the listener that the request came by.
	Brokers []MetadataBroker
	// ClusterID is "" below v2. Null and "" are one: "" is written as null.
	ClusterID string
	// ControllerID is [NoNode] where there is none, and below v1.
	ControllerID int32
	Topics       []MetadataTopic
}

// A MetadataBroker is one broker of the cluster.
type MetadataBroker struct {
	NodeID int32
	Host   string
	Port   int32
	Rack   string // "" where it has none, written as null
}

// A MetadataTopic is one topic, or what is wrong with it.
type MetadataTopic struct {
	ErrorCode  ErrorCode
	Name       string   // "" where the topic was asked for by an id that is not known
	TopicID    [16]byte // zero below v10
	Internal   bool
	Partitions []MetadataPartition
}

// A MetadataPartition is one partition of a topic, or what is wrong with it.
type MetadataPartition struct {
	// ErrorCode is LEADER_NOT_AVAILABLE where no replica leads, and from v6 on
	// LISTENER_NOT_FOUND where the leader lacks the listener of this connection.
	ErrorCode       ErrorCode
	Partition       int32
	Leader          int32 // a node id; [NoNode] where there is none
	LeaderEpoch     int32 // -1 below v7
	Replicas        []int32
	ISR             []int32 // in sync with the leader
	OfflineReplicas []int32 // none below v5
}

// operationsNotAsked stands where a bit field of ACL operations would.
const operationsNotAsked = math.MinInt32

// minMetadataPartition is the fewest bytes a partition takes in any version: that
// of v9, with three empty arrays, a leader epoch and no tagged fields; v0 to v4
// take the same with two longer arrays and without the epoch.
const minMetadataPartition = 2 + 4 + 4 + 4 + 4

// minMetadataTopic is the fewest bytes a topic takes in any version: that of v0,
// with an empty name and no partition.
const minMetadataTopic = 2 + 2 + 4

// APIKey returns [APIKeyMetadata].
func (*MetadataResponse) APIKey() APIKey { return APIKeyMetadata }

func (m *MetadataResponse) check(v Version) error {
	c := checker{message: "MetadataResponse", version: v}
	c.spoken(APIKeyMetadata)
	for i := range m.Brokers {
		c.string("Host", m.Brokers[i].Host)
		c.string("Rack", m.Brokers[i].Rack)
	}
	c.string("ClusterId", m.ClusterID)
	for i := range m.Topics {
		c.string("Name", m.Topics[i].Name)
	}
	return c.err
}

// Encode appends the body; see [Request]. What a version has no room for is left
// out.
func (m *MetadataResponse) Encode(dst []byte, v Version) ([]byte, error) {
	if err := m.check(v); err != nil {
		return dst, err
	}
	w := writeBody(dst, APIKeyMetadata, v)
	if v >= 3 {
		w.int32(m.ThrottleMillis)
	}
	w.array(len(m.Brokers))
	for i := range m.Brokers {
		m.Brokers[i].encode(&w, v)
	}
	if v >= 2 {
		w.stringOrNull(m.ClusterID)
	}
	if v >= 1 {
		w.int32(m.ControllerID)
	}
	w.array(len(m.Topics))
	for i := range m.Topics {
		m.Topics[i].encode(&w, v)
	}
	if v >= 8 && v <= 10 {
		w.int32(operationsNotAsked)
	}
	w.tags()
	return w.dst, nil
}

func (b *MetadataBroker) encode(w *writer, v Version) {
	w.int32(b.NodeID)
	w.string(b.Host)
	w.int32(b.Port)
	if v >= 1 {
		w.stringOrNull(b.Rack)
	}
	w.tags()
}

func (t *MetadataTopic) encode(w *writer, v Version) {
	w.int16(int16(t.ErrorCode))
	if v >= 12 {
		w.stringOrNull(t.Name)
	} else {
		w.string(t.Name)
	}
	if v >= 10 {
		w.uuid(t.TopicID)
	}
	if v >= 1 {
		w.bool(t.Internal)
	}
	w.array(len(t.Partitions))
	for i := range t.Partitions {
		t.Partitions[i].encode(w, v)
	}
	if v >= 8 {
		w.int32(operationsNotAsked)
	}
	w.tags()
}

func (p *MetadataPartition) encode(w *writer, v Version) {
	w.int16(int16(p.ErrorCode))
	w.int32(p.Partition)
	w.int32(p.Leader)
	if v >= 7 {
		w.int32(p.LeaderEpoch)
	}
	w.int32s(p.Replicas)
	w.int32s(p.ISR)
	if v >= 5 {
		w.int32s(p.OfflineReplicas)
	}
	w.tags()
}

// Decode fills the message from a body; see [Request].
func (m *MetadataResponse) Decode(src []byte, v Version) error {
	r := reader{src: src, message: "MetadataResponse", version: v}
	r.body(APIKeyMetadata)
	d := MetadataResponse{ControllerID: NoNode}
	if v >= 3 {
		d.ThrottleMillis = r.int32("ThrottleTimeMs")
	}
	d.decodeBrokers(&r, v)
	if v >= 2 {
		d.ClusterID = r.nullableString("ClusterId")
	}
	if v >= 1 {
		d.ControllerID = r.int32("ControllerId")
	}
	d.decodeTopics(&r, v)
	if v >= 8 && v <= 10 {
		r.int32("ClusterAuthorizedOperations")
	}
	r.tags()
	return decoded(m, d, r.end())
}

// DecodeBrokers fills Brokers only and leaves the rest of the body unread: v0 lists
// all topics of the cluster, wanted or not.
func (m *MetadataResponse) DecodeBrokers(src []byte, v Version) error {
	r := reader{src: src, message: "MetadataResponse", version: v}
	r.body(APIKeyMetadata)
	d := MetadataResponse{ControllerID: NoNode}
	if v >= 3 {
		d.ThrottleMillis = r.int32("ThrottleTimeMs")
	}
	d.decodeBrokers(&r, v)
	return decoded(m, d, r.err)
}

// maxBrokers is far above any cluster's.
const maxBrokers = 100_000

func (m *MetadataResponse) decodeBrokers(r *reader, v Version) {
	start := r.off
	n := r.array("Brokers", 4+r.minString()+4)
	if n > maxBrokers {
		r.off = start
		r.fail("Brokers", fmt.Errorf("%w: %d brokers; no cluster has more than %d", ErrInvalidLength, n, maxBrokers))
		return
	}
	if n == 0 {
		return
	}
	m.Brokers = make([]MetadataBroker, n)
	r.enter("Brokers")
	for i := range m.Brokers {
		r.at(i)
		m.Brokers[i].decode(r, v)
	}
	r.leave()
}

func (b *MetadataBroker) decode(r *reader, v Version) {
	b.NodeID = r.int32("NodeId")
	b.Host = r.string("Host")
	b.Port = r.int32("Port")
	if v >= 1 {
		b.Rack = r.nullableString("Rack")
	}
	r.tags()
}

func (m *MetadataResponse) decodeTopics(r *reader, v Version) {
	n := r.array("Topics", minMetadataTopic)
	if n == 0 {
		return
	}
	m.Topics = make([]MetadataTopic, n)
	r.enter("Topics")
	for i := range m.Topics {
		r.at(i)
		m.Topics[i].decode(r, v)
	}
	r.leave()
}

func (t *MetadataTopic) decode(r *reader, v Version) {
	t.ErrorCode = ErrorCode(r.int16("ErrorCode"))
	if v >= 12 {
		t.Name = r.nullableString("Name")
	} else {
		t.Name = r.string("Name")
	}
	if v >= 10 {
		t.TopicID = r.uuid("TopicId")
	}
	if v >= 1 {
		t.Internal = r.bool("IsInternal")
	}
	t.decodePartitions(r, v)
	if v >= 8 {
		r.int32("TopicAuthorizedOperations")
	}
	r.tags()
}

func (t *MetadataTopic) decodePartitions(r *reader, v Version) {
	n := r.array("Partitions", minMetadataPartition)
	if n == 0 {
		return
	}
	t.Partitions = make([]MetadataPartition, n)
	r.enter("Partitions")
	for i := range t.Partitions {
		r.at(i)
		t.Partitions[i].decode(r, v)
	}
	r.leave()
}

func (p *MetadataPartition) decode(r *reader, v Version) {
	p.ErrorCode = ErrorCode(r.int16("ErrorCode"))
	p.Partition = r.int32("PartitionIndex")
	p.Leader = r.int32("LeaderId")
	p.LeaderEpoch = -1
	if v >= 7 {
		p.LeaderEpoch = r.int32("LeaderEpoch")
	}
	p.Replicas = r.int32s("ReplicaNodes")
	p.ISR = r.int32s("IsrNodes")
	if v >= 5 {
		p.OfflineReplicas = r.int32s("OfflineReplicas")
	}
	r.tags()
}
