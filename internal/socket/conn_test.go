package socket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"
)

// pair is two ends of a connection, the dialled one first.
func pair(ctx context.Context) (dialled, accepted net.Conn, stop func(), err error) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		return nil, nil, nil, err
	}
	defer l.Close()
	if dialled, err = Dial(ctx, "tcp", l.Addr().String()); err != nil {
		return nil, nil, nil, err
	}
	if accepted, err = l.Accept(); err != nil {
		dialled.Close()
		return nil, nil, nil, err
	}
	return dialled, accepted, func() {
		dialled.Close()
		accepted.Close()
	}, nil
}

func pairOf(t *testing.T) (dialled, accepted net.Conn) {
	dialled, accepted, stop, err := pair(t.Context())
	require.NoError(t, err)
	t.Cleanup(stop)
	return dialled, accepted
}

// TestConn is the conformance test of net.Conn.
func TestConn(t *testing.T) {
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) { return pair(t.Context()) })
}

func TestItIsTaken(t *testing.T) {
	a, b := pairOf(t)
	for _, c := range []net.Conn{a, b} {
		require.IsType(t, &Conn{}, c)
	}
}

// standardPair is the same of the net package.
func standardPair(t *testing.T) (dialled, accepted net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	dialled, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	accepted, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		dialled.Close()
		accepted.Close()
	})
	return dialled, accepted
}

// TestErrorsAreThoseOfNet compares the errors with those of a TCPConn.
func TestErrorsAreThoseOfNet(t *testing.T) {
	reset := func(c net.Conn) {
		_ = c.(interface{ SetLinger(sec int) error }).SetLinger(0)
		c.Close()
	}
	readOne := func(c net.Conn) error {
		_, err := c.Read(make([]byte, 1))
		return err
	}
	writeOne := func(c net.Conn) error {
		_, err := c.Write([]byte{1})
		return err
	}
	untilItFails := func(c net.Conn) error {
		for {
			if err := writeOne(c); err != nil {
				return err
			}
		}
	}
	for name, c := range map[string]struct {
		fail func(c, peer net.Conn) error
		is   error
	}{
		"the peer has closed":               {func(c, peer net.Conn) error { peer.Close(); return readOne(c) }, io.EOF},
		"the peer has reset, reading":       {func(c, peer net.Conn) error { reset(peer); return readOne(c) }, syscall.ECONNRESET},
		"writing on what the peer closed":   {func(c, peer net.Conn) error { peer.Close(); return untilItFails(c) }, syscall.EPIPE},
		"reading on what is closed":         {func(c, _ net.Conn) error { c.Close(); return readOne(c) }, net.ErrClosed},
		"writing on what is closed":         {func(c, _ net.Conn) error { c.Close(); return writeOne(c) }, net.ErrClosed},
		"reading nothing on what is closed": {func(c, _ net.Conn) error { c.Close(); _, err := c.Read(nil); return err }, net.ErrClosed},
		"the deadline has passed, reading": {func(c, _ net.Conn) error {
			_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			return readOne(c)
		}, os.ErrDeadlineExceeded},
		"the deadline has passed, writing": {func(c, _ net.Conn) error {
			_ = c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
			for { // until the peer's buffer is full
				if _, err := c.Write(make([]byte, 1<<16)); err != nil {
					return err
				}
			}
		}, os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			ours, peer := pairOf(t)
			theirs, peersPeer := standardPair(t)
			got, want := c.fail(ours, peer), c.fail(theirs, peersPeer)
			require.ErrorIs(t, want, c.is, "what the net package says")
			require.ErrorIs(t, got, c.is)
			var opGot, opWant *net.OpError
			require.Equal(t, errors.As(want, &opWant), errors.As(got, &opGot))
			if opWant == nil {
				require.Equal(t, want, got)
				return
			}
			require.Equal(t, opWant.Err.Error(), opGot.Err.Error())
			require.Equal(t, [3]any{opWant.Op, opWant.Net, opWant.Timeout()}, [3]any{opGot.Op, opGot.Net, opGot.Timeout()})
			require.Equal(t, [2]net.Addr{ours.LocalAddr(), ours.RemoteAddr()}, [2]net.Addr{opGot.Source, opGot.Addr})
		})
	}
}

// TestNothingIsLost sends more than the buffers of the kernel hold, to a reader who
// takes odd pieces.
func TestNothingIsLost(t *testing.T) {
	a, b := pairOf(t)
	sent := make([]byte, 16<<20)
	for i := range sent {
		sent[i] = byte(i * i >> 7)
	}
	wrote := make(chan error, 1)
	go func() {
		n, err := a.Write(sent)
		if err == nil && n != len(sent) {
			err = io.ErrShortWrite
		}
		a.Close()
		wrote <- err
	}()
	var got []byte
	for piece := 1; ; piece = piece%100_003 + 1013 {
		p := make([]byte, piece)
		n, err := b.Read(p)
		got = append(got, p[:n]...)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	require.NoError(t, <-wrote)
	require.Equal(t, len(sent), len(got))
	require.True(t, string(sent) == string(got))
}

// TestWritesAreNotMixed: what one Write sends is not torn by another, as it is not by a
// TCPConn, also where it takes many transfers.
func TestWritesAreNotMixed(t *testing.T) {
	a, b := pairOf(t)
	const size, writers = 8 << 20, 3
	var wrote sync.WaitGroup
	for i := range writers {
		wrote.Go(func() { _, _ = a.Write(bytes.Repeat([]byte{byte('a' + i)}, size)) })
	}
	go func() {
		wrote.Wait()
		a.Close()
	}()
	got, err := io.ReadAll(b)
	require.NoError(t, err)
	require.Len(t, got, writers*size)
	for i := range writers {
		one := got[i*size : (i+1)*size]
		require.True(t, len(bytes.Trim(one, string(one[:1]))) == 0, "write %d is torn", i)
	}
}

func TestDialFails(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	c, err := Dial(t.Context(), "tcp", l.Addr().String())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Nil(t, c)
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = Listen("256.0.0.1:0")
	require.Error(t, err)
}

// TestNothingIsAllocated: the point of it is to be cheap.
func TestNothingIsAllocated(t *testing.T) {
	a, b := pairOf(t)
	p := make([]byte, 8)
	if got := testing.AllocsPerRun(100, func() {
		_, _ = a.Write(p)
		_, _ = b.Read(p)
	}); got != 0 && a.(*Conn).reading != nil {
		t.Fatalf("%v allocations", got)
	}
}
