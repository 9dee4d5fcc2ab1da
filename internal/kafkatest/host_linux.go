package kafkatest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	signalStop     = syscall.SIGTERM
	signalPause    = syscall.SIGSTOP
	signalContinue = syscall.SIGCONT
)

// childAttr puts a child in its own process group, out of reach of a terminal's
// Ctrl-C (the parent decides the order of stopping), and has the kernel kill it
// when the thread that started it ends: no way of dying of the test binary, be
// it a panic, a timeout or kill -9, leaves a broker behind.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// reservePort takes a free port of 127.0.0.1 from the kernel and keeps it: the
// socket is bound but never listens. Java binds the same port beside it (both
// with SO_REUSEADDR) and alone answers there; while the broker is down a dial is
// refused, and the kernel gives the port to nobody else.
func reservePort() (port int, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("reserve a port: %w", os.NewSyscallError("socket", err))
	}
	if err := bindLoopback(fd); err != nil {
		syscall.Close(fd)
		return 0, nil, fmt.Errorf("reserve a port: %w", err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		syscall.Close(fd)
		return 0, nil, fmt.Errorf("reserve a port: %w", os.NewSyscallError("getsockname", err))
	}
	return name.(*syscall.SockaddrInet4).Port, func() { syscall.Close(fd) }, nil
}

func bindLoopback(fd int) error {
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	return os.NewSyscallError("bind", syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
}

// lockFile waits for the exclusive lock of a file and holds it until unlock.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, os.NewSyscallError("flock", err)
	}
	return func() { f.Close() }, nil
}

// awaitPaused waits until SIGSTOP has reached each thread of a process: one that runs
// on another core goes on for a moment, and may answer.
func awaitPaused(pid int) error {
	const patience = 10 * time.Second
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			return err
		}
		paused := len(stats) > 0
		for _, path := range stats {
			stat, err := os.ReadFile(path)
			if err != nil {
				continue // the thread has ended
			}
			// The state is the field after the name, which stands in parentheses (proc(5)).
			state := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:])
			paused = paused && len(state) > 0 && state[0] == 'T'
		}
		if paused {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("process %d still runs %v after it was to pause", pid, patience)
		}
	}
}
