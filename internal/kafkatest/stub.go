package kafkatest

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// StubConfig says what a Stub is at first. The zero value is node 0 on a real
// loopback socket, a broker of the newest release.
type StubConfig struct {
	// Node is the broker's id.
	Node int32

	// Network, if set, is where the stub listens instead of the loopback
	// interface: in memory, so that it works inside a synctest bubble.
	Network *Network

	// Addr is the address on Network; empty means broker-<Node>:9092.
	Addr string

	// Release makes the stub offer what this Kafka release offers ("2.8.2"), and
	// treat ApiVersions as it does.
	Release string

	// TLS, if set, is how the stub secures its connections.
	TLS *tls.Config

	// APIs, if set, is what the stub offers instead.
	APIs map[kafkawire.APIKey]kafkawire.VersionRange
}

// A Handler answers one request, in whatever way a test needs. It may keep the
// request and answer it later, from any goroutine, or never.
type Handler func(*Request)

// Stub is a scripted broker. Each of its connections serves one request at a
// time, in order, as Kafka does; what comes in meanwhile is read and counted.
// All methods may be called at any time.
type Stub struct {
	t        testing.TB
	node     int32
	network  *Network
	tls      *tls.Config
	addr     string
	sessions sync.WaitGroup

	mu          sync.Mutex
	listener    net.Listener
	apis        map[kafkawire.APIKey]kafkawire.VersionRange
	brokers     []kafkawire.MetadataBroker
	coordinator CoordinatorFunc
	handlers    map[kafkawire.APIKey]Handler
	onConnect   func(*Conn)
	sasl        *SASL
	conns       map[*Conn]struct{}
	paused      chan struct{} // closed when the stub goes on; nil: it is not paused
	accepted    int
	mostOpen    int
	requests    []*Request
	changed     chan struct{} // closed and replaced when a count changes
}

// CoordinatorFunc decides the answer for a key. The stub sets Key and, where it
// is empty, ErrorMessage.
type CoordinatorFunc func(keyType kafkawire.KeyType, key string) kafkawire.Coordinator

// NewStub starts a stub that names itself as the only broker. It stops at the
// end of the test.
func NewStub(t testing.TB, config StubConfig) *Stub {
	t.Helper()
	s := &Stub{
		t: t, node: config.Node, network: config.Network, tls: config.TLS, addr: config.Addr,
		apis:     config.APIs,
		handlers: make(map[kafkawire.APIKey]Handler),
		conns:    make(map[*Conn]struct{}),
		changed:  make(chan struct{}),
	}
	if s.addr == "" {
		s.addr = "127.0.0.1:0"
		if s.network != nil {
			s.addr = fmt.Sprintf("broker-%d:9092", config.Node)
		}
	}
	if s.apis == nil {
		apis, err := ReleaseAPIs(cmp.Or(config.Release, Releases[len(Releases)-1]))
		if err != nil {
			t.Fatal(err)
		}
		s.apis = apis
		if config.Release == "0.9.0.1" { // measured: keeps the connection and never answers
			s.handlers[kafkawire.APIKeyAPIVersions] = Silent
		}
	}
	s.Up()
	t.Cleanup(s.Down)
	s.brokers = []kafkawire.MetadataBroker{s.Broker()}
	return s
}

// NewStubs starts n stubs that name each other, nodes 1 to n.
func NewStubs(t testing.TB, n int, config StubConfig) []*Stub {
	t.Helper()
	stubs := make([]*Stub, n)
	brokers := make([]kafkawire.MetadataBroker, n)
	for i := range stubs {
		config.Node, config.Addr = int32(i+1), ""
		stubs[i] = NewStub(t, config)
		brokers[i] = stubs[i].Broker()
	}
	for _, s := range stubs {
		s.SetBrokers(brokers...)
	}
	return stubs
}

// Addrs are the addresses of stubs, fit for a list of bootstrap brokers.
func Addrs(stubs ...*Stub) []string {
	list := make([]string, len(stubs))
	for i, s := range stubs {
		list[i] = s.Addr()
	}
	return list
}

// Addr is the stub's host:port.
func (s *Stub) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Broker is the stub as Metadata names it.
func (s *Stub) Broker() kafkawire.MetadataBroker {
	host, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		panic(err) // the address was listened on
	}
	n, err := net.LookupPort("tcp", port)
	if err != nil {
		panic(err)
	}
	return kafkawire.MetadataBroker{NodeID: s.node, Host: host, Port: int32(n)}
}

// On makes h answer every request of an API, known to the table or not; nil
// makes the stub behave well again.
func (s *Stub) On(key kafkawire.APIKey, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h == nil {
		delete(s.handlers, key)
		return
	}
	s.handlers[key] = h
}

// OnConnect calls f on each new connection before its first request is read.
func (s *Stub) OnConnect(f func(*Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onConnect = f
}

// SetAPI changes the versions offered of one API.
func (s *Stub) SetAPI(key kafkawire.APIKey, versions kafkawire.VersionRange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apis = maps.Clone(s.apis)
	s.apis[key] = versions
}

// RemoveAPI takes one API out of what is offered; asked for it, the stub closes
// the connection.
func (s *Stub) RemoveAPI(key kafkawire.APIKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apis = maps.Clone(s.apis)
	delete(s.apis, key)
}

// SetBrokers says which brokers Metadata names, and among which keys are spread.
func (s *Stub) SetBrokers(brokers ...kafkawire.MetadataBroker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.brokers = slices.Clone(brokers)
}

// SetCoordinator makes f decide the answer for each key; nil spreads keys over
// the brokers again.
func (s *Stub) SetCoordinator(f CoordinatorFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coordinator = f
}

// Down closes the listener and resets all connections: dials are refused until
// Up. It returns when every connection is gone.
func (s *Stub) Down() {
	s.mu.Lock()
	if s.listener != nil {
		s.listener.Close()
		s.listener = nil
	}
	s.mu.Unlock()
	s.Disconnect()
	s.sessions.Wait()
}

// Up listens again, on the same address.
func (s *Stub) Up() {
	s.t.Helper()
	listen := net.Listen
	if s.network != nil {
		listen = s.network.Listen
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return
	}
	listener, err := listen("tcp", s.addr)
	if err != nil {
		s.t.Fatalf("stub broker %d: %v", s.node, err)
	}
	s.listener, s.addr = listener, listener.Addr().String()
	s.sessions.Add(1)
	go s.accept(listener)
}

// Pause has the stub stop as a process does that is stopped (SIGSTOP): connections are
// accepted, but nothing more is read or answered until Resume.
func (s *Stub) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused == nil {
		s.paused = make(chan struct{})
	}
}

// Resume ends Pause.
func (s *Stub) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused != nil {
		close(s.paused)
		s.paused = nil
	}
}

// awaitResume waits while the stub is paused, or until done is closed.
func (s *Stub) awaitResume(done <-chan struct{}) {
	for {
		paused := read(s, func() chan struct{} { return s.paused })
		if paused == nil {
			return
		}
		select {
		case <-paused:
		case <-done:
			return
		}
	}
}

// Disconnect resets all connections; the stub goes on listening.
func (s *Stub) Disconnect() {
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range conns {
		c.Reset()
	}
}

func (s *Stub) accept(listener net.Listener) {
	defer s.sessions.Done()
	for {
		raw, err := listener.Accept()
		if err != nil {
			return
		}
		s.admit(listener, raw)
	}
}

func (s *Stub) admit(listener net.Listener, raw net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != listener { // went down meanwhile
		raw.Close()
		return
	}
	s.accepted++
	secured := raw
	if s.tls != nil {
		secured = tls.Server(raw, s.tls)
	}
	c := &Conn{ID: s.accepted, stub: s, socket: raw, raw: secured, queue: make(chan *Request, 1<<14), done: make(chan struct{})}
	s.conns[c] = struct{}{}
	s.mostOpen = max(s.mostOpen, len(s.conns))
	s.notify()
	s.sessions.Add(2)
	go c.serve(s.onConnect)
	go func() {
		defer s.sessions.Done()
		<-c.done
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
		s.notify()
	}()
}

// notify wakes those who wait for a count. s.mu is held.
func (s *Stub) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Stub) record(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	s.notify()
}

func (s *Stub) answer(r *Request) {
	s.mu.Lock()
	h, sasl := s.handlers[r.Key], s.sasl
	s.mu.Unlock()
	if sasl != nil && sasl.handle(r) {
		return
	}
	if h == nil {
		h = Default
	}
	h(r)
}

// Accepted is how many connections were made to the stub so far.
func (s *Stub) Accepted() int { return read(s, func() int { return s.accepted }) }

// Open is how many connections are open.
func (s *Stub) Open() int { return read(s, func() int { return len(s.conns) }) }

// MostOpen is how many connections were open at once at most.
func (s *Stub) MostOpen() int { return read(s, func() int { return s.mostOpen }) }

// Requests are those of one API that came in since the last Forget, in order.
func (s *Stub) Requests(key kafkawire.APIKey) []*Request {
	return read(s, func() []*Request {
		var list []*Request
		for _, r := range s.requests {
			if r.Key == key {
				list = append(list, r)
			}
		}
		return list
	})
}

// Count is how many requests of one API came in since the last Forget.
func (s *Stub) Count(key kafkawire.APIKey) int { return len(s.Requests(key)) }

// Lookups are the keys of each FindCoordinator request since the last Forget.
func (s *Stub) Lookups() [][]string {
	var list [][]string
	for _, r := range s.Requests(kafkawire.APIKeyFindCoordinator) {
		list = append(list, r.Keys)
	}
	return list
}

// Forget starts the record of requests anew. Connections stay counted.
func (s *Stub) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

func read[T any](s *Stub, f func() T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

// awaitTimeout ends a wait that a fault in the tested code would make endless.
const awaitTimeout = 10 * time.Second

// Await returns once n requests of an API have come in, and fails the test when
// that takes over 10 s.
func (s *Stub) Await(key kafkawire.APIKey, n int) {
	s.t.Helper()
	if !s.await(func() bool { return s.Count(key) >= n }) {
		s.t.Fatalf("stub broker %d: %d %v requests came, %d expected", s.node, s.Count(key), key, n)
	}
}

// AwaitOpen returns once exactly n connections are open.
func (s *Stub) AwaitOpen(n int) {
	s.t.Helper()
	if !s.await(func() bool { return s.Open() == n }) {
		s.t.Fatalf("stub broker %d: %d connections are open, %d expected", s.node, s.Open(), n)
	}
}

func (s *Stub) await(done func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), awaitTimeout)
	defer cancel()
	for {
		changed := read(s, func() chan struct{} { return s.changed })
		if done() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
