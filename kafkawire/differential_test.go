package kafkawire

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The codec that franz-go generates from the same schemas is the second opinion:
// for random messages of every version both write the same bytes, and both read
// the same from them.

// A kmsgMessage is a request or response of kmsg.
type kmsgMessage interface {
	AppendTo(dst []byte) []byte
	ReadFrom(src []byte) error
	SetVersion(v int16)
}

func TestAgainstKmsg(t *testing.T) {
	eachVersion(t, func(t *testing.T, m message, v Version) {
		rng := rand.New(rand.NewPCG(uint64(m.key), uint64(v)))
		for range 200 {
			ours := random(rng, m, v)
			theirs := toKmsg(ours, v)
			theirs.SetVersion(int16(v))
			want := theirs.AppendTo(nil)

			got, err := ours.Encode(nil, v)
			require.NoError(t, err)
			require.Equal(t, want, got)

			decoded := m.new()
			require.NoError(t, decoded.Decode(want, v))
			require.Equal(t, ours, decoded)
		}
	})
}

// random makes a message with what the version carries, and with the default where
// it carries nothing.
func random(rng *rand.Rand, m message, v Version) Request {
	g := generator{rng}
	switch m.new().(type) {
	case *APIVersionsRequest:
		return g.apiVersionsRequest(v)
	case *APIVersionsResponse:
		return g.apiVersionsResponse(v)
	case *FindCoordinatorRequest:
		return g.findCoordinatorRequest(v)
	case *FindCoordinatorResponse:
		return g.findCoordinatorResponse(v)
	case *MetadataRequest:
		return g.metadataRequest(v)
	case *MetadataResponse:
		return g.metadataResponse(v)
	case *SaslAuthenticateRequest:
		return &SaslAuthenticateRequest{AuthBytes: g.bytes()}
	case *SaslAuthenticateResponse:
		r := &SaslAuthenticateResponse{ErrorCode: ErrorCode(g.int16()), ErrorMessage: g.string(), AuthBytes: g.bytes()}
		if v >= 1 {
			r.SessionLifetimeMillis = int64(rng.Uint64())
		}
		return r
	case *SaslHandshakeRequest:
		return &SaslHandshakeRequest{Mechanism: g.string()}
	case *SaslHandshakeResponse:
		return &SaslHandshakeResponse{ErrorCode: ErrorCode(g.int16()), Mechanisms: g.strings()}
	}
	panic(m.name)
}

type generator struct{ *rand.Rand }

func (g generator) int16() int16 { return int16(g.Uint32()) }
func (g generator) int32() int32 { return int32(g.Uint32()) }
func (g generator) bool() bool   { return g.Uint32()&1 == 0 }

// length is mostly short, and now and then about where compact lengths grow.
func (g generator) length() int {
	switch g.IntN(10) {
	case 0:
		return 0
	case 1:
		return 125 + g.IntN(5)
	case 2:
		return 16381 + g.IntN(5)
	}
	return g.IntN(20)
}

func (g generator) string() string {
	return strings.Repeat(string(rune(g.IntN(0x3000))), 1) + string(make([]byte, g.length()))
}

func (g generator) bytes() []byte {
	var b []byte
	for range g.length() {
		b = append(b, byte(g.Uint32()))
	}
	return b
}

// few makes a short list, or none.
func few[T any](g generator, one func() T) []T {
	var list []T
	for range g.IntN(4) {
		list = append(list, one())
	}
	return list
}

func (g generator) strings() []string { return few(g, g.string) }
func (g generator) int32s() []int32   { return few(g, g.int32) }

func (g generator) apiVersionsRequest(v Version) *APIVersionsRequest {
	m := &APIVersionsRequest{NodeID: NoNode}
	if v >= 3 {
		m.ClientSoftwareName, m.ClientSoftwareVersion = g.string(), g.string()
	}
	if v >= 5 && g.bool() {
		cluster := g.string()
		m.ClusterID, m.NodeID = &cluster, g.int32()&0x7fffffff
	}
	return m
}

func (g generator) apiVersionsResponse(v Version) *APIVersionsResponse {
	m := &APIVersionsResponse{ErrorCode: ErrorCode(g.IntN(30))}
	m.APIs = few(g, func() APIVersionRange {
		return APIVersionRange{APIKey(g.int16()), Version(g.int16()), Version(g.int16())}
	})
	if v >= 1 {
		m.ThrottleMillis = g.int32()
	}
	return m
}

func (g generator) findCoordinatorRequest(v Version) *FindCoordinatorRequest {
	m := &FindCoordinatorRequest{}
	if v >= 1 {
		m.KeyType = KeyType(g.IntN(2))
	}
	if v >= 6 {
		m.KeyType = KeyType(g.IntN(3))
	}
	if v < 4 {
		m.Keys = []string{g.string()}
		return m
	}
	m.Keys = g.strings()
	if g.IntN(10) == 0 {
		for range 130 {
			m.Keys = append(m.Keys, fmt.Sprint(len(m.Keys)))
		}
	}
	return m
}

func (g generator) findCoordinatorResponse(v Version) *FindCoordinatorResponse {
	m := &FindCoordinatorResponse{}
	if v >= 1 {
		m.ThrottleMillis = g.int32()
	}
	row := func() Coordinator {
		c := Coordinator{NodeID: g.int32(), Host: g.string(), Port: g.int32(), ErrorCode: ErrorCode(g.int16())}
		if v >= 1 {
			c.ErrorMessage = g.string()
		}
		if v >= 4 {
			c.Key = g.string()
		}
		return c
	}
	if v < 4 {
		m.Coordinators = []Coordinator{row()}
		return m
	}
	m.Coordinators = few(g, row)
	return m
}

func (g generator) metadataRequest(v Version) *MetadataRequest {
	m := &MetadataRequest{Topics: g.strings(), AllowAutoTopicCreation: v < 4 || g.bool()}
	m.AllTopics = m.Topics == nil && (v == 0 || g.bool())
	return m
}

func (g generator) metadataResponse(v Version) *MetadataResponse {
	m := &MetadataResponse{ControllerID: NoNode}
	if v >= 1 {
		m.ControllerID = g.int32()
	}
	if v >= 2 && g.bool() {
		m.ClusterID = g.string()
	}
	if v >= 3 {
		m.ThrottleMillis = g.int32()
	}
	m.Brokers = few(g, func() MetadataBroker {
		b := MetadataBroker{NodeID: g.int32(), Host: g.string(), Port: g.int32()}
		if v >= 1 && g.bool() {
			b.Rack = g.string()
		}
		return b
	})
	m.Topics = few(g, func() MetadataTopic { return g.metadataTopic(v) })
	return m
}

func (g generator) metadataTopic(v Version) MetadataTopic {
	t := MetadataTopic{ErrorCode: ErrorCode(g.int16()), Internal: v >= 1 && g.bool()}
	if v < 12 || g.bool() {
		t.Name = g.string()
	}
	if v >= 10 {
		t.TopicID = [16]byte{byte(g.Uint32()), 15: byte(g.Uint32())}
	}
	t.Partitions = few(g, func() MetadataPartition {
		p := MetadataPartition{ErrorCode: ErrorCode(g.int16()), Partition: g.int32(), Leader: g.int32(), LeaderEpoch: -1, Replicas: g.int32s(), ISR: g.int32s()}
		if v >= 5 {
			p.OfflineReplicas = g.int32s()
		}
		if v >= 7 {
			p.LeaderEpoch = g.int32()
		}
		return p
	})
	return t
}

// toKmsg says the same in the words of kmsg.
func toKmsg(m Request, v Version) kmsgMessage {
	switch m := m.(type) {
	case *APIVersionsRequest:
		k := kmsg.NewPtrApiVersionsRequest()
		k.ClientSoftwareName, k.ClientSoftwareVersion = m.ClientSoftwareName, m.ClientSoftwareVersion
		k.ClusterID, k.NodeID = m.ClusterID, m.NodeID
		return k
	case *APIVersionsResponse:
		k := kmsg.NewPtrApiVersionsResponse()
		k.ErrorCode, k.ThrottleMillis = int16(m.ErrorCode), m.ThrottleMillis
		for _, a := range m.APIs {
			row := kmsg.NewApiVersionsResponseApiKey()
			row.ApiKey, row.MinVersion, row.MaxVersion = int16(a.Key), int16(a.Min), int16(a.Max)
			k.ApiKeys = append(k.ApiKeys, row)
		}
		return k
	case *FindCoordinatorRequest:
		k := kmsg.NewPtrFindCoordinatorRequest()
		k.CoordinatorType, k.CoordinatorKeys = int8(m.KeyType), m.Keys
		if v < 4 {
			k.CoordinatorKey = m.Keys[0]
		}
		return k
	case *FindCoordinatorResponse:
		return findCoordinatorResponseToKmsg(m, v)
	case *MetadataRequest:
		return metadataRequestToKmsg(m)
	case *MetadataResponse:
		return metadataResponseToKmsg(m)
	case *SaslAuthenticateRequest:
		k := kmsg.NewPtrSASLAuthenticateRequest()
		k.SASLAuthBytes = m.AuthBytes
		return k
	case *SaslAuthenticateResponse:
		k := kmsg.NewPtrSASLAuthenticateResponse()
		k.ErrorCode, k.ErrorMessage = int16(m.ErrorCode), &m.ErrorMessage
		k.SASLAuthBytes, k.SessionLifetimeMillis = m.AuthBytes, m.SessionLifetimeMillis
		return k
	case *SaslHandshakeRequest:
		k := kmsg.NewPtrSASLHandshakeRequest()
		k.Mechanism = m.Mechanism
		return k
	case *SaslHandshakeResponse:
		k := kmsg.NewPtrSASLHandshakeResponse()
		k.ErrorCode, k.SupportedMechanisms = int16(m.ErrorCode), m.Mechanisms
		return k
	}
	panic(fmt.Sprintf("%T", m))
}

func findCoordinatorResponseToKmsg(m *FindCoordinatorResponse, v Version) kmsgMessage {
	k := kmsg.NewPtrFindCoordinatorResponse()
	k.ThrottleMillis = m.ThrottleMillis
	if v < 4 {
		row := &m.Coordinators[0]
		k.NodeID, k.Host, k.Port = row.NodeID, row.Host, row.Port
		k.ErrorCode, k.ErrorMessage = int16(row.ErrorCode), &row.ErrorMessage
		return k
	}
	for i := range m.Coordinators {
		row := &m.Coordinators[i]
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.Host, c.Port = row.Key, row.NodeID, row.Host, row.Port
		c.ErrorCode, c.ErrorMessage = int16(row.ErrorCode), &row.ErrorMessage
		k.Coordinators = append(k.Coordinators, c)
	}
	return k
}

func metadataRequestToKmsg(m *MetadataRequest) kmsgMessage {
	k := kmsg.NewPtrMetadataRequest()
	k.AllowAutoTopicCreation = m.AllowAutoTopicCreation
	if !m.AllTopics {
		k.Topics = []kmsg.MetadataRequestTopic{}
	}
	for i := range m.Topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &m.Topics[i]
		k.Topics = append(k.Topics, topic)
	}
	return k
}

func metadataResponseToKmsg(m *MetadataResponse) kmsgMessage {
	k := kmsg.NewPtrMetadataResponse()
	k.ThrottleMillis, k.ClusterID, k.ControllerID = m.ThrottleMillis, nilIfEmpty(m.ClusterID), m.ControllerID
	for _, b := range m.Brokers {
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port, broker.Rack = b.NodeID, b.Host, b.Port, nilIfEmpty(b.Rack)
		k.Brokers = append(k.Brokers, broker)
	}
	for _, t := range m.Topics {
		topic := kmsg.NewMetadataResponseTopic()
		topic.ErrorCode, topic.Topic, topic.TopicID, topic.IsInternal = int16(t.ErrorCode), nilIfEmpty(t.Name), t.TopicID, t.Internal
		for _, p := range t.Partitions {
			partition := kmsg.NewMetadataResponseTopicPartition()
			partition.ErrorCode, partition.Partition = int16(p.ErrorCode), p.Partition
			partition.Leader, partition.LeaderEpoch = p.Leader, p.LeaderEpoch
			partition.Replicas, partition.ISR, partition.OfflineReplicas = p.Replicas, p.ISR, p.OfflineReplicas
			topic.Partitions = append(topic.Partitions, partition)
		}
		k.Topics = append(k.Topics, topic)
	}
	return k
}

func nilIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func emptyIfNil(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// The fuzz targets against kmsg take any bytes as a body: what this package takes,
// kmsg must take, and read the same from it. What it refuses beyond kmsg, it
// refuses for one of the reasons in stricter.

func FuzzFindCoordinatorAgainstKmsg(f *testing.F) {
	fuzzAgainstKmsg(f, messageNamed(f, "FindCoordinatorRequest"), messageNamed(f, "FindCoordinatorResponse"))
}

func FuzzAPIVersionsAgainstKmsg(f *testing.F) {
	fuzzAgainstKmsg(f, messageNamed(f, "ApiVersionsRequest"), messageNamed(f, "ApiVersionsResponse"))
}

func fuzzAgainstKmsg(f *testing.F, request, response message) {
	for _, m := range []message{request, response} {
		versions := Supported(m.key)
		for v := versions.Min; v <= versions.Max; v++ {
			_, encoded := sample(f, m, v)
			f.Add(m.response, int16(v), encoded)
		}
		for _, body := range recordedBodies(f, m) {
			f.Add(m.response, int16(body.version), body.bytes)
		}
	}
	f.Fuzz(func(t *testing.T, isResponse bool, version int16, src []byte) {
		m, v := request, Version(version)
		if isResponse {
			m = response
		}
		if Supported(m.key).Contains(v) {
			checkAgainstKmsg(t, m, v, src)
		}
	})
}

// stricter are the reasons to refuse what kmsg lets pass: it does not look at what
// is left after the message, reads null as "", has no limit on strings, and takes a
// count over 2,147,483,647 for a negative one, which it reads as null.
var stricter = []error{ErrTrailingBytes, ErrNull, ErrInvalidLength, ErrInvalidVarint}

// overflowed reports whether a count was refused that does not fit an int32.
func overflowed(err error) bool {
	found := regexp.MustCompile(`: (\d+) elements`).FindStringSubmatch(err.Error())
	if found == nil {
		return false
	}
	count, _ := strconv.ParseUint(found[1], 10, 64)
	return errors.Is(err, ErrTruncated) && count > math.MaxInt32
}

func checkAgainstKmsg(t *testing.T, m message, v Version, src []byte) {
	layout := v
	if m.name == "ApiVersionsResponse" && len(src) >= 2 && src[0] == 0 && src[1] == 35 {
		layout = 0 // franz-go looks at the code before it asks kmsg, too
	}
	theirs := newKmsg(m)
	theirs.SetVersion(int16(layout))
	theirErr := theirs.ReadFrom(src)
	ours := m.new()
	err := ours.Decode(src, v)
	switch {
	case err == nil && theirErr == nil:
		require.Equal(t, fromKmsg(theirs, layout), ours)
	case err == nil:
		// Of the answers this package takes more: a null host, no throttle time, and
		// any features in the tagged fields, which it skips. Written down anew they
		// must be to the liking of kmsg.
		require.True(t, m.response, "only kmsg refuses it: %v", theirErr)
		again, err := ours.Encode(nil, v)
		require.NoError(t, err)
		require.NoError(t, theirs.ReadFrom(again))
		require.Equal(t, fromKmsg(theirs, layout), ours)
	case theirErr == nil:
		for _, reason := range stricter {
			if errors.Is(err, reason) {
				return
			}
		}
		if overflowed(err) {
			return
		}
		t.Errorf("only kmsg takes it; here: %v", err)
	}
}

func newKmsg(m message) kmsgMessage {
	switch m.name {
	case "ApiVersionsRequest":
		return kmsg.NewPtrApiVersionsRequest()
	case "ApiVersionsResponse":
		return kmsg.NewPtrApiVersionsResponse()
	case "FindCoordinatorRequest":
		return kmsg.NewPtrFindCoordinatorRequest()
	case "FindCoordinatorResponse":
		return kmsg.NewPtrFindCoordinatorResponse()
	}
	panic(m.name)
}

// fromKmsg is the way back from toKmsg.
func fromKmsg(k kmsgMessage, v Version) Request {
	switch k := k.(type) {
	case *kmsg.ApiVersionsRequest:
		return &APIVersionsRequest{k.ClientSoftwareName, k.ClientSoftwareVersion, k.ClusterID, k.NodeID}
	case *kmsg.ApiVersionsResponse:
		m := &APIVersionsResponse{ErrorCode: ErrorCode(k.ErrorCode), ThrottleMillis: k.ThrottleMillis}
		for _, a := range k.ApiKeys {
			m.APIs = append(m.APIs, APIVersionRange{APIKey(a.ApiKey), Version(a.MinVersion), Version(a.MaxVersion)})
		}
		return m
	case *kmsg.FindCoordinatorRequest:
		m := &FindCoordinatorRequest{KeyType: KeyType(k.CoordinatorType), Keys: append([]string(nil), k.CoordinatorKeys...)}
		if v < 4 {
			m.Keys = []string{k.CoordinatorKey}
		}
		return m
	case *kmsg.FindCoordinatorResponse:
		m := &FindCoordinatorResponse{ThrottleMillis: k.ThrottleMillis}
		if v < 4 {
			m.Coordinators = []Coordinator{{"", k.NodeID, k.Host, k.Port, ErrorCode(k.ErrorCode), emptyIfNil(k.ErrorMessage)}}
			return m
		}
		for _, c := range k.Coordinators {
			m.Coordinators = append(m.Coordinators, Coordinator{c.Key, c.NodeID, c.Host, c.Port, ErrorCode(c.ErrorCode), emptyIfNil(c.ErrorMessage)})
		}
		return m
	}
	panic(fmt.Sprintf("%T", k))
}
