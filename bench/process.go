package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the CPU time that a process has used, all its threads together, to the
// nanosecond: /proc/PID/stat counts in steps of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	const cpuClockSched = 2 // of the process with this id, see MAKE_PROCESS_CPUCLOCK in the kernel
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|cpuClockSched), &ts); err != nil { //nolint:gosec // pids have 22 bits
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// idleTime is how long the processors of the machine have had nothing to do, all together.
func idleTime() (time.Duration, error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux of today
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	var user, nice, system, idle, waiting int64
	if _, err := fmt.Sscanf(string(stat), "cpu %d %d %d %d %d", &user, &nice, &system, &idle, &waiting); err != nil {
		return 0, fmt.Errorf("first line of /proc/stat: %w", err)
	}
	return time.Duration(idle+waiting) * tick, nil
}

// memory is what a process holds resident, in MiB: now, or at its peak since forgetPeak.
func memory(pid int, field string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kb / 1024, err
		}
	}
	return 0, fmt.Errorf("no %s in the status of process %d", field, pid)
}

const (
	residentNow  = "VmRSS"
	residentPeak = "VmHWM"
)

// forgetPeak makes the peak begin at what is resident now.
func forgetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// server is a process that answers callers.
type server struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	// grpc, rest and admin are the addresses it answers on; the last two only coordsvc.
	grpc, rest, admin string

	mu   sync.Mutex
	said bytes.Buffer // the end of its stderr
}

// start runs a program that ends when its stdin does, or when this one does; env is
// added to the environment. It must be called in the main goroutine, see main.
func start(name string, env []string, argv ...string) (*server, error) {
	s := &server{name: name, cmd: exec.Command(argv[0], argv[1:]...)}
	s.cmd.Stderr = s
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Env = append(cleanEnviron(), env...)
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.stdout = bufio.NewReader(stdout)
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return s, nil
}

// cleanEnviron is the environment without settings of coordsvc.
func cleanEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "COORDSVC_") })
}

// Write takes what the process says on stderr.
func (s *server) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said.Len() < 64<<10 {
		s.said.Write(p)
	}
	return len(p), nil
}

func (s *server) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}

// startCoordsvc runs the binary with its default settings but for flags.
func startCoordsvc(program string, bootstrap, env []string, flags ...string) (*server, error) {
	ports, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	argv := append([]string{
		program, "serve", "--kafka-brokers", strings.Join(bootstrap, ","),
		"--grpc-address", ports[0], "--http-address", ports[1], "--admin-address", ports[2],
		"--admin-pprof", // costs nothing until it is asked
	}, flags...)
	s, err := start("coordsvc", env, argv...)
	if err != nil {
		return nil, err
	}
	s.grpc, s.rest, s.admin = ports[0], ports[1], ports[2]
	if err := s.await(func() error { return getOK("http://" + ports[2] + "/readyz") }); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// freeAddresses are addresses that nobody listens on, for a program that does not
// say which it took.
func freeAddresses(n int) ([]string, error) {
	var list []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // not before all are chosen: they must differ
		list = append(list, l.Addr().String())
	}
	return list, nil
}

// startContender runs this program as one of the other services.
func startContender(kind string, bootstrap []string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s, err := start(kind, nil, self, "serve", kind, strings.Join(bootstrap, ","))
	if err != nil {
		return nil, err
	}
	line, err := s.stdout.ReadString('\n')
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("%s did not start: %w: %s", kind, err, s.log())
	}
	s.grpc = strings.TrimSpace(line)
	return s, nil
}

// requests is how many FindCoordinator requests a server has sent: coordsvc has it in
// its metrics, the others are asked.
func (s *server) requests() (n float64, err error) {
	if s.admin != "" {
		err = s.scrape(func(series string, value float64) {
			if strings.HasPrefix(series, `coordsvc_kafka_requests_total{api="FindCoordinator"`) {
				n += value
			}
		})
		return n, err
	}
	if _, err := io.WriteString(s.stdin, "requests\n"); err != nil {
		return 0, err
	}
	line, err := s.stdout.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(line), 64)
}

// scrape reads the metrics of coordsvc.
func (s *server) scrape(each func(series string, value float64)) error {
	resp, err := http.Get("http://" + s.admin + "/metrics")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		i := strings.LastIndexByte(lines.Text(), ' ')
		if i < 0 || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		value, err := strconv.ParseFloat(lines.Text()[i+1:], 64)
		if err != nil {
			return err
		}
		each(lines.Text()[:i], value)
	}
	return lines.Err()
}

func (s *server) await(ready func() error) error {
	const patience = 30 * time.Second
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := ready()
		if err == nil {
			return nil
		}
		if time.Since(begin) > patience {
			return fmt.Errorf("%s is not ready after %v: %w\n%s", s.name, patience, err, s.log())
		}
	}
}

func (s *server) stop() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// javaProcesses are the JVMs whose command line names a folder: a cluster's brokers.
func javaProcesses(dir string) ([]int, error) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, file := range all {
		line, err := os.ReadFile(file)
		if err == nil && bytes.Contains(line, []byte("kafka.Kafka\x00")) && bytes.Contains(line, []byte(dir)) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				return nil, err
			}
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// asksKafka says whether the server asks Kafka at all.
func (s *server) asksKafka() bool { return s.name != noopService }
