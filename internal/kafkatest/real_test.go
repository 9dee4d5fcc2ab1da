package kafkatest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every release starts, names the coordinator of a key of each type that it
// knows, and leaves nothing behind.
func TestRealReleasesStartAnswerAndStop(t *testing.T) {
	EachRelease(t, func(t *testing.T, version string) {
		begin := time.Now()
		c := Start(t, Options{Version: version})
		t.Logf("%s started in %v", version, time.Since(begin).Round(100*time.Millisecond))
		begin = time.Now()
		require.NoError(t, c.Warm(t.Context()))
		t.Logf("%s warm after %v more", version, time.Since(begin).Round(100*time.Millisecond))

		b := c.Broker(1)
		r, err := parseRelease(version)
		require.NoError(t, err)
		for _, keyType := range r.keyTypes() {
			got, err := RawFind(b.Addr(), r.findCoordinator(), keyType, WellFormedKeys(keyType, "a", 1)[0])
			require.NoError(t, err)
			require.Equal(t, RawCoordinator{Node: 1, Host: "127.0.0.1", Port: int32(b.ports[plaintext])}, got)
		}
		require.NoError(t, c.Close())
		require.Empty(t, processesIn(t, c.Dir()))
		require.NoDirExists(t, c.Dir())
	})
}

// processesIn lists the processes whose command line names a folder.
func processesIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	var found []string
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(line), dir) {
			found = append(found, f)
		}
	}
	return found
}
