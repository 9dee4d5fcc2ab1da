package test

import (
	"bufio"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSecondSignal: the first one drains, the second one does not wait for that.
func TestSecondSignal(t *testing.T) {
	cmd := command("serve", "--kafka-brokers", "127.0.0.1:1", "--shutdown-drain-delay", "5m",
		"--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--admin-address", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	hung := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()

	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		switch text := lines.Text(); {
		case strings.Contains(text, "protocol=admin"):
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		case strings.Contains(text, "not ready from now on"):
			go func() { // one that comes while the first is still being handled counts for nothing
				for cmd.Process.Signal(syscall.SIGTERM) == nil {
					time.Sleep(200 * time.Millisecond)
				}
			}()
		}
	}
	var exit *exec.ExitError
	require.True(t, errors.As(cmd.Wait(), &exit))
	require.Equal(t, syscall.SIGTERM, exit.Sys().(syscall.WaitStatus).Signal(), "not killed for hanging")
}
