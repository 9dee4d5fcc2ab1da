package main

import (
	"fmt"
	"time"
)

// scale is row 6: how it goes on where one thing grows and the others stay.
func (b *bench) scale() error {
	type point struct {
		label   string
		brokers int
		delay   time.Duration
		callers int
		keys    int
	}
	curves := []struct {
		title  string
		points []point
	}{
		{"Callers, one key each", nil},
		{"Keys a call, one caller", nil},
		{"Brokers, 256 callers of one key", nil},
		{"Round trip to the brokers, 64 callers of one key", nil},
		{"Round trip to the brokers, one caller of 10,000 keys", nil},
	}
	for _, n := range []int{1, 10, 100, 1000, 10_000} {
		curves[0].points = append(curves[0].points, point{number(float64(n)), 3, 0, n, 1})
		curves[1].points = append(curves[1].points, point{number(float64(n)), 3, 0, 1, n})
	}
	for _, n := range []int{1, 3, 6, 9} {
		curves[2].points = append(curves[2].points, point{number(float64(n)), n, 0, 256, 1})
	}
	for _, rtt := range []time.Duration{0, 1, 5, 20, 50} {
		label := fmt.Sprintf("%d ms", rtt)
		curves[3].points = append(curves[3].points, point{label, 3, rtt * time.Millisecond, 64, 1})
		curves[4].points = append(curves[4].points, point{label, 3, rtt * time.Millisecond, 1, 10_000})
	}
	for _, curve := range curves {
		table := b.report.curve(curve.title)
		for _, p := range curve.points {
			if err := b.point(curve.title, p.label, p.brokers, p.delay, b.load(p.callers, p.keys), table); err != nil {
				return err
			}
		}
	}
	return nil
}

// moreCalls lifts the limit of calls in flight, 2,000 unless set, above all callers.
var moreCalls = []string{"--limits-max-calls-in-flight", "20000"}

// callersAConnection is fewer than a server takes calls at one time on one (1,000).
const callersAConnection = 500

func (b *bench) point(title, label string, brokers int, delay time.Duration, l load, table *curve) error {
	c, err := stubCluster(brokers, stubOptions{delay: delay}, max(keysOfRows, 2*l.callers))
	if err != nil {
		return err
	}
	defer c.stop()
	t := &team{b: b, c: c}
	defer t.stop()
	ours := t.coordsvc("coordsvc", max(connectionsOfCallers, l.callers/callersAConnection), append(moreCalls, logQuiet...)...)
	if t.err != nil {
		return t.err
	}
	rounds := *b
	rounds.rounds = min(b.rounds, 3)
	l.duration /= 2
	r, err := rounds.compare(fmt.Sprintf("%s: %s", title, label), c, l, c.keyset, ours)
	if err != nil {
		return err
	}
	table.add(label, r.of(ours, keysPerSecond), r.of(ours, p50), r.of(ours, p99), r.of(ours, serverCPU), r.of(ours, peakMemory))
	return nil
}
