package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// deployment is some instances of coordsvc, each call going to the next of them, as
// a balancer in the client does it.
type deployment struct {
	*contender
	instances []*server
}

func (b *bench) deploy(c *cluster, replicas int) (*deployment, error) {
	d := &deployment{contender: &contender{name: fmt.Sprintf("%d instances", replicas)}}
	var askers []asker
	var stops []func()
	d.stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	for range replicas {
		s, err := startCoordsvc(b.program, c.bootstrap, nil, logQuiet...)
		if err != nil {
			d.stop()
			return nil, err
		}
		stops = append(stops, s.stop)
		d.instances = append(d.instances, s)
		ask, stop, err := grpcAsker(s.grpc, connectionsOfCallers, nil)
		if err != nil {
			d.stop()
			return nil, err
		}
		stops = append(stops, stop)
		askers = append(askers, ask)
	}
	var turn atomic.Uint64
	d.ask = func(ctx context.Context, caller int, q *keyset) error {
		return askers[turn.Add(1)%uint64(len(askers))](ctx, caller, q)
	}
	return d, nil
}

const (
	connectionsOpen figure = "connections to brokers"
	residentSum     figure = "memory in sum, MiB"
)

// meter reads what the instances have used together.
func (d *deployment) meter() (figures, error) {
	f := figures{}
	for _, s := range d.instances {
		used, err := cpuTime(s.cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		resident, err := memory(s.cmd.Process.Pid, residentNow)
		if err != nil {
			return nil, err
		}
		f[serverCPU] += float64(used.Microseconds())
		f[residentSum] += resident
		requests, err := s.requests()
		if err != nil {
			return nil, err
		}
		f[requestsPer] += requests
		if err := s.scrape(func(series string, value float64) {
			if strings.HasPrefix(series, `coordsvc_pool_connections{`) && !strings.Contains(series, "dialing") {
				f[connectionsOpen] += value
			}
		}); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// measure puts the load on a deployment.
func (d *deployment) measure(c *cluster, l load) (figures, error) {
	before, err := d.meter()
	if err != nil {
		return nil, err
	}
	f, err := run(c, d.contender, l, c.keyset)
	if err != nil {
		return nil, err
	}
	after, err := d.meter()
	if err != nil {
		return nil, err
	}
	if f[connectionsOpen] = after[connectionsOpen]; f[connectionsOpen] == 0 || after[requestsPer] == before[requestsPer] {
		return nil, errors.New("the metrics know of no connection or request to a broker")
	}
	f[residentSum] = after[residentSum]
	f[requestsPer] = (after[requestsPer] - before[requestsPer]) / f[keysAnswered]
	f[serverCPU] = (after[serverCPU] - before[serverCPU]) / f[keysAnswered]
	return f, nil
}

// replicas measures 1, 2 and 4 instances beside each other, and returns the table.
func (b *bench) replicas(ctx context.Context) (string, error) {
	c, err := b.cluster(ctx, batchedRelease, true)
	if err != nil {
		return "", err
	}
	defer c.stop()
	if err := b.warmJVM(c); err != nil {
		return "", err
	}
	var deployments []*deployment
	for _, n := range []int{1, 2, 4} {
		d, err := b.deploy(c, n)
		if err != nil {
			return "", err
		}
		defer d.stop()
		deployments = append(deployments, d)
	}
	shown := []figure{keysPerSecond, p50, requestsPer, connectionsOpen, serverCPU, brokersCPU, residentSum}
	header := []string{"callers", "instances"}
	for _, f := range shown {
		header = append(header, string(f))
	}
	lines := [][]string{header}
	for _, callers := range []int{64, 256} {
		b.progress("%d callers, one key", callers)
		measure := func(d *deployment) (figures, error) { return d.measure(c, b.load(callers, 1)) }
		if _, err := takeTurns(1, deployments, measure); err != nil { // to warm up
			return "", err
		}
		found, err := takeTurns(b.rounds, deployments, measure)
		if err != nil {
			return "", err
		}
		for _, d := range deployments {
			line := []string{number(float64(callers)), number(float64(len(d.instances)))}
			for _, f := range shown {
				line = append(line, found[d][f].String())
			}
			lines = append(lines, line)
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%s (%s); %s; %d rounds of %v.\n\n%s\n", c.name, java(), b.report.date.Format("2 January 2006"), b.rounds, b.duration, b.report.machine())
	writeTable(&table, lines)
	return table.String(), nil
}

// The part of docs/scaling.md, or of README.md, that is measured.
const (
	measuredBegins = "<!-- measured:begin -->\n"
	measuredEnds   = "<!-- measured:end -->"
)

// writeMeasured puts what was measured where a document has room for it.
func writeMeasured(file, found string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), measuredBegins)
	_, after, ok2 := strings.Cut(rest, measuredEnds)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no %s ... %s", file, strings.TrimSpace(measuredBegins), measuredEnds)
	}
	return os.WriteFile(file, []byte(before+measuredBegins+"\n"+strings.TrimSpace(found)+"\n\n"+measuredEnds+after), 0o644)
}
