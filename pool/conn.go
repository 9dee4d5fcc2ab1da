package pool

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// conn is one connection to a broker. It is used by one goroutine at a time, which
// both writes and reads. Once broken is set it is of no use any more: its stream
// may hold an answer that nobody waits for.
type conn struct {
	raw      net.Conn // the socket
	nc       net.Conn // what is read and written: raw, or TLS over it
	addr     string
	clientID string
	pulse    *pulse
	session  atomic.Pointer[session] // nil: not authenticated

	certified bool // a client certificate is offered
	ready     bool // all steps to it are done
	served    bool // anything but ApiVersions was answered
	useful    bool // a lookup was answered
	doubted   bool // the broker may take the session for ended
	onClose   func(*conn)

	timeout  time.Duration // for each answer
	maxFrame int           // bytes
	versions versions      // what was negotiated

	lastID int32 // correlation id of the newest request
	in     frameReader
	out    []byte
	sizes  []int // of the requests of this exchange that were sent
	broken error

	// Of the exchange under way, or left.
	under   exchange
	owed    bool // the pulse counts it
	ctx     context.Context
	armed   bool            // the deadline for the write or the answer awaited is set
	byCtx   bool            // it is the one of ctx
	ends    time.Time       // that deadline
	leave   context.Context // ends when its caller leaves
	leaves  bool            // it tells a deadline, which comes before ends
	resumed bool            // the answer awaited was waited for before
	since   time.Time       // when the wait for that answer began
	silence time.Duration   // how long it had lasted when the connection broke

	// By the cluster's clock: when it was made and ready, when it is too old, since when it is idle.
	created, readied, expires, idle int64

	epoch int64 // of the broker's pool when the dial began

	interrupt func()        // c.expire as a value, made once
	nudge     func()        // ends the read under way, for one who leaves
	nudged    chan struct{} // nudge is done
	closeOnce sync.Once
	peeker    peeker
}

func newConn(raw net.Conn, addr string, cfg *Config, p *pulse, onClose func(*conn)) *conn {
	c := &conn{
		raw: raw, nc: raw, addr: addr, clientID: cfg.ClientID, pulse: p, onClose: onClose,
		timeout: cfg.DialTimeout, maxFrame: maxFrameUnproven,
		created: p.clock.now(),
	}
	c.in.src = c
	c.interrupt = c.expire
	c.nudged = make(chan struct{}, 1)
	c.nudge = func() {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
		c.nudged <- struct{}{}
	}
	c.peeker.init(raw)
	return c
}

// close never blocks: the socket is closed with no farewell (that of TLS may take
// five seconds against a peer that does not read).
func (c *conn) close() {
	c.closeOnce.Do(func() {
		c.raw.Close()
		c.onClose(c)
	})
}

// expire ends the reads and writes that are under way. It fails only where there
// is none any more.
func (c *conn) expire() { _ = c.nc.SetDeadline(time.Unix(1, 0)) }

// askMetadata asks for the brokers. Below v1 there is no way to ask for no topics.
func (c *conn) askMetadata(ctx context.Context) (*kafkawire.MetadataResponse, error) {
	resp := &brokersOnly{}
	v := c.versions.metadata
	return &resp.MetadataResponse, c.call(ctx, &kafkawire.MetadataRequest{AllTopics: v == 0}, resp, v)
}

// brokersOnly is a Metadata answer of which the topics are not wanted: v0 has all
// of the cluster, and decoded they take many times their bytes.
type brokersOnly struct{ kafkawire.MetadataResponse }

func (r *brokersOnly) Decode(src []byte, v kafkawire.Version) error { return r.DecodeBrokers(src, v) }

// call exchanges one request.
func (c *conn) call(ctx context.Context, req kafkawire.Request, resp kafkawire.Response, v kafkawire.Version) error {
	_, err := c.exchange(ctx, context.Background(), []kafkawire.Request{req}, []kafkawire.Response{resp}, v, 1)
	return err
}

// stale reports whether the broker has closed the connection, or sent what nobody
// asked for, while it was idle for so many nanoseconds.
func (c *conn) stale(idle int64) bool {
	if quiet, ok := c.peeker.quiet(); ok {
		return !quiet
	}
	if idle < blindAfter {
		return false
	}
	// A read that waits a moment: with a deadline that has passed already, an end of
	// the stream would not be told.
	if c.nc.SetReadDeadline(time.Now().Add(time.Millisecond)) != nil {
		return true
	}
	var b [1]byte
	_, err := c.nc.Read(b[:])
	return !isTimeout(err)
}
