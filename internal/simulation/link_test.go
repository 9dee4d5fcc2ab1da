package simulation

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// dialsInASecond bounds the TCP dials to one address within any second:
//
//   - Backoff allows five failed attempts (after 80, 160, 320 and 640 ms at the
//     least), each of up to three connections (see negotiation in the pool). A broker
//     to which some connections are open is dialled for the others at once.
//   - In place of each connection that carried a lookup and was lost there may be
//     another: lookups have a backoff of their own.
//   - Refreshes and pings lose some, too, and have their own pauses.
func (p *plan) dialsInASecond(lost int) int { return 5*3*p.pool.MaxConnectionsPerBroker + lost + 15 }

// dial is the network as the pool sees it.
func (w *world) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.countDial(addr)
	if bp := w.plan.brokerAt(addr); bp != nil {
		handshake := time.NewTimer(2 * bp.wire)
		defer handshake.Stop()
		select {
		case <-handshake.C:
		case <-ctx.Done(): // as the network tells it
		}
	}
	nc, err := w.network.DialContext(ctx, network, addr)
	if err != nil {
		w.trace("dial %s: %v", addr, err)
		return nil, err
	}
	l := &link{Conn: nc, w: w, addr: addr, written: map[int32]uint64{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.links[nc.LocalAddr().String()] = l
	w.open[addr]++
	w.mostOpen = max(w.mostOpen, w.open[addr])
	// Beside those in use each attempt may hold two that met silence.
	if limit := 3 * w.plan.pool.MaxConnectionsPerBroker; w.open[addr] > limit {
		w.violateLocked("%d connections to %s are open at once; %d are allowed", w.open[addr], addr, limit)
	}
	return l, nil
}

func (w *world) countDial(addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	recent, lost := since(now-time.Second, append(w.dials[addr], now)), since(now-time.Second, w.losses[addr])
	w.dials[addr], w.losses[addr] = recent, lost
	w.mostDials = max(w.mostDials, len(recent))
	if limit := w.plan.dialsInASecond(len(lost)); len(recent) > limit {
		w.violateLocked("%d dials to %s within a second; %d are allowed", len(recent), addr, limit)
	}
}

// since drops the times before begin.
func since(begin time.Duration, times []time.Duration) []time.Duration {
	for len(times) > 0 && times[0] < begin {
		times = times[1:]
	}
	return times
}

func (p *plan) brokerAt(addr string) *brokerPlan {
	for _, b := range p.brokers {
		if b.addr() == addr {
			return b
		}
	}
	return nil
}

// link is the client's end of a connection. It watches that the pool uses it as a
// Kafka connection may be used.
type link struct {
	net.Conn
	w    *world
	addr string

	mu       sync.Mutex
	requests frames
	answers  frames
	lastID   int32
	lookups  int
	written  map[int32]uint64 // correlation id: its place in the order of things
	over     string           // why it may not be written to any more
	closed   bool
}

func (l *link) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	over := l.over
	if l.answers.bad && l.requests.count == l.answers.count {
		over = noFrames
	}
	if over != "" {
		l.w.violate("a request was written to %s on a connection after %s", l.addr, over)
	}
	place := l.w.place.Add(1)
	l.requests.add(p, func(frame []byte) {
		key, h, _, err := kafkawire.DecodeRequestHeader(frame)
		if err != nil {
			l.w.violate("a request that cannot be read was written to %s: %v", l.addr, err)
			return
		}
		if h.CorrelationID <= l.lastID {
			l.w.violate("correlation id %d came after %d, to %s", h.CorrelationID, l.lastID, l.addr)
		}
		if key == kafkawire.APIKeyFindCoordinator {
			l.lookups++
		}
		l.lastID = h.CorrelationID
		l.written[h.CorrelationID] = place
	})
	if owed, window := l.requests.count-l.answers.count, l.w.plan.finder.PipelineWindow; owed > window {
		l.w.violate("%d requests are ahead of their answers on a connection to %s; the window is %d", owed, l.addr, window)
	}
	return l.Conn.Write(p)
}

func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.answers.count
	l.answers.add(p[:n], func([]byte) {})
	if l.answers.bad && l.answers.count == before { // else they lie behind answers, which are worked off first
		l.over = noFrames
	}
	owed := l.requests.count > l.answers.count
	if l.over == givenUp && l.answers.count > before {
		l.over = "" // who waited left, or looked after something else, and it was waited for again
	}
	switch {
	case err == nil || l.over != "":
	case !errors.Is(err, os.ErrDeadlineExceeded):
		l.over = "it had failed with " + err.Error()
	case owed:
		l.over = givenUp
	}
	return n, err
}

// noFrames is why a connection is over that had something else to read: what follows is
// not counted in frames.
const noFrames = "bytes that are no frame came on it"

// givenUp is why a connection is over where an answer was not waited for to the end.
const givenUp = "an answer was given up on it"

func (l *link) Close() error {
	l.mu.Lock()
	closed, used := l.closed, l.lookups > 0
	l.closed = true
	l.mu.Unlock()
	if !closed {
		l.w.mu.Lock()
		l.w.open[l.addr]--
		if used {
			l.w.losses[l.addr] = append(l.w.losses[l.addr], l.w.now())
		}
		l.w.mu.Unlock()
	}
	return l.Conn.Close()
}

func (l *link) writtenAt(id int32) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written[id]
}

func (w *world) linkOf(client string) *link {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.links[client]
}

// frames counts the frames of a stream.
type frames struct {
	count int
	buf   []byte
	bad   bool
}

func (f *frames) add(p []byte, each func([]byte)) {
	if f.bad {
		return
	}
	f.buf = append(f.buf, p...)
	for len(f.buf) >= 4 {
		size := int(int32(binary.BigEndian.Uint32(f.buf)))
		if size < 4 || size > 16<<20 {
			f.bad = true
			return
		}
		if len(f.buf) < 4+size {
			return
		}
		each(f.buf[4 : 4+size])
		f.buf = f.buf[4+size:]
		f.count++
	}
}
