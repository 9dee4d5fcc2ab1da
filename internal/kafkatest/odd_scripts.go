package kafkatest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// What the odd brokers are put together from. See handlers.go for the common ones.

// lookups makes h the answer to every FindCoordinator request.
func lookups(h Handler) func(*Stub) { return on(kafkawire.APIKeyFindCoordinator, h) }

// handshakes makes h the answer to every ApiVersions request.
func handshakes(h Handler) func(*Stub) { return on(kafkawire.APIKeyAPIVersions, h) }

func on(key kafkawire.APIKey, h Handler) func(*Stub) { return func(s *Stub) { s.On(key, h) } }

// all runs several scripts.
func all(scripts ...func(*Stub)) func(*Stub) {
	return func(s *Stub) {
		for _, script := range scripts {
			script(s)
		}
	}
}

func speaks(key kafkawire.APIKey, lowest, highest kafkawire.Version) func(*Stub) {
	return func(s *Stub) { s.SetAPI(key, kafkawire.VersionRange{Min: lowest, Max: highest}) }
}

func greets(text string) func(*Stub) {
	return func(s *Stub) { s.OnConnect(func(c *Conn) { c.Write([]byte(text)) }) }
}

func slowly(d time.Duration) func(*Stub) {
	h := After(d, Default)
	return all(handshakes(h), lookups(h), on(kafkawire.APIKeyMetadata, h))
}

// then has both answer the same request.
func then(first, second Handler) Handler {
	return func(r *Request) {
		first(r)
		second(r)
	}
}

// above has h answer versions above v.
func above(v kafkawire.Version, h Handler) Handler {
	return func(r *Request) {
		if r.Version > v {
			h(r)
			return
		}
		Default(r)
	}
}

// defaultFrame is the whole answer of Default.
func defaultFrame(r *Request) []byte {
	frame, err := kafkawire.AppendResponse(nil, r.CorrelationID, r.Version, r.DefaultAnswer())
	if err != nil {
		panic(err)
	}
	return frame
}

func trickle(r *Request) {
	for _, b := range defaultFrame(r) {
		r.Conn.Write([]byte{b})
		if !r.Conn.Sleep(200 * time.Millisecond) {
			return
		}
	}
}

// half sends half an answer, and then h ends it.
func half(h Handler) Handler {
	return func(r *Request) {
		frame := defaultFrame(r)
		r.Conn.Write(frame[:len(frame)/2])
		h(r)
	}
}

// inPairs answers two pipelined requests in one write, in their order or swapped.
func inPairs(swapped bool) Handler {
	return func(r *Request) {
		r.Conn.Sleep(5 * time.Millisecond)
		select {
		case next := <-r.Conn.queue:
			if swapped {
				r, next = next, r
			}
			r.Conn.Cork()
			Default(r)
			Default(next)
			r.Conn.Uncork()
		default:
			Default(r)
		}
	}
}

// throttled says that it throttles, and reads nothing for a while after its answer.
func throttled(millis int32, mute time.Duration) Handler {
	return func(r *Request) {
		answer := r.DefaultAnswer().(*kafkawire.FindCoordinatorResponse)
		answer.ThrottleMillis = millis
		r.Reply(answer)
		r.Conn.Sleep(mute)
	}
}

func withID(f func(int32) int32) Handler {
	return func(r *Request) { r.ReplyAs(f(r.CorrelationID), r.Version, r.DefaultAnswer()) }
}

func zeroIDOnErrors(r *Request) {
	r.ReplyAs(0, r.Version, &kafkawire.FindCoordinatorResponse{Coordinators: []kafkawire.Coordinator{NoCoordinator(15)}})
}

// body answers with the right correlation id and then those bytes.
func body(parts ...[]byte) Handler {
	return func(r *Request) {
		r.Conn.Write(rawFrame(r.CorrelationID, slices.Concat(parts...)))
	}
}

func filled(n int, b byte) []byte { return slices.Repeat([]byte{b}, n) }

func tlsAlert(r *Request) {
	r.Conn.Write([]byte{0x15, 3, 3, 0, 2, 2, 10}) // fatal, unexpected_message
	r.Conn.Close()
}

func webPage(r *Request) {
	r.Conn.Write([]byte("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"))
	r.Conn.Close()
}

// reorder changes the rows of an answer as a whole.
func reorder(f func([]kafkawire.Coordinator) []kafkawire.Coordinator) Handler {
	return func(r *Request) {
		answer := r.DefaultAnswer().(*kafkawire.FindCoordinatorResponse)
		answer.Coordinators = f(answer.Coordinators)
		r.Reply(answer)
	}
}

func reversed(rows []kafkawire.Coordinator) []kafkawire.Coordinator {
	slices.Reverse(rows)
	return rows
}

func without(key string) func([]kafkawire.Coordinator) []kafkawire.Coordinator {
	return func(rows []kafkawire.Coordinator) []kafkawire.Coordinator {
		return slices.DeleteFunc(rows, func(row kafkawire.Coordinator) bool { return row.Key == key })
	}
}

func and(key string) func([]kafkawire.Coordinator) []kafkawire.Coordinator {
	return func(rows []kafkawire.Coordinator) []kafkawire.Coordinator {
		return slices.Insert(rows, 0, kafkawire.Coordinator{Key: key, NodeID: 9, Host: "wrong", Port: 9})
	}
}

func distinct(rows []kafkawire.Coordinator) []kafkawire.Coordinator {
	seen := make(map[string]bool)
	return slices.DeleteFunc(rows, func(row kafkawire.Coordinator) bool {
		again := seen[row.Key]
		seen[row.Key] = true
		return again
	})
}

func doubled(rows []kafkawire.Coordinator) []kafkawire.Coordinator { return slices.Repeat(rows, 2) }

func none([]kafkawire.Coordinator) []kafkawire.Coordinator { return nil }

// inVersion answers in the layout of another version, with the header to it.
func inVersion(v kafkawire.Version) Handler {
	return func(r *Request) { r.ReplyAs(r.CorrelationID, v, r.DefaultAnswer()) }
}

// Refusals of ApiVersions: what they list.
func noAPIs(m *kafkawire.APIVersionsResponse) { m.APIs = nil }

func allAPIs(*kafkawire.APIVersionsResponse) {}

func onlyAPIVersions(m *kafkawire.APIVersionsResponse) {
	m.APIs = slices.DeleteFunc(m.APIs, func(a kafkawire.APIVersionRange) bool { return a.Key != kafkawire.APIKeyAPIVersions })
}

// refuse answers versions of ApiVersions above highest with code 35.
func refuse(highest kafkawire.Version, list func(*kafkawire.APIVersionsResponse)) Handler {
	return above(highest, func(r *Request) {
		answer := r.Conn.stub.apiVersions(true).(*kafkawire.APIVersionsResponse)
		answer.ErrorCode = kafkawire.ErrUnsupportedVersion
		list(answer)
		r.ReplyAs(r.CorrelationID, 0, answer)
	})
}

func failHandshake(code kafkawire.ErrorCode) Handler {
	return func(r *Request) { r.Reply(&kafkawire.APIVersionsResponse{ErrorCode: code}) }
}

// withoutThrottle refuses v3 and then answers v2 in the layout of v0.
func withoutThrottle(r *Request) {
	answer := r.Conn.stub.apiVersions(true).(*kafkawire.APIVersionsResponse)
	if r.Version > 2 {
		answer.ErrorCode = kafkawire.ErrUnsupportedVersion
	}
	r.ReplyAs(r.CorrelationID, 0, answer)
}

// wrongHeader puts the tag section of response header v1 before the list.
func wrongHeader(r *Request) {
	frame := defaultFrame(r)
	r.Conn.Write(rawFrame(r.CorrelationID, slices.Concat([]byte{0}, frame[8:])))
}

// taggedHandshake has unknown tags in each struct of ApiVersions v3 and later.
func taggedHandshake(r *Request) {
	if r.Version < 3 {
		Default(r)
		return
	}
	list := r.Conn.stub.apiVersions(true).(*kafkawire.APIVersionsResponse)
	b := rawBytes{}.int16(0).uvarint(uint64(len(list.APIs)) + 1)
	for _, a := range list.APIs {
		b = b.int16(int16(a.Key)).int16(int16(a.Min)).int16(int16(a.Max)).tags()
	}
	r.Conn.Write(rawFrame(r.CorrelationID, b.int32(0).tags()))
}

// tagged has unknown tags in the header, each row, and the body.
func tagged(r *Request) {
	b := rawBytes{}.tags().int32(0).uvarint(uint64(len(r.Keys)) + 1)
	for _, key := range r.Keys {
		b = b.row(r.Conn.stub.row(r, key)).tags()
	}
	r.Conn.Write(rawFrame(r.CorrelationID, b.tags()))
}

// v4 is a good answer of v4 or later but for its end, where the tags stand.
func v4(end rawBytes) Handler {
	return func(r *Request) {
		b := rawBytes{0}.int32(0).uvarint(uint64(len(r.Keys)) + 1)
		for _, key := range r.Keys {
			b = append(b.row(r.Conn.stub.row(r, key)), 0)
		}
		r.Conn.Write(rawFrame(r.CorrelationID, append(b, end...)))
	}
}

// nullHost answers with a host that is null, which the schema forbids.
func nullHost(code int16) Handler {
	return func(r *Request) {
		b := rawBytes{0}.int32(0).uvarint(uint64(len(r.Keys)) + 1)
		for _, key := range r.Keys {
			b = b.compact(key).int32(-1)
			b = append(b, 0) // null
			b = append(b.int32(-1).int16(code).compact(""), 0)
		}
		r.Conn.Write(rawFrame(r.CorrelationID, append(b, 0)))
	}
}

// failing fails one key.
func failing(key string, code kafkawire.ErrorCode) Handler {
	return Alter(func(row *kafkawire.Coordinator) {
		if row.Key == key {
			*row = NoCoordinator(code)
			row.Key = key
		}
	})
}

// allForOne fails every key of a request that has the last of shareKeys in it.
func allForOne(code kafkawire.ErrorCode) Handler {
	fail := Fail(code)
	return func(r *Request) {
		if slices.Contains(r.Keys, shareKeys[2]) {
			fail(r)
			return
		}
		Default(r)
	}
}

func onFirstConnection(h Handler) Handler {
	return func(r *Request) {
		if r.Conn.ID == 1 {
			h(r)
			return
		}
		Default(r)
	}
}

func everyThird(h Handler) Handler {
	var n atomic.Int64
	return func(r *Request) {
		if n.Add(1)%3 == 0 {
			h(r)
			return
		}
		Default(r)
	}
}

func idle(end func(*Conn)) Handler {
	return func(r *Request) {
		Default(r)
		r.Conn.Sleep(100 * time.Millisecond)
		end(r.Conn)
	}
}

// balancer stands for two brokers behind one address: connections in turn come to
// one that offers FindCoordinator v3 and one of the newest release.
func balancer(s *Stub) {
	old := func(r *Request) bool { return r.Conn.ID%2 == 1 }
	s.On(kafkawire.APIKeyAPIVersions, func(r *Request) {
		answer := r.Conn.stub.apiVersions(true).(*kafkawire.APIVersionsResponse)
		for i := range answer.APIs {
			if old(r) && answer.APIs[i].Key == kafkawire.APIKeyFindCoordinator {
				answer.APIs[i].Max = 3
			}
		}
		r.Reply(answer)
	})
	s.On(kafkawire.APIKeyFindCoordinator, func(r *Request) {
		if old(r) != (r.Version <= 3) {
			s.t.Errorf("v%d was sent on connection %d", r.Version, r.Conn.ID)
		}
		Default(r)
		if r.Conn.ID < 4 {
			r.Conn.Close() // and the next connection comes to the other one
		}
	})
}

func node(id int32, host string, port int32) kafkawire.MetadataBroker {
	return kafkawire.MetadataBroker{NodeID: id, Host: host, Port: port}
}

// crowd is n brokers at addresses where nothing listens.
func crowd(n int) []kafkawire.MetadataBroker {
	const discard = 9 // a port that nobody uses any more (RFC 863)
	list := make([]kafkawire.MetadataBroker, n)
	for i := range list {
		list[i] = node(int32(i), fmt.Sprintf("127.9.%d.%d", i/250, i%250+1), discard)
	}
	return list
}

func names(brokers ...kafkawire.MetadataBroker) func(*Stub) {
	return func(s *Stub) { s.SetBrokers(brokers...) }
}

func twins(s *Stub) {
	a, b := s.Broker(), s.Broker()
	b.NodeID++
	s.SetBrokers(a, b)
}

func withMetadata(f func(*kafkawire.MetadataResponse)) func(*Stub) {
	return on(kafkawire.APIKeyMetadata, func(r *Request) {
		answer := r.DefaultAnswer().(*kafkawire.MetadataResponse)
		f(answer)
		r.Reply(answer)
	})
}

// moving names its node at an address where nothing listens at first.
func moving() Handler {
	var asked atomic.Int64
	return func(r *Request) {
		answer := r.DefaultAnswer().(*kafkawire.MetadataResponse)
		if asked.Add(1) == 1 {
			answer.Brokers = []kafkawire.MetadataBroker{node(r.Conn.stub.node, "127.9.0.1", 9)}
		}
		r.Reply(answer)
	}
}

// Answers that aim at memory are written in pieces, so that they cost the stub little.
const piece = 32 << 10

// many is n keys of a usual length.
func many(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("consumer-group-%05d", i)
	}
	return keys
}

// manyRows answers with about as many rows as are taken (128 times the request), as
// small as can be, none for a key that was asked.
func manyRows(r *Request) {
	const row = 17
	n := 128 * len(r.Frame) / row
	head := rawBytes{0}.int32(0).uvarint(uint64(n) + 1)
	r.announce(len(head) + n*row + 1)
	r.Conn.Write(head)
	buf := make(rawBytes, 0, piece+row)
	for i := range n {
		key := string([]byte{byte(i >> 16), byte(i >> 8), byte(i)})
		buf = append(buf.row(kafkawire.Coordinator{Key: key, Port: 1}), 0)
		if len(buf) >= piece && !r.flush(&buf) {
			return
		}
	}
	buf = append(buf, 0)
	r.flush(&buf)
}

// manyTopics is a Metadata v0 answer with a million topics of no name.
func manyTopics(r *Request) {
	const topic, n = 8, 1_000_000
	self := r.Conn.stub.Broker()
	head := rawBytes{}.int32(1).int32(self.NodeID).string(self.Host).int32(self.Port).int32(n)
	r.announce(len(head) + n*topic)
	r.Conn.Write(head)
	r.zeros(n * topic)
}

// endless announces what is just below the largest frame, and does send it.
func endless(r *Request) {
	const size = 16<<20 - 100
	r.announce(size)
	r.zeros(size)
}

// heavySingles answers as it should, with 120 KiB of an unknown tag at the end.
func heavySingles(r *Request) {
	const heavy = 120 << 10
	row := r.Conn.stub.row(r, r.Keys[0])
	b := rawBytes{0}.int32(0).int16(int16(row.ErrorCode)).compact("").int32(row.NodeID).compact(row.Host).int32(row.Port)
	b = b.uvarint(1).uvarint(77).uvarint(heavy)
	r.announce(len(b) + heavy)
	r.Conn.Write(b)
	r.zeros(heavy)
}

// announce sends the size of a frame with a body of n bytes, and its correlation id.
func (r *Request) announce(n int) { r.Conn.Write(rawFrame(r.CorrelationID, nil).resized(n + 4)) }

func (r *Request) zeros(n int) {
	for buf := make([]byte, piece); n > 0; n -= len(buf) {
		b := buf[:min(n, piece)]
		if !r.alive() {
			return
		}
		r.Conn.Write(b)
	}
}

// flush writes what is in buf, and reports whether anybody still reads.
func (r *Request) flush(buf *rawBytes) bool {
	r.Conn.Write(*buf)
	*buf = (*buf)[:0]
	return r.alive()
}

func (r *Request) alive() bool {
	select {
	case <-r.Conn.Done():
		return false
	default:
		return true
	}
}

// rawBytes appends Kafka's primitive types, right or wrong.
type rawBytes []byte

func rawFrame(correlationID int32, body []byte) rawBytes {
	b := rawBytes{}.int32(int32(len(body)) + 4).int32(correlationID)
	return append(b, body...)
}

// resized is a frame that announces another size.
func (b rawBytes) resized(n int) rawBytes {
	binary.BigEndian.PutUint32(b, uint32(n))
	return b
}

func (b rawBytes) int16(n int16) rawBytes { return binary.BigEndian.AppendUint16(b, uint16(n)) }

func (b rawBytes) int32(n int32) rawBytes { return binary.BigEndian.AppendUint32(b, uint32(n)) }

func (b rawBytes) uvarint(n uint64) rawBytes { return binary.AppendUvarint(b, n) }

func (b rawBytes) string(s string) rawBytes { return appendRawString(b, s) }

func (b rawBytes) compact(s string) rawBytes { return appendRawCompact(b, s) }

// tags is a section of two unknown tags, one of them empty.
func (b rawBytes) tags() rawBytes {
	return append(b.uvarint(2).uvarint(100).uvarint(0).uvarint(300).uvarint(3), "new"...)
}

// row is a FindCoordinator row of v4 and later, without its tags.
func (b rawBytes) row(row kafkawire.Coordinator) rawBytes {
	return b.compact(row.Key).int32(row.NodeID).compact(row.Host).int32(row.Port).int16(int16(row.ErrorCode)).compact(row.ErrorMessage)
}
