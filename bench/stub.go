package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// stub is a cluster of brokers that cost next to nothing: for what Java must not
// limit. It answers as a warm cluster does, each answer delay after its question
// came; questions on one connection do not wait for one another's delay, as they
// do not on a long line.
type stub struct {
	brokers   []stubBroker
	listeners []net.Listener
	delay     time.Duration
	highest   kafkawire.Version // of FindCoordinator
}

type stubBroker struct {
	coordinator
	// row is what follows the key in a row of an answer of v4 and later.
	row []byte
}

// newStub starts n brokers. perKey makes them brokers that take one key a request,
// as Kafka did before 3.0.
func newStub(n int, delay time.Duration, perKey bool) (*stub, error) {
	s := &stub{delay: delay, highest: kafkawire.Supported(kafkawire.APIKeyFindCoordinator).Max}
	if perKey {
		s.highest = 3
	}
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.close()
			return nil, fmt.Errorf("stub broker: %w", err)
		}
		s.listeners = append(s.listeners, l)
		c := coordinator{node: int32(i + 1), host: "127.0.0.1", port: int32(l.Addr().(*net.TCPAddr).Port)}
		row := binary.BigEndian.AppendUint32(nil, uint32(c.node))
		row = append(append(row, byte(len(c.host)+1)), c.host...)
		row = binary.BigEndian.AppendUint32(row, uint32(c.port))
		s.brokers = append(s.brokers, stubBroker{c, append(row, 0, 0, 1, 0)}) // no error, an empty message, no tags
	}
	for _, l := range s.listeners {
		go s.accept(l)
	}
	return s, nil
}

func (s *stub) close() {
	for _, l := range s.listeners {
		l.Close()
	}
}

func (s *stub) bootstrap() []string {
	var list []string
	for _, l := range s.listeners {
		list = append(list, l.Addr().String())
	}
	return list
}

// find is the broker that coordinates a key.
func (s *stub) find(key []byte) *stubBroker {
	h := uint32(2166136261) // FNV-1a
	for _, c := range key {
		h = (h ^ uint32(c)) * 16777619
	}
	return &s.brokers[h%uint32(len(s.brokers))]
}

func (s *stub) coordinators(keys []string) ([]coordinator, error) {
	list := make([]coordinator, len(keys))
	for i, key := range keys {
		list[i] = s.find([]byte(key)).coordinator
	}
	return list, nil
}

func (s *stub) accept(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		go s.serve(nc)
	}
}

type delayed struct {
	due    time.Time
	answer []byte
}

// serve answers what comes on a connection until it ends.
func (s *stub) serve(nc net.Conn) {
	defer nc.Close()
	var later chan delayed
	if s.delay > 0 {
		later = make(chan delayed, 1<<14)
		defer close(later)
		go writeLater(nc, later)
	}
	in := make([]byte, 64<<10)
	var out []byte
	r, w := 0, 0
	for {
		for w-r < 4 || w-r < 4+int(binary.BigEndian.Uint32(in[r:])) { // a frame is not whole
			if len(out) > 0 {
				if _, err := nc.Write(out); err != nil {
					return
				}
				out = out[:0]
			}
			if r > 0 {
				r, w = 0, copy(in, in[r:w])
			}
			if w == len(in) {
				in = append(in, make([]byte, len(in))...)
			}
			n, err := nc.Read(in[w:])
			if err != nil {
				return
			}
			w += n
		}
		end := r + 4 + int(binary.BigEndian.Uint32(in[r:]))
		var err error
		if s.delay > 0 {
			var answer []byte
			if answer, err = s.answer(nil, in[r+4:end]); err == nil {
				later <- delayed{time.Now().Add(s.delay), answer}
			}
		} else {
			out, err = s.answer(out, in[r+4:end])
		}
		if err != nil {
			return // as Kafka does with what it cannot read
		}
		r = end
	}
}

func writeLater(w io.Writer, later <-chan delayed) {
	for d := range later {
		time.Sleep(time.Until(d.due))
		if _, err := w.Write(d.answer); err != nil {
			for range later { // drained, so that serve does not block
			}
			return
		}
	}
}

// answer appends the frame of the answer to a request.
func (s *stub) answer(dst, frame []byte) ([]byte, error) {
	key, h, body, err := kafkawire.DecodeRequestHeader(frame)
	if err != nil {
		return dst, err
	}
	switch key {
	case kafkawire.APIKeyFindCoordinator:
		if h.Version >= 4 {
			return s.answerBatch(dst, h.CorrelationID, body)
		}
		var req kafkawire.FindCoordinatorRequest
		if err := req.Decode(body, h.Version); err != nil {
			return dst, err
		}
		c := s.find([]byte(req.Keys[0]))
		return kafkawire.AppendResponse(dst, h.CorrelationID, h.Version, &kafkawire.FindCoordinatorResponse{
			Coordinators: []kafkawire.Coordinator{{NodeID: c.node, Host: c.host, Port: c.port}},
		})
	case kafkawire.APIKeyAPIVersions:
		v := min(h.Version, kafkawire.Supported(key).Max)
		return kafkawire.AppendResponse(dst, h.CorrelationID, v, &kafkawire.APIVersionsResponse{APIs: []kafkawire.APIVersionRange{
			{Key: kafkawire.APIKeyMetadata, Min: 0, Max: kafkawire.Supported(kafkawire.APIKeyMetadata).Max},
			{Key: kafkawire.APIKeyFindCoordinator, Min: 0, Max: s.highest},
			{Key: kafkawire.APIKeyAPIVersions, Min: 0, Max: kafkawire.Supported(key).Max},
		}})
	case kafkawire.APIKeyMetadata:
		m := &kafkawire.MetadataResponse{ClusterID: "bench", ControllerID: 1}
		for _, b := range s.brokers {
			m.Brokers = append(m.Brokers, kafkawire.MetadataBroker{NodeID: b.node, Host: b.host, Port: b.port})
		}
		return kafkawire.AppendResponse(dst, h.CorrelationID, h.Version, m)
	default:
		return dst, fmt.Errorf("the stub does not know %v", key)
	}
}

// answerBatch copies each key into its row. The body is a key type, an array of
// strings, tags.
func (s *stub) answerBatch(dst []byte, id int32, body []byte) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(id))
	dst = append(dst, 0, 0, 0, 0, 0) // no tags in the header; throttled for 0 ms
	if len(body) < 2 {
		return dst, io.ErrUnexpectedEOF
	}
	body = body[1:]
	n, used := binary.Uvarint(body)
	dst = append(dst, body[:max(used, 0)]...)
	for ; n > 1; n-- {
		body = body[used:]
		length, size := binary.Uvarint(body)
		used = size + int(length) - 1
		if size <= 0 || length == 0 || used > len(body) {
			return dst, io.ErrUnexpectedEOF
		}
		dst = append(dst, body[:used]...)
		dst = append(dst, s.find(body[size:used]).row...)
	}
	dst = append(dst, 0)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst, nil
}
