package kafkawire

import (
	"encoding/binary"
	"fmt"
)

// NoNode is the node id that stands for no broker: Kafka answers it, with an empty
// host and port -1, where it has no coordinator to name.
const NoNode int32 = -1

// A FindCoordinatorResponse (key 10, v0 to v6) names the coordinator of each key,
// or says why there is none.
//
//	ThrottleTimeMs  int32            v1 and later
//	ErrorCode       int16            v0 to v3
//	ErrorMessage    nullable string  v1 to v3
//	NodeId          int32            v0 to v3
//	Host            string           v0 to v3
//	Port            int32            v0 to v3
//	Coordinators    []Coordinator    v4 and later
//	  Key           string
//	  NodeId        int32
//	  Host          string
//	  Port          int32
//	  ErrorCode     int16
//	  ErrorMessage  nullable string
//	  tagged fields
//	tagged fields                    v3 and later
//
// Response header v0 for v0 to v2, v1 for v3 and later. Below v4 the one answer
// becomes one row with no key.
//
// Source: FindCoordinatorResponse.json; KIP-699 (v4).
type FindCoordinatorResponse struct {
	// ThrottleMillis is for how long the broker holds back further requests.
	ThrottleMillis int32
	// Coordinators are exactly one below v4. From there on they should be one a
	// key, in the order asked, repeated keys repeated; match them by key all the
	// same. Decode writes over the rows of the answer before, where there is room
	// for the new ones: copy out what must outlast it. Its strings are parts of one
	// copy of the whole answer: to keep one for long, clone it, or see DecodeSharing.
	Coordinators []Coordinator
}

// A Coordinator is the answer for one key.
type Coordinator struct {
	// Key that was asked for; "" below v4, unless DecodeSharing knows it.
	Key string
	// NodeID, Host and Port of the broker, as reached over the listener that the
	// request came by. [NoNode], "" and -1 where there is an error.
	NodeID int32
	// Host may be null on the wire, against the schema: librdkafka's mock broker
	// does so on errors. It is read as "".
	Host      string
	Port      int32
	ErrorCode ErrorCode
	// ErrorMessage is not for people: on success brokers send "NONE" (v1 to v3),
	// "" or null, and on most errors of v4 and later "". Null is read as "", and
	// "" is written as "".
	ErrorMessage string
}

// minCoordinator is the fewest bytes a row takes: three empty strings, three
// numbers, no tagged fields.
const minCoordinator = 1 + 4 + 1 + 4 + 2 + 1 + 1

// APIKey returns [APIKeyFindCoordinator].
func (*FindCoordinatorResponse) APIKey() APIKey { return APIKeyFindCoordinator }

func (m *FindCoordinatorResponse) check(v Version) error {
	c := checker{message: "FindCoordinatorResponse", version: v}
	c.spoken(APIKeyFindCoordinator)
	if v < firstBatched && len(m.Coordinators) != 1 {
		c.refuse("", fmt.Errorf("%w: %d coordinators, but below v%d an answer carries exactly one", ErrKeyCount, len(m.Coordinators), firstBatched))
	}
	for i := range m.Coordinators {
		row := &m.Coordinators[i]
		c.string("Key", row.Key)
		c.string("Host", row.Host)
		c.string("ErrorMessage", row.ErrorMessage)
	}
	return c.err
}

// Encode appends the body; see [Request]. What a version has no room for is left
// out: the key below v4, the message and the throttle time in v0.
func (m *FindCoordinatorResponse) Encode(dst []byte, v Version) ([]byte, error) {
	if err := m.check(v); err != nil {
		return dst, err
	}
	w := writeBody(dst, APIKeyFindCoordinator, v)
	if v >= 1 {
		w.int32(m.ThrottleMillis)
	}
	if v < firstBatched {
		m.Coordinators[0].encodeSingle(&w, v)
	} else {
		w.array(len(m.Coordinators))
		for i := range m.Coordinators {
			m.Coordinators[i].encodeRow(&w)
		}
	}
	w.tags()
	return w.dst, nil
}

func (row *Coordinator) encodeSingle(w *writer, v Version) {
	w.int16(int16(row.ErrorCode))
	if v >= 1 {
		w.string(row.ErrorMessage)
	}
	w.int32(row.NodeID)
	w.string(row.Host)
	w.int32(row.Port)
}

func (row *Coordinator) encodeRow(w *writer) {
	w.string(row.Key)
	w.int32(row.NodeID)
	w.string(row.Host)
	w.int32(row.Port)
	w.int16(int16(row.ErrorCode))
	w.string(row.ErrorMessage)
	w.tags()
}

// Decode fills the message from a body; see [Request]. It allocates twice, however
// many rows there are, and once where it can reuse the room of Coordinators.
func (m *FindCoordinatorResponse) Decode(src []byte, v Version) error {
	return m.decode(src, v, shared{})
}

// DecodeSharing is Decode for the client that asked for the keys, which has nearly
// every string of the answer already: the row that stands in the place of keys[i]
// and answers it gets that very string, and rows that name one host get it out of
// hosts. Below v4, where an answer does not repeat the key, Key is keys[0]. More than two
// rows a key, and one, are an error.
//
// It allocates the rows, unless Coordinators has room for them; each host that is
// new; and one copy of the whole answer, but only if a row has an ErrorMessage, or a
// Key that was not asked for in its place, which then are parts of it. All other
// strings keep nothing of the answer in memory.
func (m *FindCoordinatorResponse) DecodeSharing(src []byte, v Version, keys []string, hosts *Hosts) error {
	return m.decode(src, v, shared{keys, hosts})
}

func (m *FindCoordinatorResponse) decode(src []byte, v Version, s shared) error {
	r := reader{src: src, message: "FindCoordinatorResponse", version: v}
	r.body(APIKeyFindCoordinator)
	var d FindCoordinatorResponse
	if v >= 1 {
		d.ThrottleMillis = r.int32("ThrottleTimeMs")
	}
	if v < firstBatched {
		d.Coordinators = room(m.Coordinators, 1)
		d.Coordinators[0].decodeSingle(&r, v, s)
	} else {
		d.Coordinators = decodeCoordinators(&r, m.Coordinators, s)
	}
	r.tags()
	return decoded(m, d, r.end())
}

// room is n rows, those of an older answer where they are enough. Each is written
// over in full by who asks for them.
func room(old []Coordinator, n int) []Coordinator {
	if n > cap(old) {
		return make([]Coordinator, n)
	}
	if n < len(old) {
		clear(old[n:]) // or it would keep older answers in memory
	}
	return old[:n]
}

func decodeCoordinators(r *reader, old []Coordinator, s shared) []Coordinator {
	start := r.off
	n := r.array("Coordinators", minCoordinator)
	if s.keys != nil && n > mostRows(len(s.keys)) {
		r.off = start
		r.fail("Coordinators", fmt.Errorf("%w: %d rows for %d keys", ErrInvalidLength, n, len(s.keys)))
	}
	if n == 0 || r.err != nil {
		return nil
	}
	rows := room(old, n)
	r.enter("Coordinators")
	for i := decodePlain(r, rows, 0, s); i < n && r.err == nil; i = decodePlain(r, rows, i, s) {
		r.at(i)
		rows[i].decodeRow(r, i, s)
		i++
	}
	r.leave()
	return rows
}

// mostRows is how many rows DecodeSharing takes. There should be one a key; decoded, rows
// take several times their bytes, and a peer that means ill sends as many as fit.
func mostRows(keys int) int { return 2*keys + 1 }

// decodePlain reads rows, from the one at i on, as long as they are as nearly every
// row is: strings below 127 bytes, no null but for the message, and no tagged
// fields. It returns the index of the next one, of which it has read nothing and
// which it leaves to decodeRow. To check the bytes of a row four times only makes a
// large answer several times cheaper.
func decodePlain(r *reader, rows []Coordinator, i int, s shared) int {
	const short = 1<<7 - 1 // the compact lengths of one byte, which is length+1
	src, key := r.src, r.off
	for ; i < len(rows) && key < len(src); i++ {
		k := int(src[key])
		host := key + k + 4
		if host >= len(src) {
			break
		}
		h := int(src[host])
		message := host + h + 4 + 2
		if message >= len(src) {
			break
		}
		m := int(src[message])
		tags := message + max(m, 1)
		if tags >= len(src) || src[tags] != 0 || uint(k-1) >= short || uint(h-1) >= short || m > short {
			break
		}
		row := &rows[i]
		row.Key = s.key(r, i, key+1, key+k)
		row.NodeID = int32(binary.BigEndian.Uint32(src[key+k:]))
		row.Host = s.host(r, row.NodeID, host+1, host+h)
		row.Port = int32(binary.BigEndian.Uint32(src[host+h:]))
		row.ErrorCode = ErrorCode(binary.BigEndian.Uint16(src[host+h+4:]))
		if m > 1 {
			row.ErrorMessage = r.all()[message+1 : tags]
		} else if row.ErrorMessage != "" {
			row.ErrorMessage = ""
		}
		key = tags + 1
	}
	r.off = key
	return i
}

func (row *Coordinator) decodeSingle(r *reader, v Version, s shared) {
	*row = Coordinator{Key: s.firstKey()}
	row.ErrorCode = ErrorCode(r.int16("ErrorCode"))
	if v >= 1 {
		row.ErrorMessage = r.nullableString("ErrorMessage")
	}
	row.NodeID = r.int32("NodeId")
	row.Host = s.nextHost(r, row.NodeID)
	row.Port = r.int32("Port")
}

func (row *Coordinator) decodeRow(r *reader, i int, s shared) {
	row.Key = s.nextKey(r, i)
	row.NodeID = r.int32("NodeId")
	row.Host = s.nextHost(r, row.NodeID)
	row.Port = r.int32("Port")
	row.ErrorCode = ErrorCode(r.int16("ErrorCode"))
	row.ErrorMessage = r.nullableString("ErrorMessage")
	r.tags()
}
