package socket

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestUserTimeout: a peer that takes nothing for so long is gone, though its machine is not.
func TestUserTimeout(t *testing.T) {
	a, _ := pairOf(t)
	require.NoError(t, a.(*Conn).SetUserTimeout(500*time.Millisecond))
	wrote := make(chan error, 1)
	go func() {
		_, err := a.Write(make([]byte, 64<<20))
		wrote <- err
	}()
	select {
	case err := <-wrote:
		require.ErrorIs(t, err, syscall.ETIMEDOUT)
	case <-time.After(20 * time.Second):
		t.Fatal("it is still being written")
	}
	a.Close()
	require.Error(t, a.(*Conn).SetUserTimeout(time.Second))
}
