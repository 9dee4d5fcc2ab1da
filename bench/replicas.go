package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
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
		s, err := startCoordsvc(b.program, c.bootstrap, logQuiet...)
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
		if err := s.scrape(func(series string, value float64) {
			switch {
			case strings.HasPrefix(series, `coordsvc_kafka_requests_total{api="FindCoordinator"`):
				f[requestsPer] += value
			case strings.HasPrefix(series, `coordsvc_pool_connections{`) && !strings.Contains(series, "dialing"):
				f[connectionsOpen] += value
			}
		}); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// scrape reads the metrics of coordsvc.
func (s *server) scrape(each func(series string, value float64)) error {
	resp, err := http.Get("http://" + s.admin + "/metrics")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		i := strings.LastIndexByte(lines.Text(), ' ')
		if i < 0 || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		value, err := strconv.ParseFloat(lines.Text()[i+1:], 64)
		if err != nil {
			return err
		}
		each(lines.Text()[:i], value)
	}
	return lines.Err()
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
		found := make([]map[figure]series, len(deployments))
		b.progress("%d callers, one key", callers)
		for round := range b.rounds + 1 { // the first is to warm up
			for i := range deployments {
				i = (i + round) % len(deployments)
				f, err := deployments[i].measure(c, b.load(callers, 1))
				if err != nil {
					return "", err
				}
				if round == 0 {
					found[i] = map[figure]series{}
					continue
				}
				for what, value := range f {
					found[i][what] = append(found[i][what], value)
				}
			}
		}
		for i, d := range deployments {
			line := []string{number(float64(callers)), number(float64(len(d.instances)))}
			for _, f := range shown {
				line = append(line, found[i][f].String())
			}
			lines = append(lines, line)
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%s; %s.\n\n%s\n", c.name, b.report.date.Format("2 January 2006"), b.report.machine())
	writeTable(&table, lines)
	return table.String(), nil
}

// The part of docs/scaling.md that is measured.
const (
	measuredBegins = "<!-- measured:begin -->\n"
	measuredEnds   = "<!-- measured:end -->"
)

// writeMeasured puts the table where a document has room for it.
func writeMeasured(file, table string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), measuredBegins)
	_, after, ok2 := strings.Cut(rest, measuredEnds)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no %s ... %s", file, strings.TrimSpace(measuredBegins), measuredEnds)
	}
	return os.WriteFile(file, []byte(before+measuredBegins+"\n"+strings.TrimSpace(table)+"\n\n"+measuredEnds+after), 0o644)
}
