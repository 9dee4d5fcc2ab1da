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

	signals := 0
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if strings.Contains(lines.Text(), "protocol=admin") || strings.Contains(lines.Text(), "not ready from now on") {
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			signals++
		}
	}
	var exit *exec.ExitError
	require.True(t, errors.As(cmd.Wait(), &exit))
	require.Equal(t, 2, signals)
	require.Equal(t, syscall.SIGTERM, exit.Sys().(syscall.WaitStatus).Signal(), "not killed for hanging")
}
