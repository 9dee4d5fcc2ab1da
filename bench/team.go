package main

import (
	"context"
	"fmt"
)

// connectionsOfCallers is over how many gRPC connections callers are spread.
const connectionsOfCallers = 4

// logQuiet keeps coordsvc from a line a call, which nothing it is compared with writes.
var logQuiet = []string{"--log-level", "warn"}

// team makes contenders for one cluster, and ends them all.
type team struct {
	b       *bench
	c       *cluster
	members []*contender
	ours    *server
	err     error // of the first that could not be made; the others are nil then
}

func (t *team) stop() {
	for _, x := range t.members {
		x.stop()
		if x.server != nil {
			x.server.stop()
		}
	}
}

func (t *team) add(x *contender, stop func(), err error) *contender {
	if err != nil {
		if t.err == nil {
			t.err = fmt.Errorf("%s: %w", x.name, err)
		}
		if x.server != nil {
			x.server.stop()
		}
		return nil
	}
	x.stop = stop
	t.members = append(t.members, x)
	return x
}

// coordsvc is the binary, asked over gRPC; flags are added to its own.
func (t *team) coordsvc(name string, connections int, flags ...string) *contender {
	return t.coordsvcWith(nil, name, connections, flags...)
}

// oneThread is coordsvc that runs Go code on one thread at a time.
func (t *team) oneThread(connections int) *contender {
	return t.coordsvcWith([]string{"GOMAXPROCS=1"}, "coordsvc, GOMAXPROCS=1", connections, logQuiet...)
}

func (t *team) coordsvcWith(env []string, name string, connections int, flags ...string) *contender {
	x := &contender{name: name}
	if t.err != nil {
		return nil
	}
	var err error
	if x.server, err = startCoordsvc(t.b.program, t.c.bootstrap, env, flags...); err != nil {
		return t.add(x, nil, err)
	}
	t.ours = x.server
	return t.overGRPC(x, connections, nil)
}

// overGRPC has the contender asked at its server's port; want is as in grpcAsker.
func (t *team) overGRPC(x *contender, connections int, want *coordinator) *contender {
	ask, stop, err := grpcAsker(x.server.grpc, connections, want)
	x.ask = ask
	return t.add(x, stop, err)
}

// rest is the same process as the last coordsvc, asked over REST.
func (t *team) rest(name string) *contender {
	if t.err != nil {
		return nil
	}
	x := &contender{name: name, server: t.ours}
	ask, stop := restAsker(t.ours.rest)
	x.ask = ask
	return t.add(x, stop, nil)
}

// service is one of the services of contenders.go.
func (t *team) service(kind string, connections int) *contender {
	if t.err != nil {
		return nil
	}
	x := &contender{name: kind}
	var err error
	if x.server, err = startContender(kind, t.c.bootstrap); err != nil {
		return t.add(x, nil, err)
	}
	var want *coordinator
	if kind == noopService {
		want = &noopAnswer
	}
	return t.overGRPC(x, connections, want)
}

// inTurn is each caller asking the first, then the second: what the parts of a lookup
// through a service cost a caller who makes them one by one.
func (t *team) inTurn(first, second *contender) *contender {
	if t.err != nil {
		return nil
	}
	return t.add(&contender{
		name: "no-op gRPC, then direct kgo",
		ask: func(ctx context.Context, caller int, q *keyset) error {
			if err := first.ask(ctx, caller, q); err != nil {
				return err
			}
			return second.ask(ctx, caller, q)
		},
		count: second.count,
	}, func() {}, nil)
}

func (t *team) direct(name string, callers int, overKadm bool) *contender {
	if t.err != nil {
		return nil
	}
	x := &contender{name: name, count: new(requestCount)}
	ask, stop, err := kgoAsker(t.c.bootstrap, callers, overKadm, x.count)
	x.ask = ask
	return t.add(x, stop, err)
}

func (t *team) raw(name string, brokers int) *contender {
	if t.err != nil {
		return nil
	}
	x := &contender{name: name}
	ask, stop, err := rawAsker(t.c.bootstrap[:brokers], t.c.batched)
	x.ask = ask
	return t.add(x, stop, err)
}
