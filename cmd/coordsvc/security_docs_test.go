package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSecurityDocs runs the steps of docs/security.md as they stand there, but for
// the ports, which others may use.
func TestSecurityDocs(t *testing.T) {
	for _, tool := range []string{"bash", "openssl", "curl", "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the steps of docs/security.md need %s, which is not here", tool)
		}
	}
	text, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	var steps strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(text, -1) {
		steps.Write(block[1])
	}
	script := steps.String()
	require.Equal(t, 5, strings.Count(script, "coordsvc serve"), "each section starts the service")
	for _, port := range []string{"8080", "8000"} {
		script = strings.ReplaceAll(script, ":"+port, ":"+freePort(t))
		if port == "8000" {
			script = strings.ReplaceAll(script, "issuer 8000", "issuer "+regexp.MustCompile(`"issuer":"http://localhost:(\d+)"`).FindStringSubmatch(script)[1])
		}
	}

	dir := t.TempDir()
	binary := filepath.Join(dir, "bin", "coordsvc")
	build, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", build)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"), "HOME=" + dir,
		"COORDSVC_GRPC_ADDRESS=127.0.0.1:0", "COORDSVC_ADMIN_ADDRESS=127.0.0.1:" + freePort(t),
		"COORDSVC_HTTP_ADDRESS=127.0.0.1:" + regexp.MustCompile(`https://localhost:(\d+)`).FindStringSubmatch(script)[1],
		"COORDSVC_SHUTDOWN_DRAIN_DELAY=0s",
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	got := string(out)
	require.Contains(t, got, "the settings are good")
	require.Equal(t, 4, strings.Count(got, `{"brokers":[`), got)
	require.Contains(t, got, "without a token: 401")
	require.Contains(t, got, `"cause":"KEY_NOT_ALLOWED"`)
	require.Contains(t, got, "refused without a certificate")
	require.NotContains(t, got, "level=WARN msg=\"listening beyond")
	require.NotContains(t, got, "level=WARN msg=\"every user")
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
