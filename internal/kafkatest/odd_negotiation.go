package kafkatest

import (
	"strings"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

func oddNegotiation() []OddBroker {
	return []OddBroker{
		{Name: "resets on ApiVersions v4 and later", Seen: "Azure Event Hubs: franz-go#1025, kafka-python#2602",
			Script: handshakes(above(3, Reset)), Want: found},
		{Name: "resets on ApiVersions v1 and later", Script: handshakes(above(0, Reset)), Want: found},
		{Name: "closes on ApiVersions", Seen: "Kafka 0.8.2", Release: "0.8.2.2", Want: found},
		{Name: "closes on ApiVersions, asked for a transactional id", Release: "0.8.2.2", KeyType: kafkawire.KeyTypeTransaction, Want: noKeyType},
		{Name: "never answers ApiVersions", Seen: "Kafka 0.9.0.0 and 0.9.0.1, KAFKA-3547", Release: "0.9.0.1", Want: found, Slow: true},
		{Name: "refuses the version with an empty list", Seen: "Kafka 0.10 to 2.3", Release: "0.10.2.2", Want: found},
		{Name: "refuses the version and lists ApiVersions only", Seen: "Kafka 2.4 and later, KIP-511",
			Script: all(speaks(kafkawire.APIKeyAPIVersions, 0, 2), handshakes(refuse(2, onlyAPIVersions))), Want: found},
		{Name: "refuses the version and lists all APIs", Seen: "Redpanda",
			Script: all(speaks(kafkawire.APIKeyAPIVersions, 0, 2), handshakes(refuse(2, allAPIs))), Want: found},
		{Name: "refuses v3 and offers v3", Script: handshakes(refuse(0, allAPIs)), Want: found},
		{Name: "refuses every version of ApiVersions", Seen: "a loop in franz-go before 1.20",
			Script: handshakes(refuse(-1, allAPIs)), Want: noVersion},
		{Name: "refuses every version with an empty list", Script: all(speaks(kafkawire.APIKeyAPIVersions, 0, 0), handshakes(refuse(-1, noAPIs))), Want: noVersion},
		{Name: "leaves the throttle time out of ApiVersions", Seen: "KafkaJS's fixtures", Release: "2.3.1", Script: handshakes(withoutThrottle), Want: found},
		{Name: "lists APIs in v3 with response header v1", Script: handshakes(wrongHeader), Want: notKafka},
		{Name: "lists 2 billion APIs", Script: handshakes(body([]byte{0, 0}, rawBytes{}.uvarint(1<<31))), Want: notKafka, Hostile: true},
		{Name: "lists -5 APIs", Script: handshakes(above(0, body([]byte{0, 35, 0xff, 0xff, 0xff, 0xfb}))), Want: notKafka},
		{Name: "refuses the client software", Seen: "Kafka, of Go's version (devel): sarama#2291",
			Script: handshakes(failHandshake(kafkawire.ErrInvalidRequest)), Want: invalidAnswer},
		{Name: "wants SASL first", Script: handshakes(failHandshake(kafkawire.ErrIllegalSaslState)), Want: saslFailed},
		{Name: "says that it is the wrong broker", Seen: "Kafka 4.4, KIP-1242", Script: handshakes(failHandshake(kafkawire.ErrRebootstrapRequired)), Want: unreachable},
	}
}

func oddVersions() []OddBroker {
	return []OddBroker{
		{Name: "offers no FindCoordinator", Seen: "a KRaft controller's port: sarama#3742", Want: noVersion,
			Script: func(s *Stub) { s.RemoveAPI(kafkawire.APIKeyFindCoordinator) }},
		{Name: "offers no API at all", Want: noVersion, Script: handshakes(func(r *Request) { r.Reply(&kafkawire.APIVersionsResponse{}) })},
		{Name: "offers v7 to v9", Seen: "Dekaf PR 2268", Script: speaks(kafkawire.APIKeyFindCoordinator, 7, 9), Want: noVersion},
		{Name: "offers v6 to v6", Script: speaks(kafkawire.APIKeyFindCoordinator, 6, 6), Want: found},
		{Name: "offers v0 to v0", Script: speaks(kafkawire.APIKeyFindCoordinator, 0, 0), Want: found},
		{Name: "offers v4 to v32767", Script: speaks(kafkawire.APIKeyFindCoordinator, 4, 32767), Want: found},
		{Name: "offers v5 to v2", Script: speaks(kafkawire.APIKeyFindCoordinator, 5, 2), Want: noVersion},
		{Name: "offers v-3 to v4", Script: speaks(kafkawire.APIKeyFindCoordinator, -3, 4), Want: noVersion},
		{Name: "offers v-1 to v-1", Script: speaks(kafkawire.APIKeyFindCoordinator, -1, -1), Want: noVersion},
		{Name: "offers v6 at most, asked for a share partition", Keys: shareKeys[:1], KeyType: kafkawire.KeyTypeShare, Want: found},
		{Name: "offers v5 at most, asked for a share partition", Keys: shareKeys[:1], KeyType: kafkawire.KeyTypeShare,
			Script: speaks(kafkawire.APIKeyFindCoordinator, 0, 5), Want: noKeyType},
		{Name: "closes on the version that it offers", Script: lookups(Hangup), Want: unreachable},
		{Name: "is a load balancer before brokers of different versions", Script: balancer, Keys: []string{"a", "b"}, Want: found, Pause: 200 * time.Millisecond},
	}
}

func oddRows() []OddBroker {
	return []OddBroker{
		{Name: "answers success with node -1", Seen: "franz-go#37", Script: lookups(Alter(func(row *kafkawire.Coordinator) { row.NodeID = -1 })), Want: invalidAnswer},
		{Name: "answers success as nowhere", Script: lookups(Alter(func(row *kafkawire.Coordinator) { row.NodeID, row.Host, row.Port = -1, "", -1 })), Want: invalidAnswer},
		{Name: "answers success with a null host", Script: lookups(nullHost(0)), Want: invalidAnswer},
		{Name: "answers an error with a null host", Seen: "librdkafka's mock broker", Script: lookups(nullHost(15)), Want: ofCode(15)},
		{Name: "answers success with an empty host", Script: lookups(Alter(func(row *kafkawire.Coordinator) { row.Host = "" })), Want: invalidAnswer},
		{Name: "answers success with port 0", Seen: "sarama drops such nodes", Script: lookups(Alter(func(row *kafkawire.Coordinator) { row.Port = 0 })), Want: invalidAnswer},
		{Name: "answers success with port 70000", Script: lookups(Alter(func(row *kafkawire.Coordinator) { row.Port = 70000 })), Want: invalidAnswer},
		{Name: "answers success with a host that is no text", Script: lookups(Alter(func(row *kafkawire.Coordinator) { row.Host = "b\xff\xfe" })), Want: invalidAnswer},
		{Name: "answers success with a host of two lines", Script: lookups(Alter(func(row *kafkawire.Coordinator) { row.Host = "b\nrm" })), Want: invalidAnswer},
		{Name: "answers success with a host that moves the cursor", Script: lookups(Alter(func(row *kafkawire.Coordinator) { row.Host = "\x1b[2Jb" })), Want: invalidAnswer},
		{Name: "answers success with a host of two words", Script: lookups(Alter(func(row *kafkawire.Coordinator) { row.Host = "b \u00a0c" })), Want: invalidAnswer},
		{Name: "answers success with a host of 32,767 bytes", Script: lookups(Alter(func(row *kafkawire.Coordinator) { row.Host = strings.Repeat("h", 32767) })), Want: invalidAnswer},
		{Name: "answers errors as node 0", Seen: "kfake", Want: ofCode(15),
			Script: lookups(Alter(func(row *kafkawire.Coordinator) { *row = kafkawire.Coordinator{Key: row.Key, ErrorCode: 15} }))},
		{Name: "explains at length, and not in text", Want: ofCode(15),
			Script: lookups(Alter(func(row *kafkawire.Coordinator) {
				row.ErrorCode, row.ErrorMessage = 15, strings.Repeat("\xff<script>\x00", 3000)
			}))},
	}
}

func oddCodes() []OddBroker {
	return []OddBroker{
		{Name: "fails all share partitions for one with -1", Seen: "Kafka 4.0.0, PR 19272", KeyType: kafkawire.KeyTypeShare, Keys: shareKeys,
			Script: lookups(allForOne(kafkawire.ErrUnknownServerError)), Want: found, WantOf: map[string]Outcome{shareKeys[2]: ofCode(-1)}},
		{Name: "fails all share partitions for one with 42", KeyType: kafkawire.KeyTypeShare, Keys: shareKeys,
			Script: lookups(allForOne(kafkawire.ErrInvalidRequest)), Want: found, WantOf: map[string]Outcome{shareKeys[2]: ofCode(42)}},
		{Name: "fails all keys with -1", Keys: []string{"a", "b", "c"}, Script: lookups(Fail(-1)), Want: ofCode(-1), Asked: 4},
		{Name: "fails all keys with 42", Seen: "Kafka, of a key type it does not know", Keys: []string{"a", "b"}, Script: lookups(Fail(42)), Want: ofCode(42), Asked: 3},
		{Name: "fails all share partitions with 31", Seen: "Kafka, without CLUSTER_ACTION", KeyType: kafkawire.KeyTypeShare, Keys: shareKeys,
			Script: lookups(Fail(31)), Want: ofCode(31), Asked: 1},
		{Name: "denies one group", Keys: []string{"a", "secret", "c"}, Script: lookups(failing("secret", 30)), Want: found,
			WantOf: map[string]Outcome{"secret": ofCode(30)}, Asked: 1},
		{Name: "denies a transactional id", KeyType: kafkawire.KeyTypeTransaction, Script: lookups(Fail(53)), Want: ofCode(53), Asked: 1},
		{Name: "has no session once", Seen: "Amazon MSK: kafka-python#2570", Script: lookups(First(1, Fail(34))), Want: found, Asked: 2, Dials: 3},
		{Name: "has a session on the first connection only for a while", Script: lookups(onFirstConnection(Fail(34))), Want: found, Asked: 2, Dials: 3},
		{Name: "never has a session", Script: lookups(Fail(34)), Want: ofCode(34), Asked: 2, Dials: 3},
		{Name: "never has a session, below v4", Release: "2.8.2", Keys: []string{"a", "b"}, Script: lookups(Fail(34)), Want: ofCode(34), Asked: 4, Dials: 3},
		{Name: "fails with 8 and a text", Seen: "Redpanda: audit system failure",
			Script: lookups(Alter(func(row *kafkawire.Coordinator) { row.ErrorCode, row.ErrorMessage = 8, "audit system failure" })), Want: ofCode(8), Asked: 1},
		{Name: "answers 35 for a key type", Seen: "Redpanda", KeyType: kafkawire.KeyTypeShare, Keys: shareKeys[:1], Script: lookups(Fail(35)), Want: ofCode(35), Asked: 1},
		{Name: "is loading for a while", Script: lookups(First(2, Fail(14))), Want: found, Slow: true, Asked: 3},
		{Name: "is loading for ever", Script: lookups(Fail(14)), Want: ofCode(14)},
		{Name: "has no coordinator for a while", Seen: "Kafka that has only just made __consumer_offsets", Script: lookups(First(2, Fail(15))), Want: found, Slow: true, Asked: 3},
		{Name: "has no coordinator for ever", Seen: "Kafka whose offsets.topic.replication.factor exceeds its brokers: kafka-python#784", Script: lookups(Fail(15)), Want: ofCode(15), Asked: 12},
		{Name: "has no coordinator for one key", Keys: []string{"a", "b"}, Seen: "librdkafka#2086", Script: lookups(failing("b", 15)), Want: found,
			WantOf: map[string]Outcome{"b": ofCode(15)}},
		{Name: "says NOT_COORDINATOR", Seen: "shotover#1687", Script: lookups(Fail(16)), Want: ofCode(16)},
		{Name: "says that the group id is invalid", Script: lookups(Fail(24)), Want: ofCode(24), Asked: 1},
		{Name: "says TRANSACTION_ABORTABLE", Script: lookups(Fail(120)), KeyType: kafkawire.KeyTypeTransaction, Want: ofCode(120), Asked: 1},
		{Name: "says code 9999", Script: lookups(Fail(9999)), Want: ofCode(9999), Asked: 1},
		{Name: "says code -7", Script: lookups(Fail(-7)), Want: ofCode(-7), Asked: 1},
		{Name: "says code -32768 below v4", Release: "2.3.1", Script: lookups(Fail(-32768)), Want: ofCode(-32768), Asked: 1},
	}
}

func oddConnections() []OddBroker {
	return []OddBroker{
		{Name: "closes after each answer", Script: lookups(then(Default, Hangup)), Want: found, Pause: 20 * time.Millisecond},
		{Name: "closes while idle", Seen: "connections.max.idle.ms; Azure after 4 min: librdkafka#437", Script: lookups(idle((*Conn).Close)), Want: found, Pause: 300 * time.Millisecond},
		{Name: "resets while idle", Script: lookups(idle((*Conn).Reset)), Want: found, Pause: 300 * time.Millisecond},
		{Name: "resets in place of an answer, once", Script: lookups(First(1, Reset)), Want: found},
		{Name: "resets in place of every answer", Script: lookups(Reset), Want: unreachable},
		{Name: "closes on every third lookup", Script: lookups(everyThird(Hangup)), Keys: []string{"a", "b", "c"}, Release: "2.8.2", Want: found, Slow: true},
		{Name: "accepts and closes", Seen: "a load balancer with nothing behind it", Script: func(s *Stub) { s.OnConnect((*Conn).Close) }, Want: unreachable},
		{Name: "accepts and resets", Script: func(s *Stub) { s.OnConnect((*Conn).Reset) }, Want: unreachable},
		{Name: "accepts and says nothing", Seen: "a paused broker", Script: all(handshakes(Silent), on(kafkawire.APIKeyMetadata, Silent)), Want: tooLate},
		{Name: "refuses connections", Script: (*Stub).Down, Want: unreachable},
	}
}

func oddMetadata() []OddBroker {
	return []OddBroker{
		{Name: "names brokers that cannot be reached", Seen: "advertised.listeners of another network: ruby-kafka#392",
			Script: names(node(1, "127.0.0.1", 1), node(2, "127.0.0.1", 2)), Want: found, Pause: 2 * time.Second},
		{Name: "names itself only", Script: func(s *Stub) { s.SetBrokers(s.Broker()) }, Want: found, Pause: 2 * time.Second},
		{Name: "names no broker", Seen: "a broker that has just started", Script: withMetadata(func(m *kafkawire.MetadataResponse) { m.Brokers = nil }), Want: found, Pause: 2 * time.Second},
		{Name: "names brokers without address", Script: withMetadata(func(m *kafkawire.MetadataResponse) {
			m.Brokers = []kafkawire.MetadataBroker{node(1, "", -1), node(2, "h", 0), node(3, "h", 70000), node(4, "b\xff", 9092), node(5, strings.Repeat("h", 300), 9092)}
		}), Want: found, Pause: 2 * time.Second},
		{Name: "names two nodes with one address", Seen: "confluent-kafka-dotnet#828", Script: twins, Want: found, Pause: 2 * time.Second},
		{Name: "names a node that moves", Seen: "librdkafka#2944", Script: on(kafkawire.APIKeyMetadata, moving()), Want: found, Pause: time.Minute},
		{Name: "names 5,000 brokers", Script: names(crowd(5000)...), Want: found, Pause: time.Second, Hostile: true},
		{Name: "names a rack that is no text", Script: withMetadata(func(m *kafkawire.MetadataResponse) {
			for i := range m.Brokers {
				m.Brokers[i].Rack = "r\xff"
			}
		}), Want: found, Pause: time.Second},
		{Name: "offers no Metadata", Script: func(s *Stub) { s.RemoveAPI(kafkawire.APIKeyMetadata) }, Want: found, Pause: 2 * time.Second},
		{Name: "is silent on Metadata", Script: on(kafkawire.APIKeyMetadata, Silent), Want: found, Slow: true, Pause: 2 * time.Second},
		{Name: "closes on Metadata", Script: on(kafkawire.APIKeyMetadata, Hangup), Want: found, Slow: true, Pause: 2 * time.Second},
		{Name: "answers Metadata with noise", Script: on(kafkawire.APIKeyMetadata, body(filled(1000, 0x11))), Want: found, Slow: true, Pause: 2 * time.Second},
		{Name: "counts 2 billion brokers", Script: on(kafkawire.APIKeyMetadata, body([]byte{0, 0, 0, 0, 0}, rawBytes{}.uvarint(1<<31))), Want: found, Slow: true, Hostile: true, Pause: time.Second},
		{Name: "lists a million topics in Metadata v0", Seen: "Kafka before 0.10 cannot be asked for none", Release: "0.8.2.2",
			Script: on(kafkawire.APIKeyMetadata, manyTopics), Want: found, Slow: true, Hostile: true, Pause: time.Second},
	}
}
