//go:build unix

package pool

import (
	"net"
	"syscall"
)

// A peeker looks at an idle connection without waiting and without taking
// anything: it tells the end of the stream, and bytes that nobody asked for.
type peeker struct {
	raw    syscall.RawConn
	look   func(fd uintptr) // made once, so that a look allocates nothing
	usable bool             // what the last look found
	byte   [1]byte
}

func (p *peeker) init(nc net.Conn) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	p.raw = raw
	p.look = func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), p.byte[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		// Nothing there is what an idle connection should have. No error is the end
		// of the stream, or an answer that came late.
		p.usable = err == syscall.EAGAIN || err == syscall.EINTR
	}
}

// quiet reports whether the connection is open with nothing to read. ok is false
// where that cannot be seen.
func (p *peeker) quiet() (quiet, ok bool) {
	if p.raw == nil {
		return false, false
	}
	if err := p.raw.Control(p.look); err != nil {
		return false, true
	}
	return p.usable, true
}
