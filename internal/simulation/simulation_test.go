package simulation

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

var (
	seeds  = flag.Int("simulation.seeds", 200, "how many seeds are played, from -simulation.from on")
	from   = flag.Uint64("simulation.from", 1, "the first seed")
	seed   = flag.Uint64("seed", 0, "play this seed alone, and with -v tell what happens")
	repeat = flag.Int("simulation.repeat", 1, "how often each seed is played")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSimulation plays plan after plan. See the package's documentation for what it
// asserts and how a seed is replayed.
func TestSimulation(t *testing.T) {
	first, count := *from, *seeds
	if *seed != 0 {
		first, count = *seed, 1
	}
	if testing.Short() && *seed == 0 {
		count = min(count, 20)
	}
	var sum sums
	t.Run("seeds", func(t *testing.T) {
		for s := first; s < first+uint64(count); s++ {
			t.Run(fmt.Sprint(s), func(t *testing.T) {
				t.Parallel()
				for range *repeat {
					playSeed(t, s, &sum)
				}
			})
		}
	})
	t.Log(&sum)
}

// playSeed runs one seed in a bubble of its own.
func playSeed(t *testing.T, number uint64, sum *sums) {
	p := newPlan(number)
	defer watchdog(p)()
	defer func() {
		if r := recover(); r != nil { // synctest panics where goroutines are left, or all are blocked
			t.Fatalf("%s\n%v", p.headline(), r)
		}
	}()
	tracing := *seed != 0 && testing.Verbose()
	if tracing {
		t.Logf("the plan of seed %d:\n%v", number, p)
	}
	synctest.Test(t, func(t *testing.T) {
		w := play(t, p, tracing)
		if len(w.violations) > 0 {
			t.Errorf("%s\n%s\n%v", p.headline(), w.report(), p)
		}
		sum.add(w)
	})
}

func (p *plan) headline() string {
	return fmt.Sprintf("seed %d fails; replay it with\n\tgo test ./internal/simulation -run TestSimulation -seed=%d -v", p.seed, p.seed)
}

// watchdog ends the process when a plan's time does not pass: it spins, or waits for a
// mutex that is held by what waits for time. It runs outside of the bubble, on real
// time. Who waits for what stands in the stacks.
func watchdog(p *plan) (stop func() bool) {
	const patience = 3 * time.Minute // real time, of a machine that others use too
	return time.AfterFunc(patience, func() {
		fmt.Fprintf(os.Stderr, "%s\nit has run for %v\n%v\n", p.headline(), patience, p)
		debug.SetTraceback("all")
		panic("simulation: a seed does not end")
	}).Stop
}

// sums is what all seeds together were made of.
type sums struct {
	mu     sync.Mutex
	seeds  int
	stormy uint64 // the seed with the most dials
	total  tally
}

func (s *sums) add(w *world) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seeds++
	s.total.calls += w.calls
	s.total.keys += w.keys
	s.total.found += w.found
	s.total.promised += w.promised
	s.total.simulated += w.simulated
	s.total.mostOpen = max(s.total.mostOpen, w.mostOpen)
	if w.mostDials > s.total.mostDials {
		s.total.mostDials, s.stormy = w.mostDials, w.plan.seed
	}
	if s.total.reasons == nil {
		s.total.reasons = w.reasons
		return
	}
	for reason, n := range w.reasons {
		s.total.reasons[reason] += n
	}
}

func (s *sums) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.total
	return fmt.Sprintf("%d seeds, %v of simulated time: %d calls, of which %d had to succeed, %d keys, %d coordinators found; failures %v; at most %d connections and %d dials a second to one broker (seed %d)",
		s.seeds, t.simulated.Round(time.Second), t.calls, t.promised, t.keys, t.found, t.reasons, t.mostOpen, t.mostDials, s.stormy)
}
