//go:build !linux

package kafkatest

import (
	"net"
	"os"
	"syscall"
)

// Real Kafka is for Linux, where CI runs. Elsewhere brokers start too, but a
// killed test binary leaves them behind, ports are not held, two runs that fetch
// jars at once do so twice, and Windows cannot pause a broker.
const (
	signalStop     = syscall.SIGTERM
	signalPause    = syscall.Signal(17) // SIGSTOP on macOS and the BSDs
	signalContinue = syscall.Signal(19) // SIGCONT there
)

func childAttr() *syscall.SysProcAttr { return nil }

func reservePort() (port int, release func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, func() {}, nil
}

func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

func awaitPaused(int) error { return nil }
