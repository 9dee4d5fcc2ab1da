package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHeapGrowsByItsRoomOrDoubles(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 400, 1 << 20: 400, 4 << 20: 400, 8 << 20: 200,
		16 << 20: 100, 17 << 20: 100, 1 << 40: 100,
	} {
		require.Equal(t, want, gcPercent(live), "%d bytes live", live)
	}
}

func TestHeapRoomFollowsWhatIsLive(t *testing.T) {
	t.Setenv("GOGC", "")
	usual := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(usual) })
	percent := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	stop := keepHeapRoom()
	t.Cleanup(stop)
	require.EqualValues(t, mostGCPercent, percent())

	live := make([]byte, 4*heapRoom)
	require.Eventually(t, func() bool {
		runtime.GC()
		return percent() == 100
	}, 10*time.Second, time.Millisecond, "much is live: the usual percentage is enough room")
	runtime.KeepAlive(live)
	require.Eventually(t, func() bool {
		runtime.GC()
		return percent() > 100
	}, 10*time.Second, time.Millisecond, "little is live")
}

func TestGOGCGoesBeforeHeapRoom(t *testing.T) {
	t.Setenv("GOGC", "50")
	usual := debug.SetGCPercent(50)
	t.Cleanup(func() { debug.SetGCPercent(usual) })
	keepHeapRoom()()
	require.Equal(t, 50, debug.SetGCPercent(50))
}
