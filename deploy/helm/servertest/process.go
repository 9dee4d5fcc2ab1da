//go:build linux

package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is one running program of a control plane.
type process struct {
	name   string
	log    string // file with what it printed
	cmd    *exec.Cmd
	exited chan struct{}
}

// startProcess runs a program, whose output goes to NAME.log in dir.
func startProcess(dir, program string, args ...string) (*process, error) {
	name := filepath.Base(program)
	p := &process{name: name, log: filepath.Join(dir, name+".log"), cmd: exec.Command(program, args...), exited: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	// A group of its own, out of reach of a terminal's Ctrl-C, since we stop them in order. The
	// kernel kills it when the thread that started it ends, so no way of dying of the test leaves
	// it behind.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread must stay as long as the child does
		defer runtime.UnlockOSThread()
		defer out.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// stop asks the program to end, and kills it when it has not after grace.
func (p *process) stop(grace time.Duration) {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(grace):
		p.cmd.Process.Kill()
		<-p.exited
	}
}

// ended is nil while the program runs, and tells how it ended when it has.
func (p *process) ended() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s ended, %v; the end of %s:\n%s", p.name, p.cmd.ProcessState, p.log, lastLines(p.log, 10))
	default:
		return nil
	}
}

func lastLines(file string, n int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// reservePort takes a free port of 127.0.0.1 from the kernel and keeps it: the socket is bound
// but never listens. A Go program binds the same port beside it and alone answers there.
func reservePort() (port int, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, os.NewSyscallError("socket", err)
	}
	release = func() { syscall.Close(fd) }
	port, err = bindLoopback(fd)
	if err != nil {
		release()
		return 0, nil, err
	}
	return port, release, nil
}

func bindLoopback(fd int) (port int, err error) {
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	return name.(*syscall.SockaddrInet4).Port, nil
}
