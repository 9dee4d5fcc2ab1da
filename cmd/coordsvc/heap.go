package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// heapRoom is how much is allocated between two garbage collections at the least,
	// in bytes. Go collects when the heap has doubled, but what is live here is a few
	// MiB, and under load it would collect hundreds of times a second.
	heapRoom = 32 << 20
	// mostGCPercent makes the least heap at which Go collects heapRoom: it is 4 MiB, in
	// proportion to the percentage.
	mostGCPercent = 100 * heapRoom / (4 << 20)
)

// keepHeapRoom sets the pace of garbage collection from now on, unless GOGC does.
// Where memory is limited (GOMEMLIMIT) Go collects earlier all the same.
func keepHeapRoom() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(gcPercent(0))
	runtime.SetFinalizer(new(collected), (*collected).adjust)
}

// collected becomes garbage at once, so that its finalizer runs after the next collection.
type collected struct{ _ *int }

func (c *collected) adjust() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Kind() == metrics.KindUint64 {
		debug.SetGCPercent(gcPercent(live[0].Value.Uint64()))
	}
	runtime.SetFinalizer(c, (*collected).adjust)
}

// gcPercent is the growth, in percent of what is live, at which to collect.
func gcPercent(live uint64) int {
	const usual = 100
	return int(min(mostGCPercent, max(usual, heapRoom*100/max(live, 1)))) //nolint:gosec // at most mostGCPercent
}
