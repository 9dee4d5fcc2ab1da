package socket

import (
	"os"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall does not have everywhere.
const tcpUserTimeout = 0x12

// SetUserTimeout has the kernel end the connection once what was written has not been
// taken by the peer for so long (RFC 5482). grpc-go sets it, on a TCPConn alone.
func (c *Conn) SetUserTimeout(d time.Duration) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
	}); err != nil {
		return err
	}
	return os.NewSyscallError("setsockopt", failed)
}
