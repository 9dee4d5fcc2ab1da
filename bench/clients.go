package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/kafkawire"
)

// asker asks a question as one of the callers, and checks the answer.
type asker func(ctx context.Context, caller int, q *keyset) error

// grpcAsker asks over gRPC. Callers share connections, as those of one program do.
func grpcAsker(address string, connections int, want *coordinator) (asker, func(), error) {
	var conns []*grpc.ClientConn
	stop := func() {
		for _, c := range conns {
			c.Close()
		}
	}
	var clients []coordsvcv1.CoordinatorServiceClient
	for range connections {
		c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
		if err != nil {
			stop()
			return nil, nil, err
		}
		conns = append(conns, c)
		clients = append(clients, coordsvcv1.NewCoordinatorServiceClient(c))
	}
	return func(ctx context.Context, caller int, q *keyset) error {
		client := clients[caller%len(clients)]
		if len(q.keys) == 1 {
			resp, err := client.GetCoordinator(ctx, &coordsvcv1.GetCoordinatorRequest{Key: q.keys[0]})
			if err != nil {
				return err
			}
			return checkProto(q, 0, resp.GetResult(), want)
		}
		resp, err := client.FindCoordinators(ctx, &coordsvcv1.FindCoordinatorsRequest{Keys: q.keys})
		if err != nil {
			return err
		}
		if err := q.checkLen(len(resp.GetResults())); err != nil {
			return err
		}
		for i, r := range resp.GetResults() {
			if err := checkProto(q, i, r, want); err != nil {
				return err
			}
		}
		return nil
	}, stop, nil
}

// checkProto checks a row; want, if set, is the answer to every key.
func checkProto(q *keyset, i int, r *coordsvcv1.CoordinatorResult, want *coordinator) error {
	if e := r.GetError(); e != nil {
		return fmt.Errorf("%s: %s", e.GetReason(), e.GetMessage())
	}
	c := r.GetCoordinator()
	got := coordinator{c.GetNodeId(), c.GetHost(), c.GetPort()}
	if want != nil && got == *want {
		got = q.want[i]
	}
	return q.check(i, r.GetKey(), got)
}

// restRow is a row of a REST answer.
type restRow struct {
	Key         string
	Coordinator struct {
		NodeID int32 `json:"nodeId"`
		Host   string
		Port   int32
	}
}

func restAsker(address string) (asker, func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: 10_000, DisableCompression: true}
	client := &http.Client{Transport: transport}
	one, many := "http://"+address+"/v1/coordinators/GROUP/", "http://"+address+"/v1/coordinators:find"
	return func(ctx context.Context, _ int, q *keyset) error {
		method, where, body := http.MethodGet, one+url.PathEscape(q.keys[0]), []byte(nil)
		if len(q.keys) > 1 {
			var err error
			if body, err = json.Marshal(map[string][]string{"keys": q.keys}); err != nil {
				return err
			}
			method, where = http.MethodPost, many
		}
		req, err := http.NewRequestWithContext(ctx, method, where, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", resp.Status, text)
		}
		var answer struct {
			Result  *restRow
			Results []restRow
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			return err
		}
		if answer.Result != nil {
			answer.Results = append(answer.Results, *answer.Result)
		}
		if err := q.checkLen(len(answer.Results)); err != nil {
			return err
		}
		for i := range answer.Results {
			r := &answer.Results[i]
			if err := q.check(i, r.Key, coordinator{r.Coordinator.NodeID, r.Coordinator.Host, r.Coordinator.Port}); err != nil {
				return err
			}
		}
		return nil
	}, transport.CloseIdleConnections
}

// kgoAsker asks Kafka itself, each caller with a client of its own; over kadm or not.
func kgoAsker(bootstrap []string, callers int, overKadm bool, count *requestCount) (asker, func(), error) {
	var clients []*kgo.Client
	var finders []finder
	stop := func() {
		for _, c := range clients {
			c.Close()
		}
	}
	for range callers {
		c, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.WithHooks(count))
		if err != nil {
			stop()
			return nil, nil, err
		}
		clients = append(clients, c)
		if overKadm {
			finders = append(finders, kadmFinder(kadm.NewClient(c)))
		} else {
			finders = append(finders, kgoFinder(c))
		}
	}
	return func(ctx context.Context, caller int, q *keyset) error {
		found, err := finders[caller](ctx, q.keys)
		if err != nil {
			return err
		}
		for i, c := range found {
			if err := q.check(i, q.keys[i], c); err != nil {
				return err
			}
		}
		return nil
	}, stop, nil
}

// rawChunk and rawWindow are what the raw connection does best with: more keys a
// request, or more requests ahead, make it no faster.
const (
	rawChunk  = 500
	rawWindow = 256
)

// rawAsker drives connections by hand, with nothing around the bytes: the limit. The
// keys are dealt out over the connections, one a broker it is given. It is for one
// caller.
func rawAsker(brokers []string, batched bool) (asker, func(), error) {
	version := kafkawire.Version(3)
	if batched {
		version = 6
	}
	var conns []*rawConn
	stop := func() {
		for _, c := range conns {
			c.nc.Close()
		}
	}
	for _, addr := range brokers {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			stop()
			return nil, nil, err
		}
		conns = append(conns, &rawConn{nc: nc, version: version, in: make([]byte, 256<<10)})
	}
	return func(ctx context.Context, _ int, q *keyset) error {
		failed := make(chan error, len(conns))
		for i, c := range conns {
			from, to := i*len(q.keys)/len(conns), (i+1)*len(q.keys)/len(conns)
			ask := func() { failed <- c.ask(ctx, &keyset{q.keys[from:to], q.want[from:to]}) }
			if i == len(conns)-1 {
				ask()
			} else {
				go ask()
			}
		}
		var err error
		for range conns {
			err = errors.Join(err, <-failed)
		}
		return err
	}, stop, nil
}

type rawConn struct {
	nc      net.Conn
	version kafkawire.Version
	in      []byte
	out     []byte
	resp    kafkawire.FindCoordinatorResponse
	hosts   kafkawire.Hosts
}

// ask pipelines the question, and checks the answers as they come.
func (c *rawConn) ask(ctx context.Context, q *keyset) error {
	chunk, window := 1, rawWindow
	if c.version >= 4 {
		chunk, window = rawChunk, len(q.keys)/rawChunk+1 // all at once: requests are few
	}
	deadline, _ := ctx.Deadline()
	if err := c.nc.SetDeadline(deadline); err != nil {
		return err
	}
	req := &kafkawire.FindCoordinatorRequest{}
	sent, read, r, w := 0, 0, 0, 0
	for read < len(q.keys) {
		c.out = c.out[:0]
		for ; sent < len(q.keys) && sent-read < window*chunk && (len(c.out) > 0 || sent-read <= window*chunk/2); sent += len(req.Keys) {
			req.Keys = q.keys[sent:min(len(q.keys), sent+chunk)]
			var err error
			if c.out, err = kafkawire.AppendRequest(c.out, kafkawire.RequestHeader{Version: c.version, CorrelationID: int32(sent), ClientID: "bench"}, req); err != nil {
				return err
			}
		}
		if len(c.out) > 0 {
			if _, err := c.nc.Write(c.out); err != nil {
				return err
			}
		}
		for w-r < 4 || w-r < 4+int(binary.BigEndian.Uint32(c.in[r:])) {
			if r > 0 {
				r, w = 0, copy(c.in, c.in[r:w])
			}
			n, err := c.nc.Read(c.in[w:])
			if err != nil {
				return err
			}
			w += n
		}
		end := r + 4 + int(binary.BigEndian.Uint32(c.in[r:]))
		id, body, err := kafkawire.DecodeResponseHeader(c.in[r+4:end], kafkawire.APIKeyFindCoordinator, c.version)
		if err != nil {
			return err
		}
		if err := c.resp.DecodeSharing(body, c.version, q.keys[read:], &c.hosts); err != nil {
			return err
		}
		if int(id) != read {
			return fmt.Errorf("wrong answer: correlation id %d, want %d", id, read)
		}
		for i := range c.resp.Coordinators {
			row := &c.resp.Coordinators[i]
			if row.ErrorCode != 0 {
				return fmt.Errorf("%q: %s", row.Key, row.ErrorCode.Name())
			}
			if err := q.check(read, row.Key, coordinator{row.NodeID, row.Host, row.Port}); err != nil {
				return err
			}
			read++
		}
		r = end
	}
	return nil
}

func getOK(where string) error {
	client := http.Client{Timeout: time.Second}
	resp, err := client.Get(where)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}
