//go:build linux && !race

package socket

import (
	"os"
	"syscall"
	"unsafe"
)

// transfer reads from a socket or writes to it, for one goroutine at a time.
type transfer struct {
	name   string
	number uintptr // of the system call
	wait   func(attempt func(fd uintptr) bool) error

	attempt func(fd uintptr) bool // once as a value, so that a transfer allocates nothing
	// Of the transfer under way.
	p     []byte
	n     int
	errno syscall.Errno
}

func newReading(raw syscall.RawConn) *transfer {
	return newTransfer("read", syscall.SYS_READ, raw.Read)
}

func newWriting(raw syscall.RawConn) *transfer {
	return newTransfer("write", syscall.SYS_WRITE, raw.Write)
}

func newTransfer(name string, number uintptr, wait func(func(fd uintptr) bool) error) *transfer {
	t := &transfer{name: name, number: number, wait: wait}
	t.attempt = t.try
	return t
}

// do moves up to len(p) bytes, which must be at least one, and waits until it can move
// any. It returns 0 at the end of what there is to read.
func (t *transfer) do(p []byte) (int, error) {
	t.p = p
	err := t.wait(t.attempt)
	t.p = nil
	switch {
	case err != nil:
		return 0, err
	case t.errno != 0:
		return 0, os.NewSyscallError(t.name, t.errno)
	default:
		return t.n, nil
	}
}

// try reports false where the socket must be waited for.
func (t *transfer) try(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall(t.number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(t.p))), uintptr(len(t.p)))
		t.n, t.errno = int(n), errno //nolint:gosec // at most len(t.p), and not looked at where errno is set
		if errno != syscall.EINTR {
			return errno != syscall.EAGAIN
		}
	}
}
