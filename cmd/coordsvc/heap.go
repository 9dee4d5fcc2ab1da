package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// heapRoom is how much is allocated between two garbage collections at the least,
	// in bytes. Go collects when the heap has doubled, but what is live here is a few
	// MiB, and under load it would collect hundreds of times a second.
	heapRoom = 16 << 20
	// mostGCPercent makes the least heap at which Go collects heapRoom: it is 4 MiB, in
	// proportion to the percentage.
	mostGCPercent = 100 * heapRoom / (4 << 20)
)

// keepHeapRoom sets the pace of garbage collection until stop is called, unless GOGC
// does. Where memory is limited (GOMEMLIMIT) Go collects earlier all the same.
func keepHeapRoom() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	debug.SetGCPercent(gcPercent(0))
	c := &collections{}
	c.follow()
	return func() { c.stopped.Store(true) }
}

// collections adjusts the pace after each collection: a finalizer tells of one.
type collections struct{ stopped atomic.Bool }

func (c *collections) follow() {
	runtime.SetFinalizer(&struct{ *collections }{c}, func(*struct{ *collections }) {
		if !c.stopped.Load() {
			c.adjust()
			c.follow()
		}
	})
}

func (c *collections) adjust() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Kind() == metrics.KindUint64 {
		debug.SetGCPercent(gcPercent(live[0].Value.Uint64()))
	}
}

// gcPercent is the growth, in percent of what is live, at which to collect.
func gcPercent(live uint64) int {
	const usual = 100
	return int(min(mostGCPercent, max(usual, heapRoom*100/max(live, 1)))) //nolint:gosec // at most mostGCPercent
}
