//go:build linux

package test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
)

// attacker is an HTTP/2 connection whose frames are sent one by one.
type attacker struct {
	net.Conn
	*http2.Framer

	headers bytes.Buffer
	encoder *hpack.Encoder
	stream  uint32
}

func attack(address string, settings ...http2.Setting) (*attacker, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	a := &attacker{Conn: conn, Framer: http2.NewFramer(conn, conn), stream: 1}
	a.encoder = hpack.NewEncoder(&a.headers)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	return a, a.WriteSettings(settings...)
}

// open begins a call on a new stream; the last is a.stream-2.
func (a *attacker) open(endHeaders bool, more ...hpack.HeaderField) error {
	a.headers.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: coordsvcv1.CoordinatorService_FindCoordinators_FullMethodName},
		{Name: ":authority", Value: "coordsvc"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}, more...) {
		_ = a.encoder.WriteField(f)
	}
	a.stream += 2
	return a.WriteHeaders(http2.HeadersFrameParam{StreamID: a.stream - 2, BlockFragment: a.headers.Bytes(), EndHeaders: endHeaders})
}

// read takes what the server says, until it says no more.
func (a *attacker) read() {
	for {
		if _, err := a.ReadFrame(); err != nil {
			return
		}
	}
}

// TestAttacks does to the three ports what no decent client does, and looks at what
// is left of it: the server answers, and has no goroutine, no descriptor and no call
// more than before.
func TestAttacks(t *testing.T) {
	fake := kafkatest.Fake(t, 3)
	service := serve(t, fake.ListenAddrs(), "--admin-pprof", "--log-level", "info")
	service.ready(t)
	client := service.client(t)
	ask := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := client.GetCoordinator(ctx, &coordsvcv1.GetCoordinatorRequest{Key: "orders"})
		return err
	}
	for range 50 {
		require.NoError(t, ask())
	}
	manyKeys := &coordsvcv1.FindCoordinatorsRequest{Keys: kafkatest.WellFormedKeys(0, "attack", 10_000)}
	many, err := proto.Marshal(manyKeys)
	require.NoError(t, err)
	message := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(many))), many...)
	grpcPort, restPort, adminPort := service.addresses["gRPC"], service.addresses["REST"], service.addresses["admin"]
	before := service.left(t)
	const brokerConnections = 3 * 4 // that the attacks may have the pool open

	for _, c := range []struct {
		name        string
		connections int
		attack      func() error
	}{
		{"HTTP/2 rapid reset", 4, func() error {
			a, err := attack(grpcPort)
			if err != nil {
				return err
			}
			defer a.Close()
			go a.read()
			for range 10_000 {
				if a.open(true) != nil || a.WriteRSTStream(a.stream-2, http2.ErrCodeCancel) != nil {
					return nil // it has had enough
				}
			}
			return nil
		}},
		{"CONTINUATION without end", 4, func() error {
			a, err := attack(grpcPort)
			if err != nil {
				return err
			}
			defer a.Close()
			go a.read()
			if err := a.open(false); err != nil {
				return err
			}
			for range 2_000 {
				a.headers.Reset()
				_ = a.encoder.WriteField(hpack.HeaderField{Name: "x-more", Value: strings.Repeat("x", 8<<10), Sensitive: true})
				if a.WriteContinuation(a.stream-2, false, a.headers.Bytes()) != nil {
					return nil
				}
			}
			return fmt.Errorf("the server took 16 MB of headers")
		}},
		{"header that unpacks to much", 4, func() error {
			a, err := attack(grpcPort)
			if err != nil {
				return err
			}
			defer a.Close()
			go a.read()
			large := hpack.HeaderField{Name: "x-large", Value: strings.Repeat("x", 3<<10)} // fits the table: then a byte each
			for range 200 {
				fields := make([]hpack.HeaderField, 2_000)
				for i := range fields {
					fields[i] = large
				}
				if a.open(true, fields...) != nil {
					return nil
				}
			}
			return nil
		}},
		{"PING flood", 4, func() error {
			a, err := attack(grpcPort)
			if err != nil {
				return err
			}
			defer a.Close()
			go a.read()
			for range 50_000 {
				if a.WritePing(false, [8]byte{}) != nil {
					return nil
				}
			}
			return nil
		}},
		{"SETTINGS flood, unread", 4, func() error {
			a, err := attack(grpcPort)
			if err != nil {
				return err
			}
			defer a.Close()
			_ = a.SetWriteDeadline(time.Now().Add(3 * time.Second))
			for range 200_000 {
				if a.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 14}) != nil {
					return nil
				}
			}
			return nil
		}},
		{"calls without a message", 4, func() error {
			a, err := attack(grpcPort)
			if err != nil {
				return err
			}
			defer a.Close()
			go a.read()
			for range 400 {
				if err := a.open(true); err != nil {
					return err
				}
			}
			time.Sleep(200 * time.Millisecond)
			return nil
		}},
		{"answers that are not read", 10, func() error {
			a, err := attack(grpcPort, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			if err != nil {
				return err
			}
			defer a.Close()
			go a.read()
			for range 10 {
				if err := a.open(true); err != nil {
					return err
				}
				for rest := message; len(rest) > 0; {
					n := min(len(rest), 1<<14)
					if err := a.WriteData(a.stream-2, n == len(rest), rest[:n]); err != nil {
						return err
					}
					rest = rest[n:]
				}
			}
			time.Sleep(time.Second)
			return nil
		}},
		{"REST: answers that are not read", 10, func() error {
			conn, err := net.Dial("tcp", restPort)
			if err != nil {
				return err
			}
			defer conn.Close()
			body := `{"keys":["` + strings.Join(manyKeys.GetKeys(), `","`) + `"]}`
			for range 10 {
				_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
				if _, err := fmt.Fprintf(conn, "POST /v1/coordinators:find HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
					return nil
				}
			}
			time.Sleep(time.Second)
			return nil
		}},
		{"REST: odd requests", 1, func() error {
			const post = "POST /v1/coordinators:find HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
			deep := strings.Repeat("[", 1<<20)
			for _, c := range []struct{ raw, want string }{
				{post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/brokers HTTP/1.1\r\nHost: x\r\n\r\n", "400"}, // the body is empty; nothing is smuggled
				{post + "Content-Length: 3\r\nContent-Length: 30\r\n\r\n{}", "400"},
				{post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", "501"},
				{post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400"},
				{post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "400"},
				{post + fmt.Sprintf("Content-Length: %d\r\n\r\n{\"keys\":%s", len(deep)+8, deep), "400"},
				{post + "Content-Length: 25\r\n\r\n{\"keys\":[],\"keys\":[\"a\"]}\n", "400"},
				{post + "Content-Length: 14\r\n\r\n{\"keys\":[\"\xff\"]}", "400"},
				{post + "Content-Length: 17\r\n\r\n{\"keys\":[\"a\"]}{}\n", "400"},
				{post + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", "415"},
				{post + "X-HTTP-Method-Override: GET\r\nContent-Length: 14\r\n\r\n{\"keys\":[\"a\"]}", "200"},
				{"GET /v1/coordinators/GROUP/../../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "404"},
				{"GET /docs/../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "404"},
				{"GET /docs/..%2f..%2fetc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "404"},
				{"GET http://elsewhere/v1/brokers HTTP/1.1\r\nHost: x\r\n\r\n", "200"},
				{"GET /v1/brokers HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "400"},
				{"GET /v1/brokers HTTP/1.1\r\nHost: x\r\nGrpc-Metadata-Authorization: Bearer x\r\n\r\n", "200"},
				{"GET /v1/brokers HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("a: b\r\n", 50_000) + "\r\n", "431"},
				{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "404"},
			} {
				got, err := answerTo(restPort, c.raw)
				if err != nil || !strings.HasPrefix(got, "HTTP/1.1 "+c.want) {
					return fmt.Errorf("%.80q: %.60q %w, want %s", c.raw, got, err, c.want)
				}
			}
			return nil
		}},
		{"REST: headers that trickle", 200, func() error { return trickle(restPort) }},
		{"admin: headers that trickle", 200, func() error { return trickle(adminPort) }},
		{"gRPC: a preface that trickles", 200, func() error { return trickle(grpcPort) }},
		{"admin: large headers", 20, func() error {
			got, err := answerTo(adminPort, "GET /readyz HTTP/1.1\r\nHost: x\r\nX-Large: "+strings.Repeat("x", 4<<20)+"\r\n\r\n")
			if err == nil && !strings.Contains(got, "431") {
				return fmt.Errorf("%q", got)
			}
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var attacking sync.WaitGroup
			for range c.connections {
				attacking.Go(func() {
					if err := c.attack(); err != nil {
						t.Error(err)
					}
				})
			}
			for range 20 {
				if err := ask(); err != nil && !strings.Contains(err.Error(), "OVERLOADED") && !strings.Contains(err.Error(), "limits.") {
					t.Errorf("a decent caller meanwhile: %v", err)
				}
			}
			attacking.Wait()
			t.Logf("%d MiB of memory at the most so far", service.peakRSS(t)>>20)
			require.NoError(t, ask())
			var after leftovers
			for range 100 {
				if after = service.left(t); after.goroutines <= before.goroutines+3 && after.descriptors <= before.descriptors+brokerConnections && after.calls == 0 {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			t.Errorf("left are %+v; before there were %+v", after, before)
		})
	}
	if len(buildFlags) == 0 {
		require.Less(t, service.peakRSS(t), 600<<20)
	}
}

func trickle(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	for range 8 { // the end of it comes after 5 s
		if _, err := io.WriteString(conn, "G"); err != nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// answerTo sends raw bytes and returns how the answer begins: "HTTP/1.1 400".
func answerTo(address, raw string) (string, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	go func() { _, _ = io.WriteString(conn, raw) }()
	status := make([]byte, len("HTTP/1.1 400"))
	_, err = io.ReadFull(conn, status)
	return string(status), err
}

// leftovers are what an attack must not leave behind.
type leftovers struct{ goroutines, descriptors, calls int }

func (p *process) left(t *testing.T) leftovers {
	t.Helper()
	number := func(target, pattern string) int {
		resp, err := http.Get("http://" + p.addresses["admin"] + target)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		match := regexp.MustCompile(pattern).FindSubmatch(text)
		require.NotNil(t, match, "%s", text)
		n, err := strconv.Atoi(string(match[1]))
		require.NoError(t, err)
		return n
	}
	return leftovers{
		goroutines:  number("/debug/pprof/goroutine?debug=1", `total (\d+)`),
		descriptors: descriptors(t, p),
		calls:       number("/metrics", `(?m)^coordsvc_calls_in_flight (\d+)`),
	}
}
