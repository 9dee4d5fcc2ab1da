package kafkatest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// process is one running JVM.
type process struct {
	name    string // "broker 1 of Kafka 4.4.0"
	log     string // file with what it printed
	process *os.Process
	begin   int64 // where in the log it began
	exited  chan struct{}
	err     error // how it ended; valid once exited is closed
}

// startProcess runs a program; what it prints is appended to a log file.
func startProcess(name, log, dir string, argv []string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	begin, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		out.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = dir, out, out, childAttr()
	p := &process{name: name, log: log, begin: begin, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel ties the child's life to this thread (see childAttr), so
		// the thread must stay as long as the child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer out.Close()
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("start %s: %w", name, err)
			return
		}
		p.process = cmd.Process
		started <- nil
		p.err = cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// said is nil once the process has printed a text.
func (p *process) said(text string) error {
	log, err := os.ReadFile(p.log)
	if err != nil {
		return err
	}
	if !strings.Contains(string(log[p.begin:]), text) {
		return fmt.Errorf("it has not printed %q yet", text)
	}
	return nil
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill ends the process at once, paused or not, and waits for its end.
func (p *process) kill() {
	p.process.Kill()
	<-p.exited
}

// stop asks the process to end, and kills it when it has not after grace.
func (p *process) stop(grace time.Duration) error {
	p.process.Signal(signalContinue)
	p.process.Signal(signalStop)
	select {
	case <-p.exited:
		return nil
	case <-time.After(grace):
		p.kill()
		return fmt.Errorf("%s did not stop within %v and was killed", p.name, grace)
	}
}

func (p *process) signal(s os.Signal) error {
	if err := p.process.Signal(s); err != nil {
		return fmt.Errorf("%v to %s: %w", s, p.name, err)
	}
	return nil
}

// failure describes a process that ended before its time.
func (p *process) failure() error {
	return fmt.Errorf("%s ended (%w); from %s:\n%s", p.name, p.err, p.log, p.lastWords())
}

// lastWords are the lines of the log that tell of trouble, and its end.
func (p *process) lastWords() string {
	const troubles, end = 8, 10
	log, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(log[p.begin:])), "\n")
	rest := max(0, len(lines)-end)
	var told []string
	for _, line := range lines[:rest] {
		if len(told) < troubles && isTrouble(line) {
			told = append(told, line)
		}
	}
	return strings.Join(append(told, lines[rest:]...), "\n")
}

func isTrouble(line string) bool {
	for _, word := range []string{" ERROR ", " FATAL ", "Exception", "Caused by"} {
		if strings.Contains(line, word) {
			return true
		}
	}
	return false
}
