package kafkatest

import (
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// connect gives both ends of a connection to broker:9092 on a new network.
func connect(t *testing.T) (client, server net.Conn) {
	t.Helper()
	network := NewNetwork()
	listener, err := network.Listen("tcp", "broker:9092")
	require.NoError(t, err)
	client, err = network.DialContext(t.Context(), "tcp", "broker:9092")
	require.NoError(t, err)
	server, err = listener.Accept()
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return client, server
}

func TestNetworkCarriesBytesBothWays(t *testing.T) {
	client, server := connect(t)
	require.Equal(t, "broker:9092", client.RemoteAddr().String())
	require.Equal(t, client.LocalAddr(), server.RemoteAddr())

	for _, way := range []struct{ from, to net.Conn }{{client, server}, {server, client}} {
		_, err := way.from.Write([]byte("hello"))
		require.NoError(t, err)
		got := make([]byte, 5)
		_, err = io.ReadFull(way.to, got)
		require.NoError(t, err)
		require.Equal(t, "hello", string(got))
	}
}

func TestNetworkRefusesWhereNobodyListens(t *testing.T) {
	network := NewNetwork()
	_, err := network.DialContext(t.Context(), "tcp", "nobody:9092")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Equal(t, 1, network.Dials("nobody:9092"))

	listener, err := network.Listen("tcp", "broker:0")
	require.NoError(t, err)
	_, err = network.Listen("tcp", listener.Addr().String())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.NoError(t, listener.Close())
	_, err = network.DialContext(t.Context(), "tcp", listener.Addr().String())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = listener.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestNetworkSilentAddressHoldsTheDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewNetwork()
		network.SetSilent("broker:9092", true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_, err := network.DialContext(ctx, "tcp", "broker:9092")
		var netErr net.Error
		require.ErrorAs(t, err, &netErr)
		require.True(t, netErr.Timeout())
		require.Equal(t, 5*time.Second, time.Since(start))
	})
}

// What each end sees after the other end, or itself, has gone.
func TestNetworkEndOfConnection(t *testing.T) {
	buf := make([]byte, 16)
	tests := []struct {
		name  string
		end   func(client, server net.Conn)
		read  error // of the client
		write error // of the client
		first string
	}{
		{"peer closed", func(_, s net.Conn) { s.Close() }, io.EOF, syscall.EPIPE, "last words"},
		{"peer reset", func(_, s net.Conn) { s.(*memConn).Reset() }, syscall.ECONNRESET, syscall.ECONNRESET, ""},
		{"closed here", func(c, _ net.Conn) { c.Close() }, net.ErrClosed, net.ErrClosed, ""},
		{"closed here after peer", func(c, s net.Conn) { s.Close(); c.Close() }, net.ErrClosed, net.ErrClosed, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			client, server := connect(t)
			_, err := server.Write([]byte("last words"))
			require.NoError(t, err)
			test.end(client, server)
			if test.first != "" {
				n, err := client.Read(buf)
				require.NoError(t, err)
				require.Equal(t, test.first, string(buf[:n]))
			}
			_, err = client.Read(buf)
			require.ErrorIs(t, err, test.read)
			_, err = client.Write(buf)
			require.ErrorIs(t, err, test.write)
		})
	}
}

func TestNetworkDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connect(t)
		start := time.Now()
		require.NoError(t, client.SetDeadline(start.Add(time.Second)))
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		_, err = client.Write(make([]byte, socketBuffer+1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))

		// A deadline moved while a read waits takes the waiting read with it.
		require.NoError(t, client.SetDeadline(time.Time{}))
		go func() {
			time.Sleep(time.Second)
			client.SetReadDeadline(time.Now())
		}()
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)

		// And one taken back in time never strikes.
		require.NoError(t, client.SetReadDeadline(time.Now().Add(time.Second)))
		require.NoError(t, client.SetReadDeadline(time.Time{}))
		go func() {
			time.Sleep(time.Minute)
			server.Write([]byte{1})
		}()
		_, err = client.Read(make([]byte, 1))
		require.NoError(t, err)
	})
}

// A writer that is not read fills the buffer, waits, and goes on.
func TestNetworkWriteWaitsForTheReader(t *testing.T) {
	client, server := connect(t)
	sent := make(chan error, 1)
	go func() {
		_, err := client.Write(make([]byte, 3*socketBuffer))
		client.Close()
		sent <- err
	}()
	got, err := io.Copy(io.Discard, server)
	require.NoError(t, err)
	require.NoError(t, <-sent)
	require.EqualValues(t, 3*socketBuffer, got)
}
