package kafkatest

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// Proxy stands in front of a real broker and counts what it is asked. It rewrites
// nothing: a client that discovers brokers goes past it, so discovery must be off.
type Proxy struct {
	target   string
	listener net.Listener
	work     sync.WaitGroup

	mu       sync.Mutex
	open     map[net.Conn]struct{}
	requests map[kafkawire.APIKey]int
	conns    int
}

// NewProxy starts a proxy for the broker at target. It stops at the end of the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("proxy for %s: %v", target, err)
	}
	p := &Proxy{target: target, listener: listener, open: map[net.Conn]struct{}{}, requests: map[kafkawire.APIKey]int{}}
	p.work.Go(p.accept)
	t.Cleanup(p.stop)
	return p
}

// Addr is where to ask in place of the broker.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Requests is how many requests of an API went through since the last Forget.
func (p *Proxy) Requests(key kafkawire.APIKey) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[key]
}

// Connections is how many connections were made through the proxy.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns
}

// Forget starts counting requests anew.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.requests)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		broker, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.open[client], p.open[broker] = struct{}{}, struct{}{}
		p.conns++
		p.mu.Unlock()
		p.work.Go(func() { p.forward(broker, client, p.count); p.close(client, broker) })
		p.work.Go(func() { p.forward(client, broker, nil); p.close(client, broker) })
	}
}

// forward copies whole frames, and shows each to see before it is passed on.
func (p *Proxy) forward(to, from net.Conn, see func(frame []byte)) {
	var frame []byte
	for {
		frame = append(frame[:0], 0, 0, 0, 0)
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
		if _, err := io.ReadFull(from, frame[4:]); err != nil {
			return
		}
		if see != nil {
			see(frame)
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

func (p *Proxy) count(frame []byte) {
	if len(frame) < 6 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests[kafkawire.APIKey(binary.BigEndian.Uint16(frame[4:]))]++
}

func (p *Proxy) close(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.open, c)
	}
}

func (p *Proxy) stop() {
	p.listener.Close()
	p.mu.Lock()
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}
