package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/config"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/internal/server"
	"github.com/coordsvc/coordsvc/kafkawire"
)

func TestLookupTable(t *testing.T) {
	cluster := kafkatest.Fake(t, 3)
	addresses := cluster.ListenAddrs()
	got := call{
		args:  []string{"lookup", "--kafka-brokers", strings.Join(addresses, ","), "orders", "2147483646", "-", "--", "-odd"},
		stdin: "payments\r\n\norders\n",
	}.run(t)
	require.Equal(t, exitOK, got.code, got.err)
	lines := strings.Split(got.out, "\n")
	require.Equal(t, "KEY         COORDINATOR", lines[0])
	for i, key := range []string{"orders", "2147483646", "payments", "orders", "-odd"} {
		coordinator, err := kafkatest.RawFind(addresses[0], 6, 0, key)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%-10s  %s:%d (%d)", key, coordinator.Host, coordinator.Port, coordinator.Node), lines[i+1])
	}
	require.Equal(t, "", lines[6])
	require.Equal(t, "KEYS  BROKER", lines[7])
	require.Equal(t, "hint: "+coordinatorIDHint(2147483646)+"\n", got.err)
}

func TestLookupJSON(t *testing.T) {
	addresses := kafkatest.Fake(t, 3).ListenAddrs()
	for _, keyType := range []string{"group", "TRANSACTION", "share"} {
		t.Run(keyType, func(t *testing.T) {
			keys := []string{"orders:nT3i4OXyR0mr0my1RZx9pQ:0", "größe <&>:nT3i4OXyR0mr0my1RZx9pQ:12"}
			got := coordsvc(t, append([]string{"lookup", "--kafka-brokers", addresses[0], "-t", keyType, "-o", "json"}, keys...)...)
			require.Equal(t, exitOK, got.code, got.err)
			var response coordsvcv1.FindCoordinatorsResponse
			require.NoError(t, protojson.Unmarshal([]byte(got.out), &response))
			require.Len(t, response.GetResults(), 2)
			require.Equal(t, keys[1], response.GetResults()[1].GetKey())
			again, err := server.MarshalJSON(&response)
			require.NoError(t, err)
			require.Equal(t, string(again)+"\n", got.out, "the JSON of REST, byte for byte")
		})
	}
}

// What is silent to all three questions is reported as that, not as untried.
func TestBrokersOfASilentCluster(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	got := coordsvc(t, "brokers", "--kafka-brokers", silent.Addr().String(), "--timeout", "3s")
	require.Equal(t, exitUnreachable, got.code, got.err)
	require.Regexp(t, `down +- .*DEADLINE_EXCEEDED: .*Metadata v0: no answer within 750ms`, got.out)
}

func TestLookupOfManyKeys(t *testing.T) {
	addresses := kafkatest.Fake(t, 3).ListenAddrs()
	var in strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&in, "group-%d\n", i)
	}
	got := call{args: []string{"lookup", "--kafka-brokers", addresses[0], "--lookup-max-keys=1000", "-o", "json", "-"}, stdin: in.String()}.run(t)
	require.Equal(t, exitOK, got.code, got.err)
	var response coordsvcv1.FindCoordinatorsResponse
	require.NoError(t, protojson.Unmarshal([]byte(got.out), &response))
	require.Len(t, response.GetResults(), 2500)
	require.Equal(t, "group-2499", response.GetResults()[2499].GetKey())
	require.Empty(t, got.err, "no progress where nobody looks")
}

func TestLookupWithAFailedKey(t *testing.T) {
	stub := kafkatest.NewStub(t, kafkatest.StubConfig{Node: 7})
	stub.SetCoordinator(func(_ kafkawire.KeyType, key string) kafkawire.Coordinator {
		if key == "secret" {
			return kafkatest.NoCoordinator(kafkawire.ErrGroupAuthorizationFailed)
		}
		return kafkatest.CoordinatorAt(stub.Broker())
	})
	brokers := "--kafka-brokers=" + kafkatest.Addrs(stub)[0]
	got := coordsvc(t, "lookup", brokers, "orders", "secret")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "orders  "+kafkatest.Addrs(stub)[0]+" (7)\n")
	require.Contains(t, got.out, "secret  GROUP_AUTHORIZATION_FAILED: ")
	require.Contains(t, got.out, "\n   1  failed\n")
	require.Empty(t, got.err, "the table has said it")

	got = coordsvc(t, "lookup", brokers, "-o", "json", "orders", "secret")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, `"failed":1}`)
}

func TestLookupWithoutACluster(t *testing.T) {
	got := coordsvc(t, "lookup", "--kafka-brokers=127.0.0.1:1", "--timeout=100ms", "orders")
	require.Equal(t, exitUnreachable, got.code)
	require.Empty(t, got.out)
	require.Contains(t, got.err, "127.0.0.1:1")
	require.Equal(t, 1, strings.Count(got.err, "\n"), "one plain sentence")
}

func TestLookupOfSomethingElse(t *testing.T) {
	web := http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = web.Serve(listener) }()
	t.Cleanup(func() { web.Close() })
	got := coordsvc(t, "lookup", "--kafka-brokers", listener.Addr().String(), "--timeout=2s", "orders")
	require.Equal(t, exitUnreachable, got.code)
	require.Contains(t, got.err, listener.Addr().String())
}

func TestLookupIsInterruptedAtOnce(t *testing.T) {
	stub := kafkatest.NewStub(t, kafkatest.StubConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stub.On(kafkawire.APIKeyFindCoordinator, func(*kafkatest.Request) { cancel() }) // and no answer
	var out, stderr bytes.Buffer
	began := time.Now()
	code := run(ctx, []string{"coordsvc", "lookup", "--kafka-brokers", kafkatest.Addrs(stub)[0], "--timeout=30s", "k"}, streams{strings.NewReader(""), &out, &stderr}, nil)
	require.Equal(t, exitInterrupted, code)
	require.Less(t, time.Since(began), 5*time.Second)
	require.Empty(t, out.String())
	require.Empty(t, stderr.String())
}

// background runs a command until the test stops it.
type background struct {
	out, err lockedBuffer
	stop     context.CancelFunc
	code     chan int
}

func start(t *testing.T, args ...string) *background {
	t.Helper()
	b := &background{code: make(chan int, 1)}
	var ctx context.Context
	ctx, b.stop = context.WithCancel(t.Context())
	t.Cleanup(b.stop)
	go func() {
		b.code <- run(ctx, append([]string{"coordsvc"}, args...), streams{strings.NewReader(""), &b.out, &b.err}, nil)
	}()
	return b
}

// waitFor returns what the pattern captures in what the command has printed.
func (b *background) waitFor(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var match []string
	require.Eventually(t, func() bool {
		match = re.FindStringSubmatch(b.out.String() + b.err.String())
		return match != nil
	}, 10*time.Second, 5*time.Millisecond, "waiting for %s", pattern)
	return match
}

func (b *background) end(t *testing.T) int {
	t.Helper()
	b.stop()
	select {
	case code := <-b.code:
		return code
	case <-time.After(10 * time.Second):
		t.Fatal("the command does not stop")
		return 0
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func TestServe(t *testing.T) {
	brokers := strings.Join(kafkatest.Fake(t, 3).ListenAddrs(), ",")
	b := start(t, "serve", "--kafka-brokers", brokers, "--grpc-address=127.0.0.1:0", "--http-address=127.0.0.1:0", "--admin-address=127.0.0.1:0",
		"--shutdown-drain-delay=0s", "--log-format=json")
	grpcAddress := b.waitFor(t, `"protocol":"gRPC","address":"([^"]+)"`)[1]
	rest := b.waitFor(t, `"protocol":"REST","address":"([^"]+)"`)[1]
	admin := b.waitFor(t, `"protocol":"admin","address":"([^"]+)"`)[1]

	require.Eventually(t, func() bool {
		return coordsvc(t, "healthcheck", "--ready", "--admin-address", admin).code == exitOK
	}, 10*time.Second, 10*time.Millisecond)

	status, body := get(t, "http://"+rest+"/v1/coordinators?keys=orders&keys=payments")
	require.Equal(t, http.StatusOK, status)
	lookup := coordsvc(t, "lookup", "--kafka-brokers", brokers, "-o", "json", "orders", "payments")
	require.Equal(t, withoutBroker(t, lookup.out), withoutBroker(t, body), "lookup prints what REST answers")

	conn, err := grpc.NewClient(grpcAddress, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	answer, err := coordsvcv1.NewCoordinatorServiceClient(conn).GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: "orders"})
	require.NoError(t, err)
	require.Equal(t, "orders", answer.GetResult().GetKey())
	require.NoError(t, conn.Close())

	require.Equal(t, exitOK, b.end(t), b.err.String())
}

// withoutBroker leaves out which of the brokers answered: any may.
func withoutBroker(t *testing.T, text string) any {
	t.Helper()
	var answer struct {
		Results []map[string]any
		Failed  int
	}
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	for _, result := range answer.Results {
		require.NotEmpty(t, result["answeredBy"])
		delete(result, "answeredBy")
	}
	return answer
}

func TestServeOnATakenPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	got := coordsvc(t, "serve", "--kafka-brokers=127.0.0.1:1", "--grpc-address=127.0.0.1:0", "--admin-address=127.0.0.1:0", "--http-address", listener.Addr().String())
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "http.address")
	require.Contains(t, got.err, "address already in use")
}

// The service starts while Kafka is down.
func TestServeWithoutKafka(t *testing.T) {
	b := start(t, "serve", "--kafka-brokers=127.0.0.1:1", "--grpc-address=127.0.0.1:0", "--http-address=127.0.0.1:0", "--admin-address=127.0.0.1:0", "--shutdown-drain-delay=0s")
	admin := b.waitFor(t, `protocol=admin address=(\S+)`)[1]
	require.Equal(t, exitOK, coordsvc(t, "healthcheck", "--admin-address", admin).code)
	require.Equal(t, exitFailed, coordsvc(t, "healthcheck", "--ready", "--admin-address", admin).code)
	require.Equal(t, exitOK, b.end(t))
}

// Each line that demo prints is run as it stands.
func TestDemo(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:8080")
	if err == nil {
		defer busy.Close()
	} // else something else has the port, which is as good
	file := filepath.Join(t.TempDir(), "coordsvc.yaml") // of a real service, whose cluster needs more to connect to
	require.NoError(t, os.WriteFile(file, []byte("kafka: {brokers: ['a:1'], tls: {enabled: true}, sasl: {mechanism: PLAIN}}\nlookup: {max-keys: 2}\n"), 0o600))
	b := start(t, "demo", "--config", file, "--grpc-address=127.0.0.1:0", "--admin-address=127.0.0.1:0")
	b.waitFor(t, "Ctrl-C ends it")
	printed := b.out.String()
	require.Contains(t, printed, "REST is not at the usual 127.0.0.1:8080, which is taken.")
	require.Regexp(t, `(?m)^orders +127\.0\.0\.1:\d+ \(\d\)$`, printed)

	_, commands, _ := strings.Cut(printed, "Try, in another terminal:\n\n")
	commands, _, _ = strings.Cut(commands, "\n\n")
	lines := strings.Split(commands, "\n")
	require.Len(t, lines, 6)
	for _, line := range lines {
		t.Run(strings.Fields(line)[0], func(t *testing.T) { runDemoLine(t, strings.TrimSpace(line)) })
	}
	require.Equal(t, exitOK, b.end(t))
	require.Empty(t, b.err.String())
}

func runDemoLine(t *testing.T, line string) {
	program, arguments, _ := strings.Cut(line, " ")
	if program == "coordsvc" {
		got := coordsvc(t, strings.Fields(arguments)...)
		require.Equal(t, exitOK, got.code, got.err)
		require.Contains(t, got.out, "orders")
		return
	}
	path, err := exec.LookPath(program)
	if built := filepath.Join("..", "..", ".tools", program); err != nil && isFile(built) {
		path, err = built, nil
	}
	if err != nil {
		t.Skipf("%s is not here to run the line that demo prints: %s", program, line)
	}
	out, err := exec.Command("sh", "-c", path+" "+arguments).Output()
	require.NoError(t, err, line)
	require.True(t, json.Valid(out), "%s answered %s", line, out)
	require.NotContains(t, string(out), `"message"`, line)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func TestOwnCommand(t *testing.T) {
	require.Equal(t, "coordsvc", ownCommand("coordsvc"))
	require.Equal(t, "./coordsvc", ownCommand("./coordsvc"))
	require.Equal(t, "go run ./cmd/coordsvc", ownCommand(filepath.Join(os.TempDir(), "go-build123", "b001", "exe", "coordsvc")))
	require.Equal(t, "'./my tools/coordsvc'", ownCommand("./my tools/coordsvc"))
}

func TestShellWord(t *testing.T) {
	require.Equal(t, "127.0.0.1:9090", shellWord("127.0.0.1:9090"))
	require.Equal(t, "'[::1]:9090'", shellWord("[::1]:9090"))
	for _, text := range []string{"", "a b", "it's", "$HOME", "~", "größe", `\`, "*", "a\nb"} {
		out, err := exec.Command("sh", "-c", "printf %s "+shellWord(text)).Output()
		require.NoError(t, err)
		require.Equal(t, text, string(out))
	}
}

// Every setting that is a secret is set, and seen nowhere.
func TestSecretsAreNotShown(t *testing.T) {
	const secret = "hunter2"
	env := []string{"COORDSVC_KAFKA_BROKERS=127.0.0.1:1"}
	for s := range config.All() {
		if s.Secret {
			env = append(env, s.Env()+"="+secret)
		}
	}
	for _, format := range []string{"table", "json", "yaml"} {
		got := call{args: []string{"config", "-o", format}, env: env}.run(t)
		require.NotContains(t, got.out+got.err, secret)
		require.Contains(t, got.out, "127.0.0.1:1")
	}
	loaded, _ := config.Load(config.Sources{Environ: env}) // some secrets ask for other settings: no matter
	o := &observation{}
	var cfg server.Config
	require.NoError(t, o.show(&cfg, loaded))
	require.NotContains(t, string(cfg.Settings), secret)
	require.Contains(t, string(cfg.Settings), "127.0.0.1:1")
}

// The ends of the certificates that callers and brokers are shown.
func TestCertificatesAreSeen(t *testing.T) {
	authority := kafkatest.NewAuthority(t, "ca")
	ends := func(days int) time.Time {
		return time.Now().Add(time.Duration(days) * 24 * time.Hour).Truncate(time.Second)
	}
	args := []string{"serve", "--kafka-brokers=127.0.0.1:1", "--grpc-address=127.0.0.1:0", "--http-address=127.0.0.1:0",
		"--admin-address=127.0.0.1:0", "--shutdown-drain-delay=0s", "--log-format=json"}
	for setting, days := range map[string]int{"tls": 3, "kafka-tls": 5} {
		c := authority.IssueUntil(ends(days), "localhost")
		for kind, content := range map[string][]byte{"cert": c.CertPEM, "key": c.KeyPEM} {
			path := filepath.Join(t.TempDir(), kind)
			require.NoError(t, os.WriteFile(path, content, 0o600))
			args = append(args, "--"+setting+"-"+kind+"-file="+path)
		}
		args = append(args, "--"+setting+"-enabled")
	}
	b := start(t, args...)
	admin := b.waitFor(t, `"protocol":"admin","address":"([^"]+)"`)[1]
	_, metrics := get(t, "http://"+admin+"/metrics")
	for name, days := range map[string]int{"server": 3, "kafka": 5} {
		found := regexp.MustCompile(`coordsvc_certificate_not_after_seconds\{certificate="` + name + `"\} (\S+)`).FindStringSubmatch(metrics)
		require.NotNil(t, found, name)
		seconds, err := strconv.ParseFloat(found[1], 64)
		require.NoError(t, err)
		require.InDelta(t, float64(ends(days).Unix()), seconds, 60, name)
	}
}

// What serve shows of itself on the admin port; spans that cannot be delivered do not hold up its end.
func TestServeIsSeen(t *testing.T) {
	brokers := strings.Join(kafkatest.Fake(t, 3).ListenAddrs(), ",")
	b := start(t, "serve", "--kafka-brokers", brokers, "--grpc-address=127.0.0.1:0", "--http-address=127.0.0.1:0", "--admin-address=127.0.0.1:0",
		"--shutdown-drain-delay=0s", "--log-format=json", "--tracing-endpoint=http://127.0.0.1:1", "--tracing-sample-ratio=1", "--admin-pprof")
	rest := b.waitFor(t, `"protocol":"REST","address":"([^"]+)"`)[1]
	admin := b.waitFor(t, `"protocol":"admin","address":"([^"]+)"`)[1]
	require.Eventually(t, func() bool {
		status, _ := get(t, "http://"+rest+"/v1/coordinators/GROUP/orders")
		return status == http.StatusOK
	}, 10*time.Second, 10*time.Millisecond)

	_, metrics := get(t, "http://"+admin+"/metrics")
	require.Regexp(t, `coordsvc_keys_total\{key_type="GROUP",outcome="FOUND"\} [1-9]`, metrics)
	require.Contains(t, metrics, `coordsvc_ready 1`)
	require.Contains(t, metrics, `coordsvc_build_info{commit="`)
	_, settings := get(t, "http://"+admin+"/configz")
	require.Contains(t, settings, `"setting": "tracing.endpoint"`)
	require.Contains(t, settings, `"value": "http://127.0.0.1:1"`)
	status, _ := get(t, "http://"+admin+"/debug/pprof/heap")
	require.Equal(t, http.StatusOK, status)
	b.waitFor(t, `"trace_id":"`)

	began := time.Now()
	require.Equal(t, exitOK, b.end(t), b.err.String())
	require.Less(t, time.Since(began), 8*time.Second)
}
