package kafkatest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/coordsvc/coordsvc/kafkawire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is one connection to a stub, which sends and receives whole frames.
type client struct {
	net.Conn
	t *testing.T
}

// bothNetworks runs a test on real sockets and in memory on simulated time.
func bothNetworks(t *testing.T, test func(t *testing.T, network *Network)) {
	t.Run("socket", func(t *testing.T) { test(t, nil) })
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, NewNetwork()) })
	})
}

func dial(t *testing.T, s *Stub) client {
	t.Helper()
	dial := new(net.Dialer).DialContext
	if s.network != nil {
		dial = s.network.DialContext
	}
	conn, err := dial(t.Context(), "tcp", s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
	return client{conn, t}
}

func (c client) send(id int32, v kafkawire.Version, request kafkawire.Request) {
	c.t.Helper()
	frame, err := kafkawire.AppendRequest(nil, kafkawire.RequestHeader{Version: v, CorrelationID: id, ClientID: "test"}, request)
	require.NoError(c.t, err)
	_, err = c.Write(frame)
	require.NoError(c.t, err)
}

// receive reads one frame, and gives its correlation id.
func (c client) receive(v kafkawire.Version, answer kafkawire.Response) int32 {
	c.t.Helper()
	var size [4]byte
	_, err := io.ReadFull(c, size[:])
	require.NoError(c.t, err)
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(c, frame)
	require.NoError(c.t, err)
	id, body, err := kafkawire.DecodeResponseHeader(frame, answer.APIKey(), v)
	require.NoError(c.t, err)
	require.NoError(c.t, answer.Decode(body, v))
	return id
}

func (c client) exchange(v kafkawire.Version, request kafkawire.Request, answer kafkawire.Response) {
	c.t.Helper()
	c.send(7, v, request)
	require.EqualValues(c.t, 7, c.receive(v, answer))
}

// closed asserts that the connection ends without an answer.
func (c client) closed(want error) {
	c.t.Helper()
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(c.t, err, want)
}

func groupRequest(keys ...string) *kafkawire.FindCoordinatorRequest {
	return &kafkawire.FindCoordinatorRequest{KeyType: kafkawire.KeyTypeGroup, Keys: keys}
}

func TestStubBehavesWell(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network *Network) {
		stubs := NewStubs(t, 3, StubConfig{Network: network})
		c := dial(t, stubs[0])

		var apis kafkawire.APIVersionsResponse
		c.exchange(3, &kafkawire.APIVersionsRequest{ClientSoftwareName: "test", ClientSoftwareVersion: "1"}, &apis)
		versions, ok := apis.Range(kafkawire.APIKeyFindCoordinator)
		require.True(t, ok)
		require.Equal(t, kafkawire.VersionRange{Min: 0, Max: 6}, versions)

		for v := range kafkawire.Version(13) {
			var metadata kafkawire.MetadataResponse
			c.exchange(v, &kafkawire.MetadataRequest{AllTopics: true}, &metadata)
			require.Len(t, metadata.Brokers, 3)
			require.Equal(t, stubs[2].Broker(), metadata.Brokers[2])
		}

		for v := range kafkawire.Version(7) {
			var found kafkawire.FindCoordinatorResponse
			c.exchange(v, groupRequest("g"), &found)
			want := stubs[1].Coordinator(kafkawire.KeyTypeGroup, "g") // all stubs agree
			got := found.Coordinators[0]
			require.Equal(t, []any{want.NodeID, want.Host, want.Port, kafkawire.ErrNone},
				[]any{got.NodeID, got.Host, got.Port, got.ErrorCode})
		}

		var refused kafkawire.SaslHandshakeResponse
		c.exchange(1, &kafkawire.SaslHandshakeRequest{Mechanism: "PLAIN"}, &refused)
		require.Equal(t, kafkawire.ErrIllegalSaslState, refused.ErrorCode)
	})
}

// The raw client and the stub agree, version by version.
func TestStubAnswersTheRawClient(t *testing.T) {
	s := NewStub(t, StubConfig{Node: 4})
	for v := range int16(7) {
		got, err := RawFind(s.Addr(), v, 0, "g")
		require.NoError(t, err)
		require.Equal(t, RawCoordinator{Node: 4, Host: "127.0.0.1", Port: s.Broker().Port}, got)
	}
	answers, err := RawFindAll(t.Context(), s.Addr(), 6, 2, append(WellFormedKeys(2, "g", 5000), "malformed"))
	require.NoError(t, err)
	require.Equal(t, RawCoordinator{Node: 4, Host: "127.0.0.1", Port: s.Broker().Port}, answers[4999])
	require.Equal(t, RawCoordinator{Node: -1, Port: -1, Code: 42}, answers[5000])

	s.On(kafkawire.APIKeyFindCoordinator, Hangup)
	_, err = RawFind(s.Addr(), 6, 0, "g")
	require.ErrorIs(t, err, io.EOF)
}

// What a release does not know ends as Kafka ends it.
func TestStubOfAnOldRelease(t *testing.T) {
	asked := &kafkawire.APIVersionsRequest{ClientSoftwareName: "test", ClientSoftwareVersion: "1"}
	share := &kafkawire.FindCoordinatorRequest{KeyType: kafkawire.KeyTypeShare, Keys: WellFormedKeys(2, "g", 1)}
	transaction := &kafkawire.FindCoordinatorRequest{KeyType: kafkawire.KeyTypeTransaction, Keys: []string{"t"}}

	t.Run("0.8.2.2 closes on ApiVersions", func(t *testing.T) {
		c := dial(t, NewStub(t, StubConfig{Release: "0.8.2.2"}))
		c.send(1, 0, asked)
		c.closed(io.EOF)
	})
	t.Run("0.9.0.1 never answers ApiVersions", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := NewStub(t, StubConfig{Release: "0.9.0.1", Network: NewNetwork()})
			c := dial(t, s)
			c.send(1, 0, asked)
			s.Await(kafkawire.APIKeyAPIVersions, 1)
			_, err := c.Read(make([]byte, 1))
			require.ErrorContains(t, err, "timeout")
			require.Equal(t, 1, s.Open())
		})
	})
	for _, test := range []struct {
		release string
		listed  int
	}{{"2.3.1", 0}, {"2.8.2", 1}} {
		t.Run(test.release+" answers code 35", func(t *testing.T) {
			c := dial(t, NewStub(t, StubConfig{Release: test.release}))
			var apis kafkawire.APIVersionsResponse
			c.exchange(4, asked, &apis)
			require.Equal(t, kafkawire.ErrUnsupportedVersion, apis.ErrorCode)
			require.Len(t, apis.APIs, test.listed)
			c.send(1, 4, groupRequest("g"))
			c.closed(io.EOF)
		})
	}
	t.Run("share key below v6", func(t *testing.T) {
		s := NewStub(t, StubConfig{})
		_, err := kafkawire.AppendRequest(nil, kafkawire.RequestHeader{Version: 5}, share)
		require.Error(t, err) // kafkawire refuses, so ask in raw bytes
		got, err := RawFind(s.Addr(), 5, 2, share.Keys[0])
		require.NoError(t, err)
		require.EqualValues(t, kafkawire.ErrInvalidRequest, got.Code)
	})
	t.Run("transaction on v1", func(t *testing.T) {
		var found kafkawire.FindCoordinatorResponse
		dial(t, NewStub(t, StubConfig{Release: "1.1.1"})).exchange(1, transaction, &found)
		require.Equal(t, kafkawire.ErrNone, found.Coordinators[0].ErrorCode)
		require.Equal(t, "NONE", found.Coordinators[0].ErrorMessage)
	})
}

func TestStubScripts(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network *Network) {
		tests := []struct {
			name   string
			handle Handler
			check  func(t *testing.T, s *Stub, c client)
		}{
			{"hang up", Hangup, func(_ *testing.T, _ *Stub, c client) { c.closed(io.EOF) }},
			{"reset", Reset, func(_ *testing.T, _ *Stub, c client) { c.closed(syscall.ECONNRESET) }},
			{"raw bytes", Raw([]byte("HTTP/1.1 400")), func(t *testing.T, _ *Stub, c client) {
				got := make([]byte, 12)
				_, err := io.ReadFull(c, got)
				require.NoError(t, err)
				require.Equal(t, "HTTP/1.1 400", string(got))
			}},
			{"one error", Fail(kafkawire.ErrCoordinatorNotAvailable), func(t *testing.T, _ *Stub, c client) {
				var found kafkawire.FindCoordinatorResponse
				c.receive(6, &found)
				require.Equal(t, kafkawire.Coordinator{Key: "g", NodeID: -1, Port: -1, ErrorCode: kafkawire.ErrCoordinatorNotAvailable}, found.Coordinators[0])
			}},
			{"single bytes", InPieces(1, Default), func(t *testing.T, s *Stub, c client) {
				var found kafkawire.FindCoordinatorResponse
				c.receive(6, &found)
				require.Equal(t, s.node, found.Coordinators[0].NodeID)
			}},
			{"wrong correlation id", func(r *Request) { r.ReplyAs(99, r.Version, r.DefaultAnswer()) }, func(t *testing.T, _ *Stub, c client) {
				require.EqualValues(t, 99, c.receive(6, &kafkawire.FindCoordinatorResponse{}))
			}},
			{"first only", First(1, Silent), func(t *testing.T, _ *Stub, c client) {
				c.send(2, 6, groupRequest("h"))
				require.EqualValues(t, 2, c.receive(6, &kafkawire.FindCoordinatorResponse{}))
			}},
			{"late", After(20*time.Millisecond, Default), func(t *testing.T, _ *Stub, c client) {
				start := time.Now()
				c.receive(6, &kafkawire.FindCoordinatorResponse{})
				require.GreaterOrEqual(t, time.Since(start), 15*time.Millisecond)
			}},
		}
		for _, test := range tests {
			s := NewStub(t, StubConfig{Node: 5, Network: network, Addr: ""})
			s.On(kafkawire.APIKeyFindCoordinator, test.handle)
			c := dial(t, s)
			c.send(1, 6, groupRequest("g"))
			test.check(t, s, c)
			c.Close()
			s.Down() // frees the address in memory
		}
	})
}

func TestStubHoldsAnswersAndCounts(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network *Network) {
		s := NewStub(t, StubConfig{Network: network})
		gate := NewGate()
		s.On(kafkawire.APIKeyFindCoordinator, gate.Hold(Default))
		c := dial(t, s)
		for i := range int32(3) { // sent in one go; none answered
			c.send(i, 6, groupRequest("a", string('a'+i)))
		}
		s.Await(kafkawire.APIKeyFindCoordinator, 3)
		require.Equal(t, [][]string{{"a", "a"}, {"a", "b"}, {"a", "c"}}, s.Lookups())
		gate.Open()
		for i := range int32(3) {
			require.Equal(t, i, c.receive(6, &kafkawire.FindCoordinatorResponse{}))
		}
		require.Equal(t, 1, s.Open())
		s.Forget()
		require.Zero(t, s.Count(kafkawire.APIKeyFindCoordinator))

		second := dial(t, s)
		s.AwaitOpen(2)
		second.Close()
		s.AwaitOpen(1)
		require.Equal(t, 2, s.Accepted())
		require.Equal(t, 2, s.MostOpen())
	})
}

// Two answers leave in one write, and in the wrong order.
func TestStubAnswersTwoAtOnceOutOfOrder(t *testing.T) {
	s := NewStub(t, StubConfig{Network: NewNetwork()})
	var kept *Request
	s.On(kafkawire.APIKeyFindCoordinator, func(r *Request) {
		if kept == nil {
			kept = r
			return
		}
		r.Conn.Cork()
		Default(r)
		Default(kept)
		r.Conn.Uncork()
	})
	c := dial(t, s)
	c.send(1, 6, groupRequest("a"))
	c.send(2, 6, groupRequest("b"))
	require.EqualValues(t, 2, c.receive(6, &kafkawire.FindCoordinatorResponse{}))
	require.EqualValues(t, 1, c.receive(6, &kafkawire.FindCoordinatorResponse{}))
}

func TestStubGoesDownAndUp(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network *Network) {
		s := NewStub(t, StubConfig{Network: network})
		addr := s.Addr()
		c := dial(t, s)
		s.AwaitOpen(1)
		s.Down()
		c.closed(syscall.ECONNRESET)
		var err error
		if network == nil {
			_, err = net.Dial("tcp", addr)
		} else {
			_, err = network.DialContext(context.Background(), "tcp", addr)
		}
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		s.Up()
		require.Equal(t, addr, s.Addr())
		dial(t, s).exchange(6, groupRequest("g"), &kafkawire.FindCoordinatorResponse{})
	})
}

func TestStubGreetsBeforeTheFirstRequest(t *testing.T) {
	s := NewStub(t, StubConfig{})
	s.OnConnect(func(c *Conn) {
		c.Write([]byte{0x15, 3, 3, 0, 2, 2, 80}) // a TLS alert
		c.Close()
	})
	got, err := io.ReadAll(dial(t, s))
	require.NoError(t, err)
	require.Len(t, got, 7)
}

// What is no request closes the connection and nothing else.
func TestStubClosesOnNonsense(t *testing.T) {
	s := NewStub(t, StubConfig{})
	for _, nonsense := range []string{
		"\x7f\xff\xff\xff",     // too large
		"\x00\x00\x00\x01\x00", // shorter than a header
		"\x00\x00\x00\x0a\x00\x63\x00\x00\x00\x00\x00\x00\x00\x00", // API 99
		"\x00\x00\x00\x0a\x00\x0a\x00\x01\x00\x00\x00\x00\x00\x00", // FindCoordinator with no body
	} {
		c := dial(t, s)
		_, err := c.Write([]byte(nonsense))
		require.NoError(t, err)
		c.closed(io.EOF)
	}
	require.NotZero(t, dial(t, s).LocalAddr())
}

func TestFakeClusterAnswers(t *testing.T) {
	c := Fake(t, 3)
	require.Len(t, c.ListenAddrs(), 3)
	got, err := RawFind(c.ListenAddrs()[0], 6, 0, "g")
	require.NoError(t, err)
	require.Zero(t, got.Code)
	require.Equal(t, c.CoordinatorFor("g"), got.Node)
}
