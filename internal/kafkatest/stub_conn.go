package kafkatest

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// largestRequest is Kafka's socket.request.max.bytes; it closes on more.
const largestRequest = 100 << 20

// Conn is one connection to a Stub, as its handlers see it.
type Conn struct {
	// ID counts the connections to the stub from 1.
	ID int

	stub   *Stub
	socket net.Conn    // the raw one
	raw    net.Conn    // what is read and written: the socket, or TLS over it
	bare   atomic.Bool // the next frames are SASL tokens, not requests
	queue  chan *Request
	once   sync.Once
	done   chan struct{} // closed with the connection

	mu      sync.Mutex // held while writing
	corked  bool
	pending []byte
	piece   int // bytes a write; 0 is no limit
}

// serve reads what comes in while a second goroutine answers it.
func (c *Conn) serve(onConnect func(*Conn)) {
	defer c.stub.sessions.Done()
	defer c.Close()
	if onConnect != nil {
		onConnect(c)
	}
	c.stub.sessions.Add(1)
	go c.answerAll()
	for {
		r, err := c.read()
		if err != nil {
			return
		}
		c.stub.record(r)
		select {
		case c.queue <- r:
		case <-c.done:
			return
		}
	}
}

func (c *Conn) answerAll() {
	defer c.stub.sessions.Done()
	for {
		select {
		case r := <-c.queue:
			c.stub.awaitResume(c.done)
			c.stub.answer(r)
		case <-c.done:
			return
		}
	}
}

// pausing reads from a connection while its stub is not paused.
type pausing struct{ c *Conn }

func (p pausing) Read(b []byte) (int, error) {
	p.c.stub.awaitResume(p.c.done)
	return p.c.raw.Read(b)
}

func (c *Conn) read() (*Request, error) {
	var size [4]byte
	if _, err := io.ReadFull(pausing{c}, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > largestRequest {
		return nil, io.ErrShortBuffer
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(pausing{c}, frame); err != nil {
		return nil, err
	}
	return c.parse(frame)
}

// Write sends bytes as they are. What is written to a connection that is gone is
// lost, as it is for a broker.
func (c *Conn) Write(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, b...)
	if !c.corked {
		c.flush()
	}
}

// flush writes what is pending. c.mu is held.
func (c *Conn) flush() {
	for len(c.pending) > 0 {
		n := len(c.pending)
		if c.piece > 0 {
			n = min(n, c.piece)
		}
		if _, err := c.raw.Write(c.pending[:n]); err != nil {
			c.pending = nil
			return
		}
		c.pending = c.pending[n:]
	}
}

// Cork holds back what is written until Uncork, which sends it at once: several
// answers in one segment.
func (c *Conn) Cork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked = true
}

// Uncork ends Cork.
func (c *Conn) Uncork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked = false
	c.flush()
}

// Split cuts all that is written from now on into pieces of n bytes; 0 ends it.
func (c *Conn) Split(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.piece = n
}

// Close ends the connection in order.
func (c *Conn) Close() {
	c.once.Do(func() {
		c.socket.Close()
		close(c.done)
	})
}

// Reset ends the connection at once (TCP RST): the other end loses what it has
// not read.
func (c *Conn) Reset() {
	c.once.Do(func() {
		switch raw := c.socket.(type) {
		case *net.TCPConn:
			raw.SetLinger(0)
			raw.Close()
		case *memConn:
			raw.Reset()
		}
		close(c.done)
	})
}

// CloseWrite ends the stream to the client alone: it reads the end, while what it
// writes still arrives.
func (c *Conn) CloseWrite() {
	if half, ok := c.raw.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
}

// RemoteAddr is the client's end.
func (c *Conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// Done is closed when the connection has ended, from whichever side.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Sleep waits for d and says whether the connection is still there.
func (c *Conn) Sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.done:
		return false
	}
}

// Request is one request that a Stub got.
type Request struct {
	kafkawire.RequestHeader

	Conn  *Conn
	Key   kafkawire.APIKey
	Frame []byte // all of it but for the size
	Body  []byte // nil for an API that kafkawire does not know
	Bare  bool   // no request, but a SASL token; Body is that

	// KeyType and Keys are what a FindCoordinator request asks for.
	KeyType kafkawire.KeyType
	Keys    []string
}

// parse takes a frame apart as far as it is understood; what is no request at
// all ends the connection.
func (c *Conn) parse(frame []byte) (*Request, error) {
	r := &Request{Conn: c, Frame: frame}
	if c.bare.Load() {
		r.Key, r.Body, r.Bare = kafkawire.APIKeySaslAuthenticate, frame, true
		return r, nil
	}
	var err error
	r.Key, r.RequestHeader, r.Body, err = kafkawire.DecodeRequestHeader(frame)
	if err != nil && r.Key == 0 {
		return nil, err
	}
	var find kafkawire.FindCoordinatorRequest
	if r.Key == kafkawire.APIKeyFindCoordinator && find.Decode(r.Body, r.Version) == nil {
		r.KeyType, r.Keys = find.KeyType, find.Keys
	}
	return r, nil
}

// Reply sends an answer in the version and with the correlation id of the
// request.
func (r *Request) Reply(answer kafkawire.Response) { r.ReplyAs(r.CorrelationID, r.Version, answer) }

// ReplyAs sends an answer with another correlation id or in another version.
func (r *Request) ReplyAs(correlationID int32, v kafkawire.Version, answer kafkawire.Response) {
	frame, err := kafkawire.AppendResponse(nil, correlationID, v, answer)
	if err != nil {
		r.Conn.stub.t.Errorf("stub broker %d: answer that cannot be encoded: %v", r.Conn.stub.node, err)
		r.Conn.Close()
		return
	}
	r.Conn.Write(frame)
}
