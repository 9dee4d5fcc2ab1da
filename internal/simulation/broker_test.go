package simulation

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

// A broker plays one broker of the plan: a stub that answers what the truth says at
// that moment, late and wrong as its spells want.
type broker struct {
	w    *world
	plan *brokerPlan
	stub *kafkatest.Stub

	// mistaken says that the pool took the broker for one without ApiVersions before
	// it ever heard its answer; known, that it has heard it.
	mistaken, known atomic.Bool

	mu       sync.Mutex
	sessions map[*kafkatest.Conn]*session
}

// A session is a connection to the broker. Answers leave in order, each after its
// time on the wire.
type session struct {
	conn  *kafkatest.Conn
	asked int // requests so far
	// negotiated says that ApiVersions came by it. Without, the pool has taken the
	// broker for one of before 0.10, and tries v0.
	negotiated bool
	out        chan delivery
}

type delivery struct {
	due  time.Duration
	send func(*kafkatest.Conn)
}

func (w *world) startBroker(p *brokerPlan) *broker {
	b := &broker{w: w, plan: p, sessions: map[*kafkatest.Conn]*session{}}
	b.stub = kafkatest.NewStub(w.t, kafkatest.StubConfig{Node: p.node, Network: w.network, Addr: p.addr()})
	b.stub.OnConnect(b.connected)
	for _, key := range []kafkawire.APIKey{kafkawire.APIKeyAPIVersions, kafkawire.APIKeyMetadata, kafkawire.APIKeyFindCoordinator} {
		b.stub.On(key, b.serve)
	}
	w.background.Add(1)
	go b.live()
	return b
}

func (p *brokerPlan) addr() string { return fmt.Sprintf("broker-%d:9092", p.node) }

// live goes through the spells that concern the broker as a whole.
func (b *broker) live() {
	defer b.w.background.Done()
	for _, s := range b.plan.spells {
		b.w.sleepUntil(s.from)
		b.w.trace("broker %d: %s for %v", b.plan.node, faultNames[s.fault], round(s.to-s.from))
		switch s.fault {
		case down:
			b.stub.Down()
		case unreachable:
			b.w.network.SetSilent(b.plan.addr(), true)
		case disconnects:
			b.stub.Disconnect()
		default:
		}
		b.w.sleepUntil(s.to)
		switch s.fault {
		case down:
			b.stub.Up()
		case unreachable:
			b.w.network.SetSilent(b.plan.addr(), false)
		default:
		}
	}
}

func (b *broker) connected(c *kafkatest.Conn) {
	s := &session{conn: c, out: make(chan delivery, 1<<14)}
	b.mu.Lock()
	b.sessions[c] = s
	b.mu.Unlock()
	b.w.background.Add(1)
	go func() {
		defer b.w.background.Done()
		s.deliver(b.w)
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.sessions, c)
	}()
}

func (s *session) deliver(w *world) {
	for {
		select {
		case d := <-s.out:
			if !s.conn.Sleep(d.due - w.now()) {
				return
			}
			d.send(s.conn)
		case <-s.conn.Done():
			return
		}
	}
}

func (b *broker) session(c *kafkatest.Conn) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[c]
}

// random is what the seed decides for one request: by its number on its connection,
// and the connection's number at its broker.
func (b *broker) random(connection, request int) *rand.Rand {
	return rand.New(rand.NewPCG(b.w.plan.seed, uint64(b.plan.node)<<40|uint64(connection)<<20|uint64(request)))
}

// spell is what is wrong now with a request, if anything.
func (b *broker) spell(r *rand.Rand) (fault, time.Duration) {
	now := b.w.now()
	for _, s := range b.plan.spells {
		if s.contains(now) && odds(r, s.odds) {
			return s.fault, s.to - now
		}
	}
	return faults, 0
}

// serve handles one request; those behind it on the connection wait, as in Kafka.
func (b *broker) serve(r *kafkatest.Request) {
	s := b.session(r.Conn)
	if s == nil {
		return // the connection has ended
	}
	s.asked++
	random := b.random(r.Conn.ID, s.asked)
	b.observe(r, s)
	b.inspect(r, s)
	wrong, left := b.spell(random)
	if wrong == paused && !r.Conn.Sleep(left) || !r.Conn.Sleep(b.plan.service) {
		return
	}
	wire := 2 * b.plan.wire // there and back
	if wrong == slow {
		wire += between(random, 200*time.Millisecond, 3*time.Second)
	}
	send := b.reply(r, wrong, random)
	if send == nil {
		return
	}
	select {
	case s.out <- delivery{b.w.now() + wire, send}:
	case <-r.Conn.Done():
	}
}

// observe follows what the pool knows of the broker.
func (b *broker) observe(r *kafkatest.Request, s *session) {
	switch {
	case r.Key == kafkawire.APIKeyAPIVersions:
		s.negotiated = true
	case s.negotiated:
		b.known.Store(true) // or it would not go on
	case !b.known.Load():
		b.mistaken.Store(true)
	}
}

// reply decides what is sent, and when it is not the answer, what else.
func (b *broker) reply(r *kafkatest.Request, wrong fault, random *rand.Rand) func(*kafkatest.Conn) {
	switch wrong {
	case silent, unreachable, down:
		return nil
	case resets:
		return (*kafkatest.Conn).Reset
	case halfClosed:
		return (*kafkatest.Conn).CloseWrite
	case garbage:
		bytes := junk(random)
		return func(c *kafkatest.Conn) { c.Write(bytes) }
	case sullen:
		if r.Key == kafkawire.APIKeyAPIVersions {
			return (*kafkatest.Conn).Close
		}
	}
	answer, version, speaks := b.answer(r, wrong, random)
	if answer == nil {
		if speaks {
			return (*kafkatest.Conn).Close // Kafka's answer to what it does not understand
		}
		return nil
	}
	id := r.CorrelationID
	if wrong == wrongID {
		id += pick[int32](random, -100_000, 1, 1000) // and not to 0, which 0.8.2 may send
	}
	frame, err := kafkawire.AppendResponse(nil, id, version, answer)
	if err != nil {
		b.w.violate("the simulation is wrong: broker %d cannot encode %v v%d: %v", b.plan.node, r.Key, version, err)
		return nil
	}
	return send(frame, wrong, random)
}

// send is how the bytes of an answer leave.
func send(frame []byte, wrong fault, random *rand.Rand) func(*kafkatest.Conn) {
	switch wrong {
	case cutShort:
		part, ends := frame[:1+random.IntN(len(frame)-1)], odds(random, 0.5)
		return func(c *kafkatest.Conn) {
			c.Write(part)
			if ends {
				c.Close()
			}
			<-c.Done() // what came later would be taken for the rest
		}
	case shrunk:
		part := frame[:8+random.IntN(len(frame)-8)]
		binary.BigEndian.PutUint32(part, uint32(len(part)-4))
		return func(c *kafkatest.Conn) { c.Write(part) }
	case splits:
		piece, pause := 1+random.IntN(len(frame)), between(random, 0, 10*time.Millisecond)
		piece = max(piece, len(frame)/20)
		return func(c *kafkatest.Conn) {
			for len(frame) > 0 {
				n := min(piece, len(frame))
				c.Write(frame[:n])
				frame = frame[n:]
				if !c.Sleep(pause) {
					return
				}
			}
		}
	case twice:
		return func(c *kafkatest.Conn) { c.Write(append(frame[:len(frame):len(frame)], frame...)) }
	default:
		return func(c *kafkatest.Conn) { c.Write(frame) }
	}
}

func junk(r *rand.Rand) []byte {
	random := make([]byte, 1+r.IntN(100))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	return pick(r,
		[]byte("HTTP/1.1 502 Bad Gateway\r\n\r\n"),
		[]byte{0x15, 0x03, 0x01, 0, 2, 2, 50}, // a TLS alert
		[]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		[]byte{0x00, 0x7f, 0xff, 0xff, 0, 0, 0, 1}, // a frame of 8 MiB that does not come
		random)
}

// answer is what the broker would say. With none it closes, or, if it does not even
// speak, leaves the client waiting.
func (b *broker) answer(r *kafkatest.Request, wrong fault, random *rand.Rand) (answer kafkawire.Response, v kafkawire.Version, speaks bool) {
	switch r.Key {
	case kafkawire.APIKeyAPIVersions:
		switch b.plan.generation {
		case closes:
			return nil, 0, true
		case neverSays:
			return nil, 0, false
		}
		answer, v = b.apiList(r.Version)
		return answer, v, true
	case kafkawire.APIKeyMetadata:
		if r.Version > b.plan.metadata {
			return nil, 0, true
		}
		return b.view(), r.Version, true
	case kafkawire.APIKeyFindCoordinator:
		if b.plan.generation == controller || r.Version < b.plan.find.Min || r.Version > b.plan.find.Max {
			return nil, 0, true
		}
		return b.coordinators(r, wrong, random), r.Version, true
	}
	return nil, 0, true
}

// apiList answers ApiVersions; nil closes.
func (b *broker) apiList(asked kafkawire.Version) (kafkawire.Response, kafkawire.Version) {
	row := func(key kafkawire.APIKey, low, high kafkawire.Version) kafkawire.APIVersionRange {
		return kafkawire.APIVersionRange{Key: key, Min: low, Max: high}
	}
	own := row(kafkawire.APIKeyAPIVersions, 0, b.plan.apiVersions)
	list := &kafkawire.APIVersionsResponse{APIs: []kafkawire.APIVersionRange{own}}
	if b.plan.metadata >= 0 {
		list.APIs = append(list.APIs, row(kafkawire.APIKeyMetadata, 0, b.plan.metadata))
	}
	if b.plan.generation != controller {
		list.APIs = append(list.APIs, row(kafkawire.APIKeyFindCoordinator, b.plan.find.Min, b.plan.find.Max))
	}
	if asked <= b.plan.apiVersions {
		return list, asked
	}
	list.ErrorCode = kafkawire.ErrUnsupportedVersion
	switch b.plan.generation {
	case resetsNewer:
		return nil, 0
	case emptyRefuse:
		list.APIs = nil
	case fullRefuse:
	default:
		list.APIs = list.APIs[:1]
	}
	return list, 0
}

// view is what Metadata names: the brokers that are up.
func (b *broker) view() *kafkawire.MetadataResponse {
	answer := &kafkawire.MetadataResponse{ClusterID: "simulated", ControllerID: b.plan.node}
	if b.w.plan.advertised == advertiseNothing {
		return answer
	}
	for _, other := range b.w.plan.brokers {
		if s := other.spellAt(b.w.now()); s != nil && s.fault == down {
			continue
		}
		m := kafkawire.MetadataBroker{NodeID: other.node, Host: fmt.Sprintf("broker-%d", other.node), Port: 9092}
		if b.w.plan.advertised != advertiseReal {
			m.Host = "elsewhere-" + m.Host
		}
		answer.Brokers = append(answer.Brokers, m)
	}
	return answer
}

func (p *brokerPlan) spellAt(now time.Duration) *spell {
	for i := range p.spells {
		if p.spells[i].contains(now) {
			return &p.spells[i]
		}
	}
	return nil
}

// coordinators answers FindCoordinator from the truth of this moment.
func (b *broker) coordinators(r *kafkatest.Request, wrong fault, random *rand.Rand) *kafkawire.FindCoordinatorResponse {
	e := b.w.record(event{broker: b.plan.node, at: b.w.now(), written: b.w.linkOf(r.Conn.RemoteAddr().String()).writtenAt(r.CorrelationID), lie: wrong == wrongID})
	rows := make([]kafkawire.Coordinator, len(r.Keys), len(r.Keys)+3)
	for i, key := range r.Keys {
		rows[i] = b.row(r, key, e)
	}
	b.spoil(rows, wrong, random)
	if r.Version < 4 {
		rows[0].Key = ""
		return &kafkawire.FindCoordinatorResponse{Coordinators: rows}
	}
	switch wrong {
	case lossy:
		if rows[0].ErrorCode == kafkawire.ErrInvalidRequest {
			break // one key fails all or some are left out, but not both at once
		}
		random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		rows = rows[:random.IntN(len(rows))]
	case chatty:
		for i := range 1 + random.IntN(3) {
			intruder := b.row(r, fmt.Sprintf("intruder-%d", i), e)
			rows = append(rows, intruder)
		}
		random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	case reordered:
		random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	default:
	}
	return &kafkawire.FindCoordinatorResponse{Coordinators: rows}
}

// row is the true answer for a key. Host, or the text of an error, bear witness of
// the event and the key.
func (b *broker) row(r *kafkatest.Request, key string, e int) kafkawire.Coordinator {
	mark := witness(e, r.KeyType, key)
	code := b.refusal(r, key)
	g := b.w.plan.truth.at(r.KeyType, key, b.w.now())
	if code == kafkawire.ErrNone {
		code = g.code
	}
	if code != kafkawire.ErrNone {
		return kafkawire.Coordinator{Key: key, NodeID: kafkawire.NoNode, Port: -1, ErrorCode: code, ErrorMessage: mark}
	}
	return kafkawire.Coordinator{Key: key, NodeID: g.node, Host: mark, Port: 9092}
}

// spoil changes all rows.
func (b *broker) spoil(rows []kafkawire.Coordinator, wrong fault, random *rand.Rand) {
	code := pick(random, kafkawire.ErrCoordinatorNotAvailable, kafkawire.ErrCoordinatorLoadInProgress)
	field := random.IntN(3)
	for i := range rows {
		row := &rows[i]
		switch {
		case wrong == unavailable && row.ErrorCode == kafkawire.ErrNone:
			*row = kafkawire.Coordinator{Key: row.Key, NodeID: kafkawire.NoNode, Port: -1, ErrorCode: code, ErrorMessage: row.Host}
		case wrong == nodeless && row.ErrorCode == kafkawire.ErrNone:
			switch field {
			case 0:
				row.NodeID = kafkawire.NoNode
			case 1:
				row.Host = ""
			default:
				row.Port = -1
			}
		}
	}
}

// inspect checks what the broker is sent.
func (b *broker) inspect(r *kafkatest.Request, s *session) {
	if r.Key != kafkawire.APIKeyFindCoordinator {
		return
	}
	v, bp := r.Version, b.plan
	switch {
	case v == 0 && !s.negotiated:
	case v < bp.find.Min || v > bp.find.Max:
		b.w.violate("broker %d offers FindCoordinator v%d to v%d and was sent v%d", bp.node, bp.find.Min, bp.find.Max, v)
	case len(r.Keys) == 0 || v < 4 && len(r.Keys) != 1 || len(r.Keys) > b.w.plan.finder.ChunkKeys:
		b.w.violate("broker %d was sent %d keys in one request of v%d; a chunk has %d", bp.node, len(r.Keys), v, b.w.plan.finder.ChunkKeys)
	}
	seen := make(map[string]bool, len(r.Keys))
	for _, key := range r.Keys {
		if seen[key] {
			b.w.violate("broker %d was asked for %q twice in one request", bp.node, key)
		}
		seen[key] = true
	}
}
