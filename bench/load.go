package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// load is callers who ask one question after the other, each of so many keys.
type load struct {
	callers, keys int
	duration      time.Duration
}

// patience is the deadline of the calls, beyond the time that a load is put on: below
// lookup.max-timeout, as the deadlines of callers are, and coordsvc need not shorten it.
const patience = 20 * time.Second

// leastCalls of each caller are made, however long they take.
const leastCalls = 2

// contender is one way to learn coordinators.
type contender struct {
	name   string
	ask    asker
	server *server       // nil where the callers ask Kafka themselves
	count  *requestCount // of those; nil where requests are not counted
	stop   func()
}

// figures are what a round found, by figure.
type figures map[figure]float64

type figure string

const (
	keysPerSecond figure = "keys/s"
	p50           figure = "p50, ms"
	p99           figure = "p99, ms"
	serverCPU     figure = "service CPU, µs a key"
	brokersCPU    figure = "brokers' CPU, µs a key"
	callersCPU    figure = "callers' CPU, µs a key"
	requestsPer   figure = "FindCoordinator requests a key"
	idleCPU       figure = "idle CPU, µs a key" // of the machine, under the load
	peakMemory    figure = "memory, MiB"
	keysAnswered  figure = "keys"
)

// cluster is what the contenders ask.
type cluster struct {
	name      string
	bootstrap []string
	batched   bool  // takes many keys a request
	pids      []int // of the brokers; none for stubs, which are part of this process
	keyset    *keyset
	stop      func()
}

// run puts a load on a contender and measures.
func run(c *cluster, x *contender, l load, keys *keyset) (figures, error) {
	runtime.GC() // of what others left
	before, err := c.meter(x)
	if err != nil {
		return nil, err
	}
	if x.server != nil {
		if err := forgetPeak(x.server.cmd.Process.Pid); err != nil {
			return nil, err
		}
	}
	begin := time.Now()
	took, err := x.drive(l, keys)
	elapsed := time.Since(begin)
	if err != nil {
		return nil, fmt.Errorf("%s asked by %d callers for %d keys a call: %w", x.name, l.callers, l.keys, err)
	}
	after, err := c.meter(x)
	if err != nil {
		return nil, err
	}
	slices.Sort(took)
	n := float64(len(took) * l.keys)
	f := figures{
		keysPerSecond: n / elapsed.Seconds(),
		p50:           ms(took[len(took)/2]),
		p99:           ms(took[len(took)*99/100]),
		keysAnswered:  n,
	}
	for what, value := range after {
		f[what] = (value - before[what]) / n
	}
	if x.server != nil {
		if f[peakMemory], err = memory(x.server.cmd.Process.Pid, residentPeak); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// meter reads what only grows.
func (c *cluster) meter(x *contender) (figures, error) {
	idle, err := idleTime()
	if err != nil {
		return nil, err
	}
	f := figures{idleCPU: float64(idle) / float64(time.Microsecond)}
	if x.server != nil {
		used, err := cpuTime(x.server.cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		f[serverCPU] = float64(used) / float64(time.Microsecond)
	}
	for _, pid := range c.pids {
		used, err := cpuTime(pid)
		if err != nil {
			return nil, err
		}
		f[brokersCPU] += float64(used) / float64(time.Microsecond)
	}
	if len(c.pids) > 0 { // else this process is the brokers too
		used, err := cpuTime(os.Getpid())
		if err != nil {
			return nil, err
		}
		f[callersCPU] = float64(used) / float64(time.Microsecond)
	}
	switch {
	case x.count != nil:
		f[requestsPer] = float64(x.count.Load())
	case x.server != nil && x.server.asksKafka():
		n, err := x.server.requests()
		if err != nil {
			return nil, err
		}
		f[requestsPer] = n
	}
	return f, nil
}

// brokersAtRest is how much CPU time the brokers take in a second in which nobody asks, in microseconds.
func (c *cluster) brokersAtRest(span time.Duration) (float64, error) {
	before, err := c.meter(&contender{})
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	time.Sleep(span)
	after, err := c.meter(&contender{})
	return (after[brokersCPU] - before[brokersCPU]) / time.Since(begin).Seconds(), err
}

// drive has the callers ask, and returns how long each call took.
func (x *contender) drive(l load, keys *keyset) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.duration+patience)
	defer cancel()
	var over atomic.Bool
	timer := time.AfterFunc(l.duration, func() { over.Store(true) })
	defer timer.Stop()
	took := make([][]time.Duration, l.callers)
	var mu sync.Mutex
	var failed error
	var callers sync.WaitGroup
	for i := range l.callers {
		callers.Go(func() {
			for n := 0; n < leastCalls || !over.Load(); n++ {
				q := keys.question(i, l.callers, n, l.keys)
				begin := time.Now()
				if err := x.ask(ctx, i, q); err != nil {
					mu.Lock()
					defer mu.Unlock()
					if failed == nil {
						failed = err
					}
					over.Store(true)
					return
				}
				took[i] = append(took[i], time.Since(begin))
			}
		})
	}
	callers.Wait()
	return slices.Concat(took...), failed
}

// results are what rounds found, by contender and figure.
type results map[*contender]map[figure]series

func (r results) of(x *contender, f figure) series { return r[x][f] }

// budget is a sentence on where the CPU time of a key goes, ours and theirs.
func (r results) budget(ours, theirs *contender) string {
	of := func(x *contender) []any {
		return []any{number(r.of(x, serverCPU).median()), number(r.of(x, brokersCPU).median()), number(r.of(x, callersCPU).median()), number(r.of(x, idleCPU).median())}
	}
	return fmt.Sprintf("A key costs %s µs of CPU in coordsvc, %s in the brokers and %s in the callers, and %s are idle; with the "+theirs.name+" %s, %s, %s and %s",
		append(of(ours), of(theirs)...)...)
}

// beside is the time of the machine's cores for a key that is not the service's, idle or not.
func (r results) beside(x *contender) series {
	return r.of(x, brokersCPU).plus(r.of(x, callersCPU)).plus(r.of(x, idleCPU))
}

// free is a sentence on how much faster than x a service would be that took no CPU
// time at all, where the brokers and the callers need the same.
func (r results) free(x *contender) string {
	others := r.of(x, brokersCPU).plus(r.of(x, callersCPU))
	return fmt.Sprintf("A service that cost no CPU time at all would come to %s times the %s",
		number(others.plus(r.of(x, serverCPU)).over(others).median()), x.name)
}

// compare lets the contenders take turns, rounds times, after a turn each to warm up.
func (b *bench) compare(what string, c *cluster, l load, keys *keyset, contenders ...*contender) (results, error) {
	b.progress("%s, %s", what, c.name)
	warm := l
	warm.duration = b.warm
	for _, x := range contenders {
		if _, err := run(c, x, warm, keys); err != nil {
			return nil, err
		}
	}
	return takeTurns(b.rounds, contenders, func(x *contender) (figures, error) { return run(c, x, l, keys) })
}

// takeTurns measures each of the list, rounds times; who is first changes with the round.
func takeTurns[T comparable](rounds int, list []T, measure func(T) (figures, error)) (map[T]map[figure]series, error) {
	all := map[T]map[figure]series{}
	for round := range rounds {
		for i := range list {
			x := list[(i+round)%len(list)]
			f, err := measure(x)
			if err != nil {
				return nil, err
			}
			if all[x] == nil {
				all[x] = map[figure]series{}
			}
			for what, value := range f {
				all[x][what] = append(all[x][what], value)
			}
		}
	}
	return all, nil
}
