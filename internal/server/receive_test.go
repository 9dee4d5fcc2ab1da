package server

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// asked sends messages as they are on one stream, and half-closes it if told to.
func asked(t *testing.T, r *running, messages []string, halfClose bool, opts ...grpc.CallOption) (*coordsvcv1.FindCoordinatorsResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := r.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true},
		coordsvcv1.CoordinatorService_FindCoordinators_FullMethodName, append(opts, grpc.ForceCodec(rawCodec{}))...)
	require.NoError(t, err)
	for _, m := range messages {
		if stream.SendMsg(m) != nil {
			break // the answer is there
		}
	}
	if halfClose {
		require.NoError(t, stream.CloseSend())
	}
	resp := new(coordsvcv1.FindCoordinatorsResponse)
	return resp, stream.RecvMsg(resp)
}

// TestReceive: what a gRPC client can send in place of one message. It fails too
// where grpc-go's stream lacks a method of messageStream.
func TestReceive(t *testing.T) {
	const most = 100_000
	limits := &limitsMet{counts: map[string]int{}}
	limited := func(c *Config) { c.MaxMessageBytes, c.OnLimit = most, limits.met }
	r := start(t, &fakeService{}, limited)
	hasty := start(t, &fakeService{}, limited, func(c *Config) { c.bodyTimeout = time.Second }) // for those who do not end
	good, err := proto.Marshal(&coordsvcv1.FindCoordinatorsRequest{Keys: []string{"orders", "", "orders"}})
	require.NoError(t, err)
	largest, err := proto.Marshal(&coordsvcv1.FindCoordinatorsRequest{Keys: []string{strings.Repeat("k", most-4)}})
	require.NoError(t, err)
	require.Len(t, largest, most)
	zipped := grpc.UseCompressor("gzip")
	for _, c := range []struct {
		name     string
		messages []string
		open     bool // the client does not half-close
		opts     []grpc.CallOption
		want     codes.Code
		reason   string
		text     string
	}{
		{name: "one message", messages: []string{string(good)}},
		{name: "the empty message", messages: []string{""}},
		{name: "the largest message", messages: []string{string(largest)}},
		{name: "the largest message, compressed", messages: []string{string(largest)}, opts: []grpc.CallOption{zipped}},
		{name: "one byte more", messages: []string{string(largest) + "x"}, want: codes.ResourceExhausted, reason: "REQUEST_TOO_LARGE", text: "of 100001 bytes"},
		{name: "one byte more, compressed", messages: []string{string(largest) + "x"}, opts: []grpc.CallOption{zipped}, want: codes.ResourceExhausted, reason: "REQUEST_TOO_LARGE", text: "over the limit of 100000 bytes"},
		{name: "2 MiB of zeroes in 2 KiB", messages: []string{strings.Repeat("\x00", 2<<20)}, opts: []grpc.CallOption{zipped}, want: codes.ResourceExhausted, reason: "REQUEST_TOO_LARGE"},
		{name: "no message", want: codes.InvalidArgument, reason: "INCOMPLETE_BODY"},
		{name: "two messages", messages: []string{string(good), string(good)}, want: codes.InvalidArgument, reason: "MALFORMED_REQUEST", text: "more than one message"},
		{name: "no protobuf", messages: []string{"\x0a\xff"}, want: codes.InvalidArgument, reason: "MALFORMED_REQUEST", text: "no coordsvc.v1.FindCoordinatorsRequest"},
		{name: "no UTF-8", messages: []string{"\x12\x01\xff"}, want: codes.InvalidArgument, reason: "MALFORMED_REQUEST", text: "UTF-8"},
		{name: "no message, and no end", open: true, want: codes.DeadlineExceeded, reason: "REQUEST_TOO_SLOW"},
		{name: "a message, and no end", messages: []string{string(good)}, open: true, want: codes.DeadlineExceeded, reason: "REQUEST_TOO_SLOW", text: "within 1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := r
			if c.open {
				server = hasty
			}
			resp, err := asked(t, server, c.messages, !c.open, c.opts...)
			require.Equal(t, c.want, status.Code(err), "%v", err)
			if c.want != codes.OK {
				require.Equal(t, c.reason, errorInfoOf(status.Convert(err)).GetReason(), "%v", err)
				require.ErrorContains(t, err, c.text)
				return
			}
			sent := new(coordsvcv1.FindCoordinatorsRequest)
			require.NoError(t, proto.Unmarshal([]byte(c.messages[0]), sent))
			require.Len(t, resp.GetResults(), len(sent.GetKeys()))
		})
	}
	require.Equal(t, 3, limits.count(LimitMessageBytes))
	for _, server := range []*running{r, hasty} {
		require.Eventually(t, func() bool { return server.inFlight.count() == 0 && server.memory.used.Load() == 0 }, 5*time.Second, time.Millisecond)
	}
}

// TestReceiveCompressed: what is said to be gzip and is not, and a compression that
// the server does not have.
func TestReceiveCompressed(t *testing.T) {
	r := start(t, &fakeService{})
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write([]byte("\x12\x06orders"))
	require.NoError(t, w.Close())
	for name, c := range map[string]struct {
		encoding string
		frame    []byte
		want     string // status, reason
	}{
		"gzip":               {"gzip", frameOf(1, zipped.Bytes()), "0 "},
		"gzip, not used":     {"gzip", frameOf(0, []byte("\x12\x06orders")), "0 "},
		"gzip, broken":       {"gzip", frameOf(1, zipped.Bytes()[:12]), "3 MALFORMED_REQUEST"},
		"gzip, none":         {"gzip", frameOf(1, []byte("orders")), "3 MALFORMED_REQUEST"},
		"gzip, not named":    {"", frameOf(1, zipped.Bytes()), "3 MALFORMED_REQUEST"},
		"less than promised": {"", frameOf(0, []byte("\x12\x06orders"))[:8], "3 INCOMPLETE_BODY"},
		"half a header":      {"", []byte{0, 0}, "3 INCOMPLETE_BODY"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, rawGRPC(t, r, c.encoding, c.frame)) })
	}
	require.Eventually(t, func() bool { return r.inFlight.count() == 0 && r.memory.used.Load() == 0 }, 5*time.Second, time.Millisecond)
}

// frameOf is a gRPC message with the five bytes that stand before it.
func frameOf(compressed byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{compressed}, uint32(len(message))), message...)
}

// rawGRPC sends the body of a call as it is, and returns the code and the reason of
// the answer.
func rawGRPC(t *testing.T, r *running, compression string, body []byte) string {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+r.GRPCAddr().String()+coordsvcv1.CoordinatorService_FindCoordinators_FullMethodName, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	if compression != "" {
		req.Header.Set("Grpc-Encoding", compression)
	}
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	code := cmp.Or(resp.Header.Get("Grpc-Status"), resp.Trailer.Get("Grpc-Status"))
	details, err := base64.RawStdEncoding.DecodeString(cmp.Or(resp.Header.Get("Grpc-Status-Details-Bin"), resp.Trailer.Get("Grpc-Status-Details-Bin")))
	require.NoError(t, err)
	answered := new(spb.Status)
	require.NoError(t, proto.Unmarshal(details, answered))
	return code + " " + errorInfoOf(status.FromProto(answered)).GetReason()
}

// FuzzCountField: as many keys as protobuf finds, wherever it can read the message.
func FuzzCountField(f *testing.F) {
	for _, keys := range [][]string{nil, {""}, {"a", "b"}, {strings.Repeat("k", 127), strings.Repeat("k", 128), "x"}} {
		message, err := proto.Marshal(&coordsvcv1.FindCoordinatorsRequest{KeyType: coordsvcv1.KeyType_SHARE, Keys: keys})
		require.NoError(f, err)
		f.Add(message)
	}
	f.Add([]byte("\x92\x00\x01a\x12\x00\x12\x05ab")) // a tag that is longer than it need be, a length beyond the end
	f.Fuzz(func(t *testing.T, message []byte) {
		req := new(coordsvcv1.FindCoordinatorsRequest)
		if proto.Unmarshal(message, req) == nil {
			require.Equal(t, len(req.GetKeys()), countField(message, keysField))
		}
	})
}

// TestBodyLimitsAreNotMixedUp: the timers that end slow streams are used again, and none
// ends the stream of another call, or before its time.
func TestBodyLimitsAreNotMixedUp(t *testing.T) {
	const limit = 300 * time.Millisecond
	r := start(t, &fakeService{}, func(c *Config) { c.bodyTimeout = limit })
	good, err := proto.Marshal(&coordsvcv1.FindCoordinatorsRequest{Keys: []string{"orders"}})
	require.NoError(t, err)
	call := func(pause time.Duration) (took time.Duration, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		began := time.Now()
		stream, err := r.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true},
			coordsvcv1.CoordinatorService_FindCoordinators_FullMethodName, grpc.ForceCodec(rawCodec{}))
		if err != nil {
			return 0, err
		}
		time.Sleep(pause)
		if stream.SendMsg(string(good)) == nil {
			_ = stream.CloseSend()
		}
		err = stream.RecvMsg(new(coordsvcv1.FindCoordinatorsResponse))
		return time.Since(began), err
	}
	var calls sync.WaitGroup
	ends := time.Now().Add(2 * time.Second)
	for i := range 60 {
		calls.Go(func() {
			for n := i; time.Now().Before(ends); n++ {
				pause := [...]time.Duration{0, 0, 0, limit / 2, limit, 2 * limit}[n%6]
				took, err := call(pause)
				switch {
				case err == nil && pause > limit:
					t.Errorf("a request that took %v is answered", pause)
				case err != nil && status.Code(err) != codes.DeadlineExceeded:
					t.Error(err)
				case err != nil && took < limit:
					t.Errorf("a call was told after %v that it took longer than %v", took, limit)
				}
			}
		})
	}
	calls.Wait()
}
