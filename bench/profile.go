package main

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// share is the part of a process's CPU time that goes into one thing.
type share struct {
	what string
	part float64
}

// profileTime is how long a process is watched, at 100 samples a second of CPU time.
const profileTime = 3 * time.Second

// cpuShares puts a load on coordsvc and sees where its CPU time goes.
func cpuShares(c *cluster, x *contender, l load) ([]share, error) {
	type outcome struct {
		p   *profile.Profile
		err error
	}
	fetched := make(chan outcome, 1)
	go func() {
		p, err := fetchProfile(x.server.admin)
		fetched <- outcome{p, err}
	}()
	l.duration = profileTime + 500*time.Millisecond
	if _, err := x.drive(l, c.keyset); err != nil {
		return nil, err
	}
	o := <-fetched
	if o.err != nil {
		return nil, fmt.Errorf("profile of coordsvc: %w", o.err)
	}
	return sharesOf(o.p), nil
}

func fetchProfile(admin string) (*profile.Profile, error) {
	resp, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", admin, int(profileTime.Seconds())))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the admin port answers %s", resp.Status)
	}
	return profile.Parse(resp.Body)
}

// The kinds of work that CPU time goes into. Some are told by any function on the
// stack: what lies under them is part of them, whoever asked for it. The others are
// told by the package of the innermost function that is in one of them.
var (
	anywhere = []struct{ function, what string }{
		{"runtime.gcBgMarkWorker", collecting}, {"runtime.bgsweep", collecting}, {"runtime.gcAssistAlloc", collecting}, {"runtime.bgscavenge", collecting},
		{"internal/runtime/syscall/linux.EpollWait", scheduling}, {"runtime.mcall", scheduling}, {"runtime.mstart", scheduling},
		{"runtime.ready", scheduling}, {"runtime.goready", scheduling}, {"runtime.wakep", scheduling}, {"runtime.futex", scheduling},
		{"internal/runtime/syscall", sockets},
		{"runtime.mallocgc", allocating}, {"runtime.newstack", allocating}, {"runtime.newproc", scheduling},
	}
	packages = []struct{ prefix, what string }{
		{"github.com/coordsvc/coordsvc/kafkawire.", "kafkawire: bytes of Kafka"},
		{"github.com/coordsvc/coordsvc/pool.", "pool: connections to Kafka"},
		{"github.com/coordsvc/coordsvc/service.", "service: the Finder, checks, translation"},
		{"github.com/coordsvc/coordsvc/internal/server.", "internal/server: interceptors, encoding of answers"},
		{"github.com/coordsvc/coordsvc/", "the rest of coordsvc: telemetry, authorization"},
		{"google.golang.org/protobuf/", "protobuf"},
		{"google.golang.org/grpc", "gRPC and HTTP/2"},
		{"golang.org/x/net/http2", "gRPC and HTTP/2"},
		{"net/http.", "HTTP"},
	}
)

const (
	collecting = "garbage collection"
	scheduling = "goroutines and threads: waiting, waking, switching"
	sockets    = "system calls: reading and writing sockets"
	allocating = "memory: allocating, growing stacks"
	elsewhere  = "other"
)

func sharesOf(p *profile.Profile) []share {
	last := len(p.SampleType) - 1 // CPU time; the first is the number of samples
	var total float64
	found := map[string]float64{}
	for _, s := range p.Sample {
		v := float64(s.Value[last])
		found[kindOf(functionsOf(s))] += v
		total += v
	}
	var shares []share
	for what, v := range found {
		shares = append(shares, share{what, v / total})
	}
	slices.SortFunc(shares, func(a, b share) int {
		return cmp.Or(cmp.Compare(b.part, a.part), strings.Compare(a.what, b.what))
	})
	return shares
}

// functionsOf are the functions of a sample, the innermost first.
func functionsOf(s *profile.Sample) []string {
	var names []string
	for _, l := range s.Location {
		for _, line := range l.Line {
			names = append(names, line.Function.Name)
		}
	}
	return names
}

func kindOf(functions []string) string {
	for _, kind := range anywhere {
		for _, f := range functions {
			if strings.HasPrefix(f, kind.function) {
				return kind.what
			}
		}
	}
	for _, f := range functions {
		for _, kind := range packages {
			if strings.HasPrefix(f, kind.prefix) {
				return kind.what
			}
		}
	}
	return elsewhere
}

// sentence is the shares in words, the small ones left out.
func sentence(shares []share) string {
	const least = 0.03
	var parts []string
	for _, s := range shares {
		if s.part >= least {
			parts = append(parts, fmt.Sprintf("%.0f %% %s", 100*s.part, s.what))
		}
	}
	return strings.Join(parts, "; ")
}
