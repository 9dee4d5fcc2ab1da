package kafkatest

import (
	"hash/fnv"
	"maps"
	"slices"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// This file is how a Stub behaves unless told otherwise: as Apache Kafka does,
// measured.

// Default is the Handler that behaves well.
func Default(r *Request) {
	answer := r.Conn.stub.defaultAnswer(r)
	if answer == nil {
		r.Conn.Close() // Kafka's answer to what it does not understand
		return
	}
	if r.Key == kafkawire.APIKeyAPIVersions && answer.(*kafkawire.APIVersionsResponse).ErrorCode == kafkawire.ErrUnsupportedVersion {
		r.ReplyAs(r.CorrelationID, 0, answer)
		return
	}
	r.Reply(answer)
}

// DefaultAnswer is what Default would answer, for a handler to alter; nil where
// it would close the connection.
func (r *Request) DefaultAnswer() kafkawire.Response { return r.Conn.stub.defaultAnswer(r) }

func (s *Stub) defaultAnswer(r *Request) kafkawire.Response {
	s.mu.Lock()
	versions, offered := s.apis[r.Key]
	s.mu.Unlock()
	switch {
	case !offered:
		return nil
	case r.Key == kafkawire.APIKeyAPIVersions:
		return s.apiVersions(versions.Contains(r.Version))
	case !versions.Contains(r.Version):
		return nil
	}
	switch r.Key {
	case kafkawire.APIKeyFindCoordinator:
		if r.Keys == nil && r.Version < 4 {
			return nil // could not be read
		}
		return s.findCoordinator(r)
	case kafkawire.APIKeyMetadata:
		return s.metadata(r)
	case kafkawire.APIKeySaslHandshake: // as on a listener without SASL
		return &kafkawire.SaslHandshakeResponse{ErrorCode: kafkawire.ErrIllegalSaslState}
	case kafkawire.APIKeySaslAuthenticate:
		return &kafkawire.SaslAuthenticateResponse{ErrorCode: kafkawire.ErrIllegalSaslState}
	default:
		return nil
	}
}

// apiVersions lists all APIs. To a version it does not know, Kafka says so and
// lists ApiVersions only (since 2.4, KIP-511) or nothing.
func (s *Stub) apiVersions(versionKnown bool) kafkawire.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := &kafkawire.APIVersionsResponse{}
	for _, key := range slices.Sorted(maps.Keys(s.apis)) {
		answer.APIs = append(answer.APIs, kafkawire.APIVersionRange{Key: key, Min: s.apis[key].Min, Max: s.apis[key].Max})
	}
	if versionKnown {
		return answer
	}
	answer.ErrorCode = kafkawire.ErrUnsupportedVersion
	answer.APIs = slices.DeleteFunc(answer.APIs, func(a kafkawire.APIVersionRange) bool {
		return a.Key != kafkawire.APIKeyAPIVersions || a.Max < 3
	})
	return answer
}

func (s *Stub) metadata(r *Request) kafkawire.Response {
	var asked kafkawire.MetadataRequest
	if asked.Decode(r.Body, r.Version) != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := &kafkawire.MetadataResponse{Brokers: slices.Clone(s.brokers), ClusterID: "stub", ControllerID: kafkawire.NoNode}
	if len(s.brokers) > 0 {
		answer.ControllerID = s.brokers[0].NodeID
	}
	for _, topic := range asked.Topics {
		answer.Topics = append(answer.Topics, kafkawire.MetadataTopic{ErrorCode: kafkawire.ErrUnknownTopicOrPartition, Name: topic})
	}
	return answer
}

func (s *Stub) findCoordinator(r *Request) kafkawire.Response {
	answer := &kafkawire.FindCoordinatorResponse{}
	for _, key := range r.Keys {
		row := s.row(r, key)
		if r.Version < 4 {
			row.Key = ""
		}
		answer.Coordinators = append(answer.Coordinators, row)
	}
	return answer
}

func (s *Stub) row(r *Request, key string) kafkawire.Coordinator {
	row := s.Coordinator(r.KeyType, key)
	if r.KeyType < kafkawire.KeyTypeGroup || r.KeyType > kafkawire.KeyTypeShare ||
		r.KeyType == kafkawire.KeyTypeShare && r.Version < 6 {
		row = NoCoordinator(kafkawire.ErrInvalidRequest)
	}
	row.Key = key
	if row.ErrorMessage == "" && r.Version < 4 {
		row.ErrorMessage = row.ErrorCode.Name()
	}
	return row
}

// Coordinator is what the stub answers for a key that it understands: what
// SetCoordinator decides, else one of the brokers, always the same for a key.
func (s *Stub) Coordinator(keyType kafkawire.KeyType, key string) kafkawire.Coordinator {
	s.mu.Lock()
	decide, brokers := s.coordinator, s.brokers
	s.mu.Unlock()
	if decide != nil {
		return decide(keyType, key)
	}
	if keyType == kafkawire.KeyTypeShare {
		if _, err := kafkawire.ParseSharePartition(key); err != nil {
			return NoCoordinator(kafkawire.ErrInvalidRequest)
		}
	}
	if len(brokers) == 0 {
		return NoCoordinator(kafkawire.ErrCoordinatorNotAvailable)
	}
	h := fnv.New32a()
	h.Write([]byte{byte(keyType)})
	h.Write([]byte(key))
	return CoordinatorAt(brokers[h.Sum32()%uint32(len(brokers))])
}

// CoordinatorAt is the answer that names a broker.
func CoordinatorAt(b kafkawire.MetadataBroker) kafkawire.Coordinator {
	return kafkawire.Coordinator{NodeID: b.NodeID, Host: b.Host, Port: b.Port}
}

// NoCoordinator is the answer that names none.
func NoCoordinator(code kafkawire.ErrorCode) kafkawire.Coordinator {
	return kafkawire.Coordinator{NodeID: kafkawire.NoNode, Port: -1, ErrorCode: code}
}
