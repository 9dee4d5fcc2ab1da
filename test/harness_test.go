package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// program is the binary, built once for all tests of the package.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "coordsvc-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "coordsvc")
		build := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", program, "../cmd/coordsvc")...)
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "cannot build coordsvc: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// command runs the program without the settings that this environment happens to have.
func command(args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "COORDSVC_") })
	return cmd
}

// A process is a running coordsvc.
type process struct {
	cmd *exec.Cmd
	// addresses by protocol: gRPC, REST, admin.
	addresses map[string]string
	exited    chan error

	mu  sync.Mutex
	log bytes.Buffer
}

// serve starts "coordsvc serve" on free ports and returns once it listens. It is
// stopped at the end of the test, which fails if it does not stop in order or logs a data race.
func serve(t testing.TB, bootstrap []string, flags ...string) *process {
	t.Helper()
	args := append([]string{"serve", "--kafka-brokers", strings.Join(bootstrap, ","),
		"--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--admin-address", "127.0.0.1:0",
		"--log-format", "json", "--shutdown-drain-delay", "0s"}, flags...)
	p := &process{cmd: command(args...), addresses: map[string]string{}, exited: make(chan error, 1)}
	stderr, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	listening := make(chan struct{})
	go p.follow(stderr, listening)
	t.Cleanup(func() { p.stop(t) })
	select {
	case <-listening:
	case err := <-p.exited:
		p.exited <- err
		t.Fatalf("coordsvc serve ended: %v\n%s", err, p.logged())
	case <-time.After(30 * time.Second):
		t.Fatalf("coordsvc serve does not listen after 30 s\n%s", p.logged())
	}
	return p
}

// follow keeps the log and picks the addresses out of it.
func (p *process) follow(stderr io.Reader, listening chan<- struct{}) {
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Msg, Protocol, Address string }
		_ = json.Unmarshal(lines.Bytes(), &line)
		if strings.HasPrefix(line.Msg, "call") {
			continue // a line a call would bury the others
		}
		p.mu.Lock()
		p.log.Write(lines.Bytes())
		p.log.WriteByte('\n')
		if line.Msg == "listening" {
			p.addresses[line.Protocol] = line.Address
			if len(p.addresses) == 3 {
				close(listening)
			}
		}
		p.mu.Unlock()
	}
	p.exited <- p.cmd.Wait()
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *process) stop(t testing.TB) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.exited:
		if err != nil {
			t.Errorf("coordsvc serve ended with %v\n%s", err, p.logged())
		}
		p.exited <- err
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		t.Errorf("coordsvc serve does not stop\n%s", p.logged())
	}
	if strings.Contains(p.logged(), "DATA RACE") {
		t.Errorf("data race in coordsvc serve\n%s", p.logged())
	}
}

// ready waits until /readyz says yes.
func (p *process) ready(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool {
		resp, err := http.Get("http://" + p.addresses["admin"] + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, 20*time.Second, 20*time.Millisecond, "not ready\n%s", p.logged())
}

// A row is what any of the ways to ask says of one key.
type row struct {
	Key    string
	Node   int32
	Addr   string
	Reason string
}

// client asks p over gRPC.
func (p *process) client(t testing.TB) coordsvcv1.CoordinatorServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(p.addresses["gRPC"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return coordsvcv1.NewCoordinatorServiceClient(conn)
}

// A question is about keys of one type; timeout 0 leaves the default.
type question struct {
	keyType coordsvcv1.KeyType
	keys    []string
	timeout time.Duration
}

func (q question) request() *coordsvcv1.FindCoordinatorsRequest {
	req := &coordsvcv1.FindCoordinatorsRequest{KeyType: q.keyType, Keys: q.keys}
	if q.timeout > 0 {
		req.Timeout = durationpb.New(q.timeout)
	}
	return req
}

func (q question) send(t testing.TB, client coordsvcv1.CoordinatorServiceClient) *coordsvcv1.FindCoordinatorsResponse {
	t.Helper()
	resp, err := client.FindCoordinators(context.Background(), q.request())
	require.NoError(t, err)
	return resp
}

// post asks p over REST.
func (q question) post(p *process) (*http.Response, error) {
	body, err := protojson.Marshal(q.request())
	if err != nil {
		return nil, err
	}
	return http.Post("http://"+p.addresses["REST"]+"/v1/coordinators:find", "application/json", bytes.NewReader(body))
}

// An asker is one way to ask.
type asker struct {
	name string
	ask  func(t testing.TB, q question) []row
}

// askers are all ways to ask the service p, and the command line, with flags, on the cluster.
func askers(t testing.TB, p *process, bootstrap []string, flags ...string) []asker {
	t.Helper()
	client := p.client(t)
	return []asker{
		{"gRPC", func(t testing.TB, q question) []row {
			t.Helper()
			return rowsOf(t, q.send(t, client))
		}},
		{"REST", func(t testing.TB, q question) []row {
			t.Helper()
			resp, err := q.post(p)
			require.NoError(t, err)
			return rowsOf(t, decode(t, resp))
		}},
		{"command line", func(t testing.TB, q question) []row {
			t.Helper()
			return rowsOf(t, q.run(t, bootstrap, flags))
		}},
	}
}

// run asks a cluster through the command line: keys as arguments, many on standard input.
func (q question) run(t testing.TB, bootstrap, flags []string) *coordsvcv1.FindCoordinatorsResponse {
	t.Helper()
	args := append([]string{"lookup", "--kafka-brokers", strings.Join(bootstrap, ","), "-t", strings.ToLower(q.keyType.String()), "-o", "json"}, flags...)
	if q.timeout > 0 {
		args = append(args, "--timeout", q.timeout.String())
	}
	cmd := command(append(append(slices.Clone(args), "--"), q.keys...)...)
	if len(q.keys) > 100 {
		cmd = command(append(args, "-")...)
		cmd.Stdin = strings.NewReader(strings.Join(q.keys, "\n") + "\n")
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != 1 {
		t.Fatalf("coordsvc lookup: %v\n%s", err, stderr.String())
	}
	resp := new(coordsvcv1.FindCoordinatorsResponse)
	require.NoError(t, protojson.Unmarshal(out, resp), "%s", out)
	return resp
}

// getOne asks for one key by REST in the form with the key in the path.
func getOne(t testing.TB, p *process, q question) (int, *coordsvcv1.CoordinatorResult, string) {
	t.Helper()
	where := "http://" + p.addresses["REST"] + "/v1/coordinators/" + q.keyType.String() + "/" + url.PathEscape(q.keys[0])
	if q.timeout > 0 {
		where += "?timeout=" + q.timeout.String()
	}
	resp, err := http.Get(where)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	var got coordsvcv1.GetCoordinatorResponse
	if resp.StatusCode == http.StatusOK {
		require.NoError(t, protojson.Unmarshal(body, &got), "%s", body)
	}
	return resp.StatusCode, got.GetResult(), string(body)
}

func decode(t testing.TB, resp *http.Response) *coordsvcv1.FindCoordinatorsResponse {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", body)
	m := new(coordsvcv1.FindCoordinatorsResponse)
	require.NoError(t, protojson.Unmarshal(body, m))
	return m
}

func rowsOf(t testing.TB, resp *coordsvcv1.FindCoordinatorsResponse) []row {
	t.Helper()
	rows := make([]row, len(resp.GetResults()))
	failed := 0
	for i, r := range resp.GetResults() {
		rows[i] = row{Key: r.GetKey()}
		if e := r.GetError(); e != nil {
			rows[i].Reason = e.GetReason()
			failed++
			continue
		}
		c := r.GetCoordinator()
		rows[i].Node, rows[i].Addr = c.GetNodeId(), fmt.Sprintf("%s:%d", c.GetHost(), c.GetPort())
	}
	require.EqualValues(t, failed, resp.GetFailed())
	return rows
}
