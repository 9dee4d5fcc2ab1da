package kafkatest

import (
	"bufio"
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// Every release starts, offers what ReleaseAPIs says, names the coordinator of a
// key of each type that it knows, and leaves nothing behind.
func TestKafkaReleasesStartAnswerAndStop(t *testing.T) {
	EachRelease(t, func(t *testing.T, version string) {
		r, err := parseRelease(version)
		require.NoError(t, err)
		_, err = jars(t.Context(), r)
		require.NoError(t, err)

		begin := time.Now()
		c := Start(t, Options{Version: version})
		started := time.Since(begin)
		begin = time.Now()
		require.NoError(t, c.Warm(t.Context()))
		t.Logf("Kafka %s started in %.1f s, and was warm after %.1f s more", version, started.Seconds(), time.Since(begin).Seconds())

		b := c.Broker(1)
		require.Equal(t, c.Bootstrap(), []string{b.Addr()})
		for _, keyType := range r.keyTypes() {
			got, err := RawFind(b.Addr(), r.findCoordinator(), keyType, WellFormedKeys(keyType, "a", 1)[0])
			require.NoError(t, err)
			require.Equal(t, RawCoordinator{Node: 1, Host: "127.0.0.1", Port: int32(b.ports[plaintext])}, got)
		}
		if r.atLeast(0, 10) { // below there is no ApiVersions
			offered := offeredBy(t, b.Addr())
			for key, versions := range r.offers() {
				require.Equal(t, versions, offered[key], "%v", key)
			}
			require.Len(t, r.offers(), len(offered))
		}

		require.NoError(t, c.Close())
		require.Empty(t, processesIn(t, c.Dir()))
		require.NoDirExists(t, c.Dir())
	})
}

// offeredBy asks a broker for the versions of the APIs that this project speaks.
func offeredBy(t *testing.T, addr string) map[kafkawire.APIKey]kafkawire.VersionRange {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	request := appendRawHeader(nil, 18, 0, 1)
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	_, err = conn.Write(request)
	require.NoError(t, err)
	in, err := readRawFrame(conn, 1)
	require.NoError(t, err)
	require.Zero(t, in.int16())
	offered := make(map[kafkawire.APIKey]kafkawire.VersionRange)
	for range in.int32() {
		key, low, high := in.int16(), in.int16(), in.int16()
		if _, ours := offers[kafkawire.APIKey(key)]; ours {
			offered[kafkawire.APIKey(key)] = kafkawire.VersionRange{Min: kafkawire.Version(low), Max: kafkawire.Version(high)}
		}
	}
	require.NoError(t, in.end())
	return offered
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

// One of three brokers is paused, killed, stopped and restarted; the others name
// a new coordinator for its keys, and it comes back on the same port.
func TestKafkaBrokerLoss(t *testing.T) {
	for _, version := range []string{"2.8.2"} { // on 4.4.0 the tests of coordsvc itself do all this
		t.Run("kafka-"+version, func(t *testing.T) {
			RequireReal(t, version)
			begin := time.Now()
			c := Start(t, Options{Version: version, Brokers: 3, SessionTimeout: 3 * time.Second})
			t.Logf("three brokers of Kafka %s started in %.1f s", version, time.Since(begin).Seconds())
			require.NoError(t, c.Warm(t.Context()))
			lost, other := c.Broker(2), c.Broker(1)
			key := keyOf(t, other, lost.ID)

			begin = time.Now()
			lost.Kill()
			_, err := net.Dial("tcp", lost.Addr())
			require.ErrorContains(t, err, "refused")
			require.Eventually(t, func() bool { return coordinatorOf(other, key) != lost.ID }, 30*time.Second, 100*time.Millisecond)
			t.Logf("another broker is named %.1f s after the kill", time.Since(begin).Seconds())

			begin = time.Now()
			require.NoError(t, lost.Restart(t.Context()))
			t.Logf("restarted in %.1f s", time.Since(begin).Seconds())
			require.NoError(t, c.Warm(t.Context()))

			require.NoError(t, lost.Pause())
			_, err = rawBrokers(lost.Addr(), 500*time.Millisecond)
			require.ErrorContains(t, err, "timeout")
			require.NoError(t, lost.Resume())
			require.NoError(t, lost.waitReady(t.Context(), []int32{1, 2, 3}))

			begin = time.Now()
			require.NoError(t, lost.Stop())
			t.Logf("stopped in %.1f s", time.Since(begin).Seconds())
			require.NoError(t, lost.Restart(t.Context()))
			require.NoError(t, lost.Pause()) // Close must not wait for a paused broker
		})
	}
}

func coordinatorOf(b *Broker, key string) int32 {
	found, err := b.findAll(0, []string{key})
	if err != nil {
		return -1
	}
	return found[0].Node
}

// keyOf finds a group that a node coordinates.
func keyOf(t *testing.T, b *Broker, node int32) string {
	t.Helper()
	keys := WellFormedKeys(0, "lost", 200)
	found, err := b.findAll(0, keys)
	require.NoError(t, err)
	for i, f := range found {
		if f.Node == node {
			return keys[i]
		}
	}
	t.Fatalf("broker %d coordinates none of %d groups", node, len(keys))
	return ""
}

// Three releases in one cluster answer alike, and one of them is upgraded.
func TestKafkaMixedReleases(t *testing.T) {
	RequireReal(t, "2.8.2", "3.7.2")
	c := Start(t, Options{Versions: []string{"2.8.2", "3.7.2", "2.8.2"}})
	require.NoError(t, c.Warm(t.Context()))
	require.NoError(t, c.Broker(3).RestartAs(t.Context(), "3.7.2"))
	require.Equal(t, "3.7.2", c.Broker(3).Version())
	require.NoError(t, c.Warm(t.Context()))
	require.Equal(t, kafkawire.Version(3), offeredBy(t, c.Broker(1).Addr())[kafkawire.APIKeyFindCoordinator].Max)
	require.Equal(t, kafkawire.Version(4), offeredBy(t, c.Broker(3).Addr())[kafkawire.APIKeyFindCoordinator].Max)
}

// A second listener with SCRAM users comes from options alone.
func TestKafkaExtraListener(t *testing.T) {
	RequireReal(t, "4.4.0")
	const scram = "listener.name.clients.scram-sha-256.sasl.jaas.config"
	c := Start(t, Options{
		Version:   "4.4.0",
		Listeners: []Listener{{Name: "CLIENTS", Protocol: "SASL_PLAINTEXT"}},
		Properties: map[string]string{
			"sasl.enabled.mechanisms": "SCRAM-SHA-256",
			scram:                     "org.apache.kafka.common.security.scram.ScramLoginModule required;",
		},
		FormatArgs: []string{"--add-scram", "SCRAM-SHA-256=[name=alice,password=secret]"},
	})
	clients := c.BootstrapOf("CLIENTS")[0]
	require.NotEqual(t, c.Bootstrap()[0], clients)
	require.Contains(t, offeredBy(t, clients), kafkawire.APIKeySaslHandshake)
	_, err := rawBrokers(clients, time.Second) // refused before authentication
	require.Error(t, err)
}

// A broker that cannot start is reported with the end of its log, and is gone.
func TestKafkaBadSettings(t *testing.T) {
	for _, test := range []struct{ version, property, value, says string }{
		{"4.4.0", "num.io.threads", "none", "storage format"},
		{"4.4.0", "authorizer.class.name", "no.such.Class", "no.such.Class"},
		{"1.1.1", "authorizer.class.name", "no.such.Class", "no.such.Class"},
	} {
		t.Run(test.version+" "+test.property, func(t *testing.T) {
			RequireReal(t, test.version)
			dir := t.TempDir()
			_, err := Launch(t.Context(), Options{Version: test.version, Dir: dir, Properties: map[string]string{test.property: test.value}})
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, "Kafka "+test.version)
			require.Empty(t, processesIn(t, dir))
		})
	}
}

// A test binary that is killed takes its brokers along.
func TestKafkaNothingSurvivesTheTestBinary(t *testing.T) {
	const role = "COORDSVC_KAFKATEST_LAUNCH_IN"
	if dir := os.Getenv(role); dir != "" { // the process to be killed
		_, err := Launch(t.Context(), Options{Version: "1.1.1", Dir: dir})
		os.Stdout.WriteString("launched\n")
		require.NoError(t, err)
		select {}
	}
	RequireReal(t, "1.1.1")
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), role+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "launched" {
	}
	require.NotEmpty(t, processesIn(t, dir), "ZooKeeper and the broker run")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool { return len(processesIn(t, dir)) == 0 }, 10*time.Second, 50*time.Millisecond)
}
