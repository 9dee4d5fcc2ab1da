package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// openGate lets everybody in.
func openGate(t testing.TB) *gate {
	t.Helper()
	g, err := newGate(DefaultConfig())
	require.NoError(t, err)
	return g
}
