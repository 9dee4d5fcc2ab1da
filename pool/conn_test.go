package pool

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

// single makes n requests for one key each, and their responses.
func single(keys ...string) ([]kafkawire.Request, []kafkawire.Response) {
	reqs, resps := make([]kafkawire.Request, len(keys)), make([]kafkawire.Response, len(keys))
	for i, key := range keys {
		reqs[i] = &kafkawire.FindCoordinatorRequest{Keys: []string{key}}
		resps[i] = &kafkawire.FindCoordinatorResponse{}
	}
	return reqs, resps
}

func numbered(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("group-%d", i)
	}
	return keys
}

// keysOf are the keys that the answers repeat (v4 and later).
func keysOf(resps []kafkawire.Response) []string {
	keys := make([]string, len(resps))
	for i, r := range resps {
		keys[i] = r.(*kafkawire.FindCoordinatorResponse).Coordinators[0].Key
	}
	return keys
}

// bothNetworks runs a test on real sockets, and in memory on simulated time.
func bothNetworks(t *testing.T, test func(t *testing.T, network *kafkatest.Network)) {
	t.Helper()
	t.Run("socket", func(t *testing.T) { test(t, nil) })
	t.Run("memory", func(t *testing.T) { simulated(t, test) })
}

func TestExchangeAnswersInOrder(t *testing.T) {
	for name, handler := range map[string]kafkatest.Handler{
		"as they come": kafkatest.Default,
		"split frames": kafkatest.InPieces(3, kafkatest.Default),
	} {
		t.Run(name, func(t *testing.T) {
			bothNetworks(t, func(t *testing.T, network *kafkatest.Network) {
				stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
				stub.On(findCoordinator, handler)
				lease := acquire(t, newCluster(t, network, kafkatest.Addrs(stub)))
				defer lease.Release()
				for _, n := range []int{0, 1, 2, 31, 32, 33, 100} {
					for _, window := range []int{-1, 0, 1, 2, 7, 32} {
						reqs, resps := single(numbered(n)...)
						done, err := lease.Exchange(t.Context(), reqs, resps, 4, window)
						require.NoError(t, err)
						require.Equal(t, n, done)
						require.Equal(t, numbered(n), keysOf(resps))
					}
				}
			})
		})
	}
}

func TestExchangeTwoAnswersInOneSegment(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.On(findCoordinator, func(r *kafkatest.Request) {
			r.Conn.Cork()
			kafkatest.Default(r)
			if r.Keys[0] == "last" {
				r.Conn.Uncork()
			}
		})
		lease := acquire(t, newCluster(t, network, kafkatest.Addrs(stub)))
		defer lease.Release()
		reqs, resps := single("first", "second", "last")
		done, err := lease.Exchange(t.Context(), reqs, resps, 6, 3)
		require.NoError(t, err)
		require.Equal(t, 3, done)
		require.Equal(t, []string{"first", "second", "last"}, keysOf(resps))
	})
}

func TestExchangeKeepsToTheWindow(t *testing.T) {
	for name, test := range map[string]struct {
		keyLength, window, outstanding int
	}{
		"by count":              {10, 32, 32},
		"by bytes":              {30_000, 32, 2},
		"one is always allowed": {32_000, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
				gate := kafkatest.NewGate()
				stub.On(findCoordinator, gate.Hold(kafkatest.Default))
				lease := acquire(t, newCluster(t, network, kafkatest.Addrs(stub)))
				keys := numbered(100)
				for i := range keys {
					keys[i] += strings.Repeat("x", test.keyLength)
				}
				reqs, resps := single(keys...)
				ended := make(chan error)
				go func() {
					_, err := lease.Exchange(t.Context(), reqs, resps, 6, test.window)
					ended <- err
				}()
				synctest.Wait()
				require.Equal(t, test.outstanding, stub.Count(findCoordinator))
				gate.Open()
				require.NoError(t, <-ended)
				require.Equal(t, keys, keysOf(resps))
			})
		})
	}
}

// A batch far larger than what sockets buffer, in both directions.
func TestExchangeLargeBatches(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		lease := acquire(t, newCluster(t, network, kafkatest.Addrs(stub)))
		defer lease.Release()
		keys := numbered(100)
		for i := range keys {
			keys[i] += strings.Repeat("x", 10_000)
		}
		reqs, resps := make([]kafkawire.Request, 4), make([]kafkawire.Response, 4)
		for i := range reqs {
			reqs[i] = &kafkawire.FindCoordinatorRequest{Keys: keys}
			resps[i] = &kafkawire.FindCoordinatorResponse{}
		}
		done, err := lease.Exchange(t.Context(), reqs, resps, 6, 4)
		require.NoError(t, err)
		require.Equal(t, 4, done)
		for _, r := range resps {
			require.Len(t, r.(*kafkawire.FindCoordinatorResponse).Coordinators, len(keys))
		}
		require.LessOrEqual(t, cap(lease.conn.out), keptBuffer, "a large buffer was kept")
		require.LessOrEqual(t, len(lease.conn.in.buf), keptBuffer, "a large buffer was kept")
	})
}

// What was decoded must outlive the buffer that it was read into.
func TestAnswersDoNotAliasTheBuffer(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		lease := acquire(t, newCluster(t, network, kafkatest.Addrs(stub)))
		defer lease.Release()
		first, err := lookup(t.Context(), lease, "AAAA")
		require.NoError(t, err)
		_, err = lookup(t.Context(), lease, "BBBB")
		require.NoError(t, err)
		require.Equal(t, "AAAA", first.Key)
	})
}

// Each of these breaks the connection: the next user gets another one, and the
// right answer.
func TestExchangeThatBreaksTheConnection(t *testing.T) {
	trailing := func(r *kafkatest.Request) {
		frame, _ := kafkawire.AppendResponse(nil, r.CorrelationID, r.Version, r.DefaultAnswer())
		frame[3]++
		r.Conn.Write(append(frame, 0))
	}
	for name, test := range map[string]struct {
		handler kafkatest.Handler
		timeout time.Duration // of the caller; 0 is none
		kind    ErrorKind
		parts   []string
	}{
		"wrong correlation id": {handler: func(r *kafkatest.Request) { r.ReplyAs(r.CorrelationID+1, r.Version, r.DefaultAnswer()) },
			kind: InvalidAnswer, parts: []string{"correlation id"}},
		"correlation id 0 from a broker with ApiVersions": {handler: func(r *kafkatest.Request) { r.ReplyAs(0, r.Version, r.DefaultAnswer()) },
			kind: InvalidAnswer, parts: []string{"correlation id 0"}},
		"trailing byte":      {handler: trailing, kind: InvalidAnswer, parts: []string{"FindCoordinatorResponse"}},
		"empty body":         {handler: kafkatest.Raw([]byte{0, 0, 0, 4, 0, 0, 0, 9}), kind: InvalidAnswer},
		"frame over the cap": {handler: kafkatest.Raw([]byte{1, 0, 0, 1}), kind: NotKafka, parts: []string{"16777217", "more than 26"}},
		"frame too short":    {handler: kafkatest.Raw([]byte{0, 0, 0, 3, 0, 0, 0}), kind: NotKafka},
		"HTTP":               {handler: kafkatest.Raw([]byte("HTTP/1.1 502 Bad Gateway\r\n\r\n")), kind: NotKafka, parts: []string{"502 Bad Gateway"}},
		"closed":             {handler: kafkatest.Hangup, kind: Unreachable, parts: []string{"closed the connection instead of answering"}},
		"reset":              {handler: kafkatest.After(time.Millisecond, kafkatest.Reset), kind: Unreachable, parts: []string{"reset"}},
		"silence":            {handler: kafkatest.Silent, kind: Timeout, parts: []string{"no answer within 10s"}},
		"silence inside an answer": {handler: kafkatest.Raw([]byte{0, 0, 0, 9, 0}), kind: Timeout,
			parts: []string{"5 bytes of it came"}},
		"late answer": {handler: kafkatest.After(11*time.Second, kafkatest.Default), kind: Timeout},
		"a byte now and then": {handler: func(r *kafkatest.Request) {
			for range 100 {
				r.Conn.Write([]byte{0})
				if !r.Conn.Sleep(4 * time.Second) {
					return
				}
			}
		}, kind: Timeout, parts: []string{"3 bytes of it came"}},
		"the caller's deadline": {handler: kafkatest.Silent, timeout: 3 * time.Second, kind: Timeout,
			parts: []string{"the caller's deadline"}},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
				stub.On(findCoordinator, func(r *kafkatest.Request) {
					switch r.Keys[0] {
					case "good":
						kafkatest.Default(r)
					case "bad":
						test.handler(r)
					}
				})
				c := newCluster(t, network, kafkatest.Addrs(stub), oneConnection)
				lease := acquire(t, c)
				ctx := t.Context()
				if test.timeout != 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.timeout)
					defer cancel()
				}
				begin := time.Now()
				reqs, resps := single("good", "bad", "never answered")
				done, err := lease.Exchange(ctx, reqs, resps, 6, 3)
				requireKind(t, err, test.kind, append(test.parts, stub.Addr(), "FindCoordinator v6")...)
				require.LessOrEqual(t, time.Since(begin), 10*time.Second+100*time.Millisecond)
				require.Equal(t, 1, done, "the answer before it is good")
				require.Equal(t, "good", resps[0].(*kafkawire.FindCoordinatorResponse).Coordinators[0].Key)
				if test.timeout != 0 {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}

				_, again := lease.Exchange(t.Context(), reqs[:1], resps[:1], 6, 1)
				require.Equal(t, err, again, "a broken connection says why")
				lease.Release()
				lease = acquire(t, c)
				defer lease.Release()
				require.Equal(t, 2, network.Dials(stub.Addr()))
				row, err := lookup(t.Context(), lease, "good")
				require.NoError(t, err)
				require.Equal(t, "good", row.Key)
				require.EqualValues(t, 1, c.Stats().Retired["broken"])
			})
		})
	}
}

func TestCancelledExchange(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.On(findCoordinator, kafkatest.Silent)
		c := newCluster(t, network, kafkatest.Addrs(stub))
		lease := acquire(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := lookup(ctx, lease, "group")
			ended <- err
		}()
		stub.Await(findCoordinator, 1)
		cancel()
		err := <-ended
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, KindOf(err), "a caller that left is no fault of a broker: %v", err)
		lease.Release()
		require.EqualValues(t, 1, c.Stats().Retired["broken"])
		require.Nil(t, c.Brokers()[0].LastError)

		stub.On(findCoordinator, nil)
		lease = acquire(t, c)
		defer lease.Release()
		_, err = lookup(ctx, lease, "group")
		require.ErrorIs(t, err, context.Canceled, "nothing is sent for a caller that has left")
		_, err = lookup(t.Context(), lease, "group")
		require.NoError(t, err, "and the connection is whole")
	})
}

func TestCallerWhoLeavesAnAsk(t *testing.T) {
	request := &kafkawire.FindCoordinatorRequest{Keys: []string{"group"}}
	before := func(g *kafkatest.Gate) kafkatest.Handler { return g.Hold(kafkatest.Default) }
	const soon = 300 * time.Millisecond // less than a broker gets, and time enough to be asked
	for name, c := range map[string]struct {
		hold     func(*kafkatest.Gate) kafkatest.Handler
		deadline time.Duration // 0: it leaves without
	}{
		"before the answer":               {before, 0},
		"amid the answer":                 {halfAnswer, 0},
		"before the answer, for its time": {before, soon},
		"amid the answer, for its time":   {halfAnswer, soon},
	} {
		for _, secure := range []bool{false, true} {
			hold, within := c.hold, c.deadline
			t.Run(fmt.Sprintf("%s, TLS %v", name, secure), func(t *testing.T) {
				bothNetworks(t, func(t *testing.T, network *kafkatest.Network) {
					cfg := kafkatest.StubConfig{Network: network}
					var options []func(*Config)
					if secure {
						authority := kafkatest.NewAuthority(t, "ca")
						cfg.TLS = authority.Server(t, "broker-0", "127.0.0.1")
						options = append(options, secured(&tls.Config{RootCAs: authority.Pool(), ServerName: "broker-0"}))
					}
					stub := kafkatest.NewStub(t, cfg)
					c := newCluster(t, network, kafkatest.Addrs(stub), options...)
					gate := kafkatest.NewGate()
					stub.On(findCoordinator, hold(gate))
					lease := acquire(t, c)
					leave, cancel := context.WithCancel(t.Context())
					if within > 0 {
						leave = toldLimit{leave, time.Now().Add(within)}
					}
					var answer kafkawire.FindCoordinatorResponse
					left := make(chan error)
					go func() {
						left <- ask(t.Context(), leave, lease, request, &answer, lease.FindCoordinatorVersion())
					}()
					stub.Await(findCoordinator, 1)
					if within == 0 {
						cancel()
					}
					require.ErrorIs(t, <-left, ErrLeft)
					cancel()

					gate.Open()
					_, err := lease.Await(t.Context(), context.Background())
					require.NoError(t, err)
					require.Equal(t, []string{"group"}, keysOf([]kafkawire.Response{&answer}))
					lease.Release()
					stub.On(findCoordinator, nil)
					for range 3 {
						_, err := use(t.Context(), c, "group")
						require.NoError(t, err)
					}
					require.Equal(t, 1, stub.Accepted(), "the connection is whole")
					require.Nil(t, c.Brokers()[0].LastError)
				})
			})
		}
	}
}

func TestCallerWhoLeavesAPipeline(t *testing.T) {
	const gap = 20 * time.Millisecond // between answers
	bothNetworks(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		for _, window := range []int{1, 2, 7, 32} {
			stub.On(findCoordinator, kafkatest.After(gap, kafkatest.Default))
			lease := acquire(t, c)
			reqs, resps := single(numbered(10)...)
			soon := func() context.Context { return toldLimit{t.Context(), time.Now().Add(3*gap + gap/3)} }
			done, err := lease.Ask(t.Context(), soon(), reqs, resps, 4, window)
			left := 0
			for ; errors.Is(err, ErrLeft); left++ {
				require.Less(t, done, 10)
				require.Equal(t, numbered(10)[:done], keysOf(resps[:done]))
				require.Positive(t, lease.SilentFor(), "the broker owes answers while nobody waits for them, too")
				before := done
				done, err = lease.Await(t.Context(), soon())
				require.GreaterOrEqual(t, done, before)
			}
			require.NoError(t, err)
			require.GreaterOrEqual(t, left, 2)
			require.Equal(t, numbered(10), keysOf(resps))
			require.Zero(t, lease.SilentFor())
			lease.Release()
			stub.On(findCoordinator, nil)
			_, err = use(t.Context(), c, "group")
			require.NoError(t, err)
		}
		require.Equal(t, 1, stub.Accepted(), "the connection is whole")
		require.Nil(t, c.Brokers()[0].LastError)
	})
}

// Who waits in parts waits no longer for it, and the broker has to answer for all of the time.
func TestSilenceIsMeasuredFromTheQuestion(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub), func(c *Config) { c.RequestTimeout = 3 * time.Second })
		stub.On(findCoordinator, kafkatest.Silent)
		lease := acquire(t, c)
		defer lease.Release()
		began := time.Now()
		reqs, resps := single("group")
		_, err := lease.Ask(t.Context(), toldLimit{t.Context(), began.Add(2900 * time.Millisecond)}, reqs, resps, 6, 1)
		require.ErrorIs(t, err, ErrLeft)
		require.Equal(t, 2900*time.Millisecond, lease.SilentFor())
		_, err = lease.Await(t.Context(), t.Context())
		require.Equal(t, Timeout, KindOf(err))
		require.Equal(t, 3*time.Second, time.Since(began))
		require.NotNil(t, c.Brokers()[0].LastError)
	})
}

// ask asks for what one request holds.
func ask(ctx, leave context.Context, lease *Lease, request kafkawire.Request, answer kafkawire.Response, v kafkawire.Version) error {
	_, err := lease.Ask(ctx, leave, []kafkawire.Request{request}, []kafkawire.Response{answer}, v, 1)
	return err
}

// toldLimit is a context whose deadline ends nothing by itself.
type toldLimit struct {
	context.Context
	ends time.Time
}

func (l toldLimit) Deadline() (time.Time, bool) { return l.ends, true }

// halfAnswer sends the head of the answer at once, and the rest once the gate is open.
func halfAnswer(g *kafkatest.Gate) kafkatest.Handler {
	return func(r *kafkatest.Request) {
		frame, err := kafkawire.AppendResponse(nil, r.CorrelationID, r.Version, r.DefaultAnswer())
		if err != nil {
			panic(err)
		}
		r.Conn.Write(frame[:6])
		g.Hold(func(r *kafkatest.Request) { r.Conn.Write(frame[6:]) })(r)
	}
}

func TestAnswerThatNobodyWaitedFor(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		stub.On(findCoordinator, kafkatest.Silent)
		lease := acquire(t, c)
		left, cancel := context.WithCancel(t.Context())
		cancel()
		request, answer := &kafkawire.FindCoordinatorRequest{Keys: []string{"group"}}, &kafkawire.FindCoordinatorResponse{}
		began := time.Now()
		require.ErrorIs(t, ask(t.Context(), left, lease, request, answer, 6), ErrLeft)
		require.Zero(t, time.Since(began), "though the deadline was set after it had left")
		lease.Release()
		require.EqualValues(t, 1, c.Stats().Retired["broken"], "it would be taken for the answer to another question")
	})
}

func TestAskThatFails(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		ask := func(ctx, leave context.Context, v kafkawire.Version, keys ...string) error {
			lease := acquire(t, c)
			defer lease.Release()
			return ask(ctx, leave, lease, &kafkawire.FindCoordinatorRequest{Keys: keys}, &kafkawire.FindCoordinatorResponse{}, v)
		}
		require.NoError(t, ask(t.Context(), t.Context(), 6, "group"))
		require.Equal(t, Unsupported, KindOf(ask(t.Context(), t.Context(), 7, "group")))
		require.Error(t, ask(t.Context(), t.Context(), 3, "two", "keys"), "which v3 cannot carry")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, ask(ended, t.Context(), 6, "group"), context.Canceled)
		require.Equal(t, 1, stub.Accepted(), "nothing was sent: the connection is whole")

		stub.On(findCoordinator, kafkatest.Silent)
		require.Equal(t, Timeout, KindOf(ask(t.Context(), t.Context(), 6, "group")))
		require.EqualValues(t, 1, c.Stats().Retired["broken"])
	})
}

// A context that ends in the moment of the answer: the answer is good, but the
// connection may have a deadline in the past any time now.
func TestContextThatEndsWithTheAnswer(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		ctx, cancel := context.WithCancel(t.Context())
		stub.On(findCoordinator, func(r *kafkatest.Request) {
			kafkatest.Default(r)
			cancel()
		})
		lease := acquire(t, c)
		lookup(ctx, lease, "group") // either outcome is right
		lease.Release()
		stub.On(findCoordinator, nil)
		for range 10 {
			_, err := use(t.Context(), c, "group")
			require.NoError(t, err)
		}
	})
}

func TestRefusalOfTheEncoderLeavesTheConnectionWhole(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		lease := acquire(t, c)
		keys := []string{"a", "b", strings.Repeat("x", kafkawire.MaxKeyLength+1), "d"}
		reqs, resps := single(keys...)
		done, err := lease.Exchange(t.Context(), reqs, resps, 6, 4)
		require.ErrorIs(t, err, kafkawire.ErrKeyTooLong)
		require.Equal(t, 2, done)
		require.Equal(t, []string{"a", "b"}, keysOf(resps[:2]))

		done, err = lease.Exchange(t.Context(), reqs[2:], resps[2:], 6, 4)
		require.ErrorIs(t, err, kafkawire.ErrKeyTooLong)
		require.Zero(t, done)

		_, err = lookup(t.Context(), lease, "e")
		require.NoError(t, err)
		require.Equal(t, 3, stub.Count(findCoordinator))
		_, err = lease.Exchange(t.Context(), reqs, resps[:1], 6, 4)
		require.ErrorContains(t, err, "4 requests, but 1 responses")
		lease.Release()
		require.Equal(t, 1, c.Stats().Idle)
	})
}

func TestVersionThatIsNotOfferedIsNotSent(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Release: "2.8.2"})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		lease := acquire(t, c)
		reqs, resps := single("a")
		_, err := lease.Exchange(t.Context(), reqs, resps, 4, 1)
		e := requireKind(t, err, Unsupported, stub.Addr(), "nothing was sent")
		require.Equal(t, kafkawire.VersionRange{Min: 0, Max: 3}, e.Have)
		require.Zero(t, stub.Count(findCoordinator))
		lease.Release()
		require.Equal(t, 1, c.Stats().Idle)
	})
}

// Kafka 0.8.2 builds the answer to a failed lookup from the error and loses the
// correlation id.
func TestCorrelationIDZeroOfKafka08(t *testing.T) {
	zero := func(r *kafkatest.Request) { r.ReplyAs(0, r.Version, r.DefaultAnswer()) }
	for name, test := range map[string]struct {
		requests int
		window   int
		fine     bool
	}{
		"one request":            {1, 32, true},
		"one after the other":    {3, 1, true},
		"of which, of several?":  {2, 2, false},
		"the last of two is it?": {3, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Release: "0.8.2.2"})
				stub.On(findCoordinator, zero)
				lease := acquire(t, newCluster(t, network, kafkatest.Addrs(stub)))
				defer lease.Release()
				reqs, resps := single(numbered(test.requests)...)
				_, err := lease.Exchange(t.Context(), reqs, resps, 0, test.window)
				if test.fine {
					require.NoError(t, err)
					return
				}
				requireKind(t, err, InvalidAnswer)
			})
		})
	}
}

// twice sends the answer two times, in one piece.
func twice(r *kafkatest.Request) {
	r.Conn.Cork()
	kafkatest.Default(r)
	kafkatest.Default(r)
	r.Conn.Uncork()
}

// A broker that says more than it was asked before the connection is ready is left
// alone for a while: its connections would be closed as fast as they are made.
func TestUnaskedBytesBeforeTheFirstLookup(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.On(kafkawire.APIKeyAPIVersions, twice)
		c := newCluster(t, network, kafkatest.Addrs(stub))
		for begin := time.Now(); time.Since(begin) < 10*time.Second; {
			_, err := use(t.Context(), c, "group")
			requireKind(t, err, InvalidAnswer, "not asked for")
			time.Sleep(10 * time.Millisecond)
		}
		require.Less(t, network.Dials(stub.Addr()), 20)
		require.Empty(t, stub.Lookups())
		stub.On(kafkawire.APIKeyAPIVersions, nil)
		time.Sleep(2 * time.Second)
		_, err := use(t.Context(), c, "group")
		require.NoError(t, err)
	})
}

// An answer that nobody asked for must not be read by the next user.
func TestUnaskedBytesRetireTheConnection(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.On(findCoordinator, twice)
		c := newCluster(t, network, kafkatest.Addrs(stub))
		_, err := use(t.Context(), c, "group")
		require.NoError(t, err)
		require.EqualValues(t, 1, c.Stats().Retired["broken"])
	})
}

func TestFrameReaderDoesNotTrustTheSize(t *testing.T) {
	f := frameReader{src: bytes.NewReader([]byte{1, 0, 0, 0, 'a', 'b'})} // promises 16 MiB
	_, err := f.next(maxFrame)
	require.ErrorIs(t, err, io.EOF)
	require.LessOrEqual(t, len(f.buf), firstBuffer)
}

func TestFrameReaderGrowsAndMoves(t *testing.T) {
	var stream []byte
	var want [][]byte
	for i, size := range []int{4, 4092, 4093, 100, 70_000, 4, 300_000, 12, 12} {
		frame := bytes.Repeat([]byte{byte(i)}, size)
		stream = append(stream, byte(size>>24), byte(size>>16), byte(size>>8), byte(size))
		stream = append(stream, frame...)
		want = append(want, frame)
	}
	for _, piece := range []int{1, 3, 1000, 1 << 20} {
		f := frameReader{src: &pieces{bytes.NewReader(stream), piece}}
		for _, frame := range want {
			got, err := f.next(maxFrame)
			require.NoError(t, err)
			require.True(t, bytes.Equal(frame, got))
		}
		_, err := f.next(maxFrame)
		require.ErrorIs(t, err, io.EOF)
		f.shrink()
		require.LessOrEqual(t, len(f.buf), keptBuffer)
	}
}

// pieces reads at most n bytes at a time.
type pieces struct {
	io.Reader
	n int
}

func (p *pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), p.n)]) }

func FuzzFrameReader(f *testing.F) {
	f.Add([]byte{0, 0, 0, 4, 1, 2, 3, 4}, 1)
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"), 3)
	f.Add([]byte{0x15, 3, 3, 0, 2, 2, 40}, 7)
	f.Fuzz(func(t *testing.T, stream []byte, piece int) {
		r := frameReader{src: &pieces{bytes.NewReader(stream), max(1, piece)}}
		read := 0
		for {
			frame, err := r.next(1 << 16)
			if err != nil {
				var wrong frameError
				if !errors.Is(err, io.EOF) && !errors.As(err, &wrong) {
					t.Fatalf("unexpected error %v", err)
				}
				return
			}
			if !bytes.Equal(frame, stream[read+4:read+4+len(frame)]) {
				t.Fatalf("frame at %d is wrong", read)
			}
			read += 4 + len(frame)
		}
	})
}

// A panic in a decoder, which a caller may recover from, leaves no broker that seems to
// owe an answer for ever.
func TestPanicInADecoder(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		lease := acquire(t, c)
		require.Panics(t, func() {
			_, _ = lease.Exchange(t.Context(), []kafkawire.Request{&kafkawire.FindCoordinatorRequest{Keys: []string{"group"}}},
				[]kafkawire.Response{&badDecoder{}}, lease.FindCoordinatorVersion(), 1)
		})
		lease.Retire()
		lease.Release()
		time.Sleep(2 * stallAfter)
		c.mu.Lock()
		suspect := lease.broker.suspect(c.clock.now())
		c.mu.Unlock()
		require.False(t, suspect)
		_, err := use(t.Context(), c, "group")
		require.NoError(t, err)
	})
}

type badDecoder struct {
	kafkawire.FindCoordinatorResponse
}

func (badDecoder) Decode([]byte, kafkawire.Version) error { panic("no answer is expected here") }

// expiringConn is ended by its context between the write and the read deadline.
type expiringConn struct {
	net.Conn
	end     func()
	expired chan struct{}
}

func (c *expiringConn) SetDeadline(t time.Time) error {
	err := c.Conn.SetDeadline(t)
	if t.Equal(time.Unix(1, 0)) {
		close(c.expired)
	}
	return err
}

func (c *expiringConn) SetReadDeadline(t time.Time) error {
	if c.end != nil {
		c.end()
		<-c.expired
	}
	return c.Conn.SetReadDeadline(t)
}

// A context that ends while the deadline of one who may leave is set: it is not overwritten.
func TestContextThatEndsAmidAsk(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		ctx, cancel := context.WithCancel(t.Context())
		var nc *expiringConn
		c := newCluster(t, network, kafkatest.Addrs(stub), wrapping(func(raw net.Conn) net.Conn {
			nc = &expiringConn{Conn: raw, expired: make(chan struct{})}
			return nc
		}))
		stub.On(findCoordinator, kafkatest.Silent)
		lease := acquire(t, c)
		defer lease.Release()
		nc.end = cancel
		began := time.Now()
		leave := toldLimit{t.Context(), began.Add(5 * time.Second)}
		err := ask(ctx, leave, lease, &kafkawire.FindCoordinatorRequest{Keys: []string{"group"}}, &kafkawire.FindCoordinatorResponse{}, 6)
		require.ErrorIs(t, err, context.Canceled)
		require.Less(t, time.Since(began), time.Second)
	})
}

// leftConn is left by its caller while the deadline for the write is set.
type leftConn struct {
	net.Conn
	leave func()
	left  chan struct{}
	used  bool
}

func (c *leftConn) SetReadDeadline(t time.Time) error {
	err := c.Conn.SetReadDeadline(t)
	if t.Equal(time.Unix(1, 0)) && !c.used {
		c.used = true
		close(c.left)
	}
	return err
}

func (c *leftConn) SetDeadline(t time.Time) error {
	if c.leave != nil {
		c.leave()
		<-c.left
	}
	return c.Conn.SetDeadline(t)
}

// A caller who leaves while its request is written does not wait for the answer.
func TestCallerWhoLeavesAmidTheWrite(t *testing.T) {
	for _, told := range []time.Duration{time.Second, time.Hour} { // before and after the deadline of the exchange
		simulated(t, func(t *testing.T, network *kafkatest.Network) {
			stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
			var nc *leftConn
			c := newCluster(t, network, kafkatest.Addrs(stub), wrapping(func(raw net.Conn) net.Conn {
				nc = &leftConn{Conn: raw, left: make(chan struct{})}
				return nc
			}))
			stub.On(findCoordinator, kafkatest.Silent)
			lease := acquire(t, c)
			defer lease.Release()
			leave, cancel := context.WithCancel(t.Context())
			nc.leave = cancel
			began := time.Now()
			err := ask(t.Context(), toldLimit{leave, began.Add(told)}, lease, &kafkawire.FindCoordinatorRequest{Keys: []string{"group"}}, &kafkawire.FindCoordinatorResponse{}, 6)
			require.ErrorIs(t, err, ErrLeft)
			require.Zero(t, time.Since(began))
		})
	}
}

// A write that does not end leaves half of the time for another broker.
func TestBrokerThatDoesNotRead(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub), func(c *Config) { c.RequestTimeout = 3 * time.Second })
		lease := acquire(t, c)
		defer lease.Release()
		stub.Pause()
		defer stub.Resume()
		keys := make([]string, 20)
		for i := range keys {
			keys[i] = strings.Repeat("k", 30_000)
		}
		began := time.Now()
		err := ask(t.Context(), toldLimit{t.Context(), began.Add(time.Second)}, lease, &kafkawire.FindCoordinatorRequest{Keys: keys}, &kafkawire.FindCoordinatorResponse{}, 6)
		require.Equal(t, Timeout, KindOf(err))
		require.ErrorContains(t, err, "the broker does not read what it is sent")
		require.Equal(t, 1500*time.Millisecond, time.Since(began))
		require.NotNil(t, c.Brokers()[0].LastError)
	})
}
