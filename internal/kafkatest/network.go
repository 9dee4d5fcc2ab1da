package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// socketBuffer is how many bytes a connection of [Network] takes before a
// write blocks. A kernel keeps about as much; [net.Pipe] keeps none, and a
// client that pipelines requests would deadlock on it.
const socketBuffer = 256 << 10

// Network is an in-memory network: listeners by name, connections that keep
// deadlines and fail the way TCP does. Nothing in it enters the kernel, so it
// works inside a testing/synctest bubble, on simulated time.
//
// Listen and DialContext have the forms of [net.Listen] and
// [net.Dialer.DialContext].
type Network struct {
	mu        sync.Mutex
	listeners map[string]*memListener
	silent    map[string]bool
	dials     map[string]int
	nextPort  int
}

// NewNetwork returns an empty network, on which every dial is refused.
func NewNetwork() *Network {
	return &Network{
		listeners: make(map[string]*memListener),
		silent:    make(map[string]bool),
		dials:     make(map[string]int),
		nextPort:  49152, // the first ephemeral port (RFC 6335)
	}
}

// Listen opens addr ("broker-1:9092"). Port 0 takes the next free one.
func (n *Network) Listen(_, addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("in-memory network: listen on %q: %w", addr, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == "0" {
		addr = net.JoinHostPort(host, strconv.Itoa(n.ephemeral()))
	}
	if n.listeners[addr] != nil {
		return nil, opError("listen", addr, os.NewSyscallError("bind", syscall.EADDRINUSE))
	}
	l := &memListener{network: n, addr: memAddr(addr), backlog: make(chan *memConn, 1024), closed: make(chan struct{})}
	n.listeners[addr] = l
	return l, nil
}

// DialContext connects to a listener. With none there it is refused at once; an
// address made silent lets the dial hang until ctx ends.
func (n *Network) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	n.dials[addr]++
	l, silent := n.listeners[addr], n.silent[addr]
	local := memAddr(net.JoinHostPort("client", strconv.Itoa(n.ephemeral())))
	n.mu.Unlock()

	if silent {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return nil, opError("dial", addr, dialError(err))
	}
	refused := opError("dial", addr, os.NewSyscallError("connect", syscall.ECONNREFUSED))
	if l == nil {
		return nil, refused
	}
	client, server := newConnPair(local, l.addr)
	select {
	case <-l.closed:
		return nil, refused
	default:
	}
	select {
	case l.backlog <- server:
		return client, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, opError("dial", addr, dialError(ctx.Err()))
	}
}

// SetSilent makes addr swallow dials, as a host that is down behind a firewall
// does, or ends that.
func (n *Network) SetSilent(addr string, silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent[addr] = silent
}

// Dials is how often addr was dialled, with success or without.
func (n *Network) Dials(addr string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials[addr]
}

// ephemeral returns a port not handed out before. n.mu is held.
func (n *Network) ephemeral() int {
	p := n.nextPort
	n.nextPort++
	return p
}

// dialError is the error that package net gives for a dial whose context ended.
func dialError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return os.ErrDeadlineExceeded
	}
	return err
}

func opError(op, addr string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Addr: memAddr(addr), Err: err}
}

// memAddr is a name:port on a [Network].
type memAddr string

func (memAddr) Network() string  { return "tcp" }
func (a memAddr) String() string { return string(a) }

type memListener struct {
	network *Network
	addr    memAddr
	backlog chan *memConn
	once    sync.Once
	closed  chan struct{}
}

func (l *memListener) Addr() net.Addr { return l.addr }

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, opError("accept", l.addr.String(), net.ErrClosed)
	default:
	}
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.closed:
		return nil, opError("accept", l.addr.String(), net.ErrClosed)
	}
}

// Close frees the address and resets what was dialled but never accepted.
func (l *memListener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		delete(l.network.listeners, l.addr.String())
		l.network.mu.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.backlog:
				c.Reset()
			default:
				return
			}
		}
	})
	return nil
}

// memConn is one end of a connection: it reads from one stream and writes to
// the other.
type memConn struct {
	local, remote memAddr
	in, out       *stream
}

func newConnPair(client, server memAddr) (*memConn, *memConn) {
	toServer, toClient := newStream(), newStream()
	return &memConn{local: client, remote: server, in: toClient, out: toServer},
		&memConn{local: server, remote: client, in: toServer, out: toClient}
}

func (c *memConn) LocalAddr() net.Addr  { return c.local }
func (c *memConn) RemoteAddr() net.Addr { return c.remote }

func (c *memConn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	if err != nil && err != io.EOF {
		err = opError("read", c.remote.String(), err)
	}
	return n, err
}

func (c *memConn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	if err != nil {
		err = opError("write", c.remote.String(), err)
	}
	return n, err
}

// Close ends the connection as TCP does: the other end reads what was written
// before, then the end of the stream; what it writes fails.
func (c *memConn) Close() error {
	c.out.closeWrite(io.EOF)
	c.in.closeRead(os.NewSyscallError("write", syscall.EPIPE))
	return nil
}

// CloseWrite ends the stream to the other end; the other way stays open.
func (c *memConn) CloseWrite() error {
	c.out.closeWrite(io.EOF)
	return nil
}

// Reset ends the connection and throws away what the other end has not read.
func (c *memConn) Reset() {
	c.out.closeWrite(os.NewSyscallError("read", syscall.ECONNRESET))
	c.in.closeRead(os.NewSyscallError("write", syscall.ECONNRESET))
}

func (c *memConn) SetDeadline(t time.Time) error {
	c.in.readDeadline.set(t)
	c.out.writeDeadline.set(t)
	return nil
}

func (c *memConn) SetReadDeadline(t time.Time) error {
	c.in.readDeadline.set(t)
	return nil
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.out.writeDeadline.set(t)
	return nil
}

// stream is one direction of a connection: a bounded buffer and how it ended,
// as its reader and as its writer see it.
type stream struct {
	mu                          sync.Mutex
	changed                     *sync.Cond
	buf                         []byte
	readErr, writeErr           error
	readDeadline, writeDeadline deadline
}

func newStream() *stream {
	s := &stream{}
	s.changed = sync.NewCond(&s.mu)
	s.readDeadline.stream, s.writeDeadline.stream = s, s
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.readErr != nil && s.readErr != io.EOF:
			return 0, s.readErr
		case s.readDeadline.passed:
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case len(s.buf) > 0:
			n := copy(p, s.buf)
			s.buf = s.buf[n:]
			s.changed.Broadcast()
			return n, nil
		case s.readErr != nil:
			return 0, s.readErr
		}
		s.changed.Wait()
	}
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	written := 0
	for {
		switch {
		case s.writeErr != nil:
			return written, s.writeErr
		case s.writeDeadline.passed:
			return written, os.ErrDeadlineExceeded
		case len(p) == 0:
			return written, nil
		}
		if room := min(socketBuffer-len(s.buf), len(p)); room > 0 {
			s.buf = append(s.buf, p[:room]...)
			p, written = p[room:], written+room
			s.changed.Broadcast()
			continue
		}
		s.changed.Wait()
	}
}

// closeWrite ends the stream from the writer's side. The reader gets what is
// buffered and then the end; any other readerSees takes the buffer with it.
func (s *stream) closeWrite(readerSees error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if readerSees != io.EOF {
		s.buf = nil
	}
	if s.readErr == nil || s.readErr == io.EOF {
		s.readErr = readerSees
	}
	s.writeErr = net.ErrClosed
	s.finish()
}

// closeRead ends the stream from the reader's side.
func (s *stream) closeRead(writerSees error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf, s.readErr = nil, net.ErrClosed
	if s.writeErr == nil {
		s.writeErr = writerSees
	}
	s.finish()
}

// finish wakes whoever waits; a stream that ended needs no deadlines.
func (s *stream) finish() {
	s.readDeadline.stop()
	s.writeDeadline.stop()
	s.changed.Broadcast()
}

// deadline wakes the waiters of its stream when its time has come.
type deadline struct {
	stream *stream
	timer  *time.Timer
	passed bool
}

func (d *deadline) set(t time.Time) {
	d.stream.mu.Lock()
	defer d.stream.mu.Unlock()
	d.stop()
	d.passed = !t.IsZero() && !t.After(time.Now())
	if d.passed {
		d.stream.changed.Broadcast()
		return
	}
	if t.IsZero() || d.stream.readErr != nil {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(t), func() {
		d.stream.mu.Lock()
		defer d.stream.mu.Unlock()
		if d.timer == timer { // not replaced meanwhile
			d.passed = true
			d.stream.changed.Broadcast()
		}
	})
	d.timer = timer
}

// stop takes back the timer. The stream's mutex is held.
func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
