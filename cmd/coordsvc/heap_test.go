package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHeapGrowsByItsRoomOrDoubles(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 800, 1 << 20: 800, 4 << 20: 800, 8 << 20: 400, 16 << 20: 200,
		32 << 20: 100, 33 << 20: 100, 1 << 40: 100,
	} {
		require.Equal(t, want, gcPercent(live), "%d bytes live", live)
	}
}
