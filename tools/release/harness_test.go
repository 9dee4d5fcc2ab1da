package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// nobody is who the programs run as: a user that the machine does not know, with the
// folder root as all that there is. Only root may start something so.
func nobody(t *testing.T, root string) *syscall.SysProcAttr {
	t.Helper()
	require.Zero(t, os.Geteuid(), "changing the root folder and the user needs root: run the test with sudo")
	return &syscall.SysProcAttr{
		Chroot:     root,
		Credential: &syscall.Credential{Uid: 65532, Gid: 65532, NoSetGroups: false},
		Setpgid:    true,
	}
}

// jailed runs a command to its end as nobody within root.
func jailed(t *testing.T, root string, env []string, args ...string) (code int, out string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", env, nobody(t, root)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// started is a command that runs as nobody within root until the test ends.
type started struct {
	cmd   *exec.Cmd
	lines chan string // of both outputs
	ended chan error
}

func start(t *testing.T, root string, env []string, args ...string) *started {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", env, nobody(t, root)
	cmd.Stdout, cmd.Stderr = w, w
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	s := &started{cmd, make(chan string, 1000), make(chan error, 1)}
	go func() {
		for scanner := bufio.NewScanner(r); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
		close(s.lines)
		s.ended <- cmd.Wait()
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return s
}

// line waits for a line and returns what the expression's first group matched.
func (s *started) line(t *testing.T, expression string) string {
	t.Helper()
	pattern, seen := regexp.MustCompile(expression), []string{}
	deadline := time.After(30 * time.Second)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				require.FailNow(t, "the program ended", "waiting for %s it said:\n%s", expression, strings.Join(seen, "\n"))
			}
			if found := pattern.FindStringSubmatch(line); found != nil {
				return found[1]
			}
			seen = append(seen, line)
		case <-deadline:
			require.FailNow(t, "no such line", "waiting for %s it said:\n%s", expression, strings.Join(seen, "\n"))
		}
	}
}

// stop ends the program as a supervisor does.
func (s *started) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-s.ended:
		require.NoError(t, err, "a stop in good order has exit code 0")
	case <-time.After(20 * time.Second):
		require.FailNow(t, "the program did not end")
	}
}

// startDemo runs the built-in cluster and returns its brokers.
func startDemo(t *testing.T, root, program string) string {
	t.Helper()
	demo := start(t, root, nil, program, "demo", "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--admin-address", "127.0.0.1:0")
	return strings.ReplaceAll(demo.line(t, `^A cluster of three brokers runs at (.*)\.$`), " ", "")
}

// ports sets free ports for a service on this machine.
func ports(t *testing.T) (env []string, rest string) {
	t.Helper()
	addresses := []string{}
	for range 3 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		addresses = append(addresses, listener.Addr().String())
	}
	return []string{
		"COORDSVC_HTTP_ADDRESS=" + addresses[0],
		"COORDSVC_GRPC_ADDRESS=" + addresses[1],
		"COORDSVC_ADMIN_ADDRESS=" + addresses[2],
		"COORDSVC_SHUTDOWN_DRAIN_DELAY=0s",
	}, addresses[0]
}

// ready waits until the health check within root says so.
func ready(t *testing.T, root string, env []string, program string) {
	t.Helper()
	var out string
	require.Eventually(t, func() bool {
		var code int
		code, out = jailed(t, root, env, program, "healthcheck", "--ready")
		return code == 0
	}, 30*time.Second, 200*time.Millisecond, "the service did not get ready")
	require.NotEmpty(t, out)
}

// sameCommit is a second checkout of the commit, in a folder of another name.
func sameCommit(t *testing.T, src *checkout) *checkout {
	t.Helper()
	changed, err := output(src.dir, "git", "status", "--porcelain")
	require.NoError(t, err)
	require.Empty(t, changed, "the tree has changes that are in no commit, and what is promised is promised for a commit: commit first")
	dir := filepath.Join(t.TempDir(), "a-folder-with-another-name")
	_, err = output("", "git", "clone", "-q", src.dir, dir)
	require.NoError(t, err)
	t.Chdir(dir)
	other, err := openCheckout()
	require.NoError(t, err)
	require.Equal(t, src.commit, other.commit)
	return other
}

// tool is a command that the test needs, by the Debian package that has it.
func tool(t *testing.T, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	require.NoError(t, err, "the test needs %s, of Debian's package %s", name, debian)
	return path
}

// shell runs a command and returns what it prints on both outputs.
func shell(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	require.NoError(t, err, "%s:\n%s", strings.Join(args, " "), out)
	return string(out)
}

func readAll(t *testing.T, r io.Reader) []byte {
	t.Helper()
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	return data
}
