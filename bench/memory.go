package main

import (
	"time"
)

// memory is row 7: what coordsvc keeps resident.
func (b *bench) memory() error {
	keys := 64 * 10_000
	if b.smoke {
		keys = 4 * 10_000
	}
	c, err := stubCluster(brokersOfRows, stubOptions{}, keys)
	if err != nil {
		return err
	}
	defer c.stop()
	add := b.report.section("7", "Resident memory of coordsvc ("+c.name+")")
	for _, m := range []struct {
		what  string
		load  load
		limit float64
	}{
		{"idle, MiB", load{}, 30},
		{"256 callers, one key: peak, MiB", b.load(256, 1), 80},
		{"64 calls of 10,000 keys at once: peak, MiB", b.load(keys/10_000, 10_000), 400},
	} {
		var found series
		for range min(b.rounds, 3) {
			mib, err := b.residentUnder(c, m.load)
			if err != nil {
				return err
			}
			found = append(found, mib)
		}
		add(compared(m.what, "", found, nil).aims(&target{limit: m.limit, most: true, absolute: true},
			"what keys take on their way: the question, an ask for each, the results, the protobuf answer and its bytes; and Go's heap may double before it is collected",
			"GOMEMLIMIT, for CPU time; limits.max-calls-in-flight; fewer keys a call (lookup.max-keys)"))
	}
	return nil
}

// residentUnder is what a fresh coordsvc comes to under a load; with no load, idle.
func (b *bench) residentUnder(c *cluster, l load) (float64, error) {
	b.progress("memory: %d callers, %d keys", l.callers, l.keys)
	t := &team{b: b, c: c}
	defer t.stop()
	x := t.coordsvc("coordsvc", connectionsOfCallers, logQuiet...)
	if t.err != nil {
		return 0, t.err
	}
	if l.callers == 0 {
		time.Sleep(b.duration)
		return memory(x.server.cmd.Process.Pid, residentNow)
	}
	f, err := run(c, x, l, c.keyset)
	return f[peakMemory], err
}
