package server

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// TestUnreadConnectionEnds: a gRPC client that does not read what it is sent, but goes on
// sending, is never found out by pings. The kernel does it, if it is told to.
func TestUnreadConnectionEnds(t *testing.T) {
	const tcpUserTimeout = 0x12
	r := start(t, &fakeService{})
	client := make(chan net.Addr, 1)
	conn, err := grpc.NewClient(r.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err == nil {
				client <- c.LocalAddr()
			}
			return c, err
		}))
	require.NoError(t, err)
	defer conn.Close()
	_, err = coordsvcv1.NewCoordinatorServiceClient(conn).ListBrokers(t.Context(), &coordsvcv1.ListBrokersRequest{})
	require.NoError(t, err)

	port := (<-client).(*net.TCPAddr).Port
	for fd := range 4096 { // the server's end is one of this process
		peer, err := syscall.Getpeername(fd)
		if peer, ok := peer.(*syscall.SockaddrInet4); err == nil && ok && peer.Port == port {
			got, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, tcpUserTimeout)
			require.NoError(t, err)
			require.EqualValues(t, pingTimeout.Milliseconds(), got)
			return
		}
	}
	t.Fatal("the server's end of the connection is not found")
}
