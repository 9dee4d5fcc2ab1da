//go:build !unix

package pool

import "net"

// A peeker sees nothing here; see peek_unix.go.
type peeker struct{}

func (*peeker) init(net.Conn) {}

func (*peeker) quiet() (quiet, ok bool) { return false, false }
