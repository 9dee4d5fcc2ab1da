// Package socket has TCP connections that cost less to read and write.
//
// Before every read and write the net package tells Go's scheduler that the thread may
// be away for long, which wakes the runtime's monitor thread if that sleeps. A socket of
// Go's never blocks: what cannot be done at once is left to the poller. So here the
// scheduler is not told (on Linux). For one caller of one key that is a sixth of the
// processor time of the service, for many a tenth; docs/adr/0010-quiet-sockets.md has
// the figures.
package socket

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// Conn is a [net.TCPConn] in all but what it costs to Read and Write. It is an
// ordinary one where the system is not Linux, and in programs that are built with the
// race detector, which must see what is read and written.
type Conn struct {
	*net.TCPConn
	reading, writing *transfer  // nil: as TCPConn does
	reads, writes    sync.Mutex // held by the one Read, and the one Write, that is under way
}

// quiet makes a Conn of a TCP connection; it returns what else it is given as it is.
func quiet(c net.Conn, err error) (net.Conn, error) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c, err
	}
	q := &Conn{TCPConn: tcp}
	if raw, err := tcp.SyscallConn(); err == nil {
		q.reading, q.writing = newReading(raw), newWriting(raw)
	}
	return q, err
}

// Dial is [net.Dialer.DialContext]; where network is TCP the connection is a *Conn.
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return quiet((&net.Dialer{}).DialContext(ctx, network, addr))
}

// Listen is [net.Listen] on TCP; what is accepted is a *Conn.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return listener{l}, nil
}

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) { return quiet(l.Listener.Accept()) }

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	if c.reading == nil || len(p) == 0 {
		return c.TCPConn.Read(p)
	}
	c.reads.Lock()
	defer c.reads.Unlock()
	n, err := c.reading.do(p)
	switch {
	case err != nil:
		return 0, c.failed("read", err)
	case n == 0:
		return 0, io.EOF
	default:
		return n, nil
	}
}

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (int, error) {
	if c.writing == nil || len(p) == 0 {
		return c.TCPConn.Write(p)
	}
	c.writes.Lock()
	defer c.writes.Unlock()
	for done := 0; ; {
		n, err := c.writing.do(p[done:])
		if err != nil {
			return done, c.failed("write", err)
		}
		if done += n; done == len(p) {
			return done, nil
		}
	}
}

// failed is err as TCPConn would return it.
func (c *Conn) failed(op string, err error) error {
	var from *net.OpError // of RawConn, which calls the operation raw-read
	if errors.As(err, &from) {
		err = from.Err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
