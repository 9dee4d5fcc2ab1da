package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// maxInFlight bounds the bytes of requests that are out at one time, where they
// are more than one. A broker does not read the next request before the answer to
// the last is written, so a client that writes without reading can block for ever
// against a broker that does the same. This much fits the kernel's send buffer and
// the broker's receive buffer (socket.receive.buffer.bytes, 100 KiB) even if the
// broker reads nothing. A single request may be larger: the broker reads it whole.
const maxInFlight = 64 << 10

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

	// Of the exchange under way.
	ctx     context.Context
	armed   bool          // the deadline for the write or the answer awaited is set
	byCtx   bool          // it is the one of ctx
	ends    time.Time     // that deadline
	since   time.Time     // when the wait for that answer began
	silence time.Duration // how long it had lasted when the connection broke

	// By the cluster's clock: when it was made, when it is too old, since when it is idle.
	created, expires, idle int64

	epoch int64 // of the broker's pool when the dial began

	under   exchange
	owed    bool            // the pulse counts it
	leave   context.Context // when its caller leaves
	leaves  bool            // leave has a deadline, which comes first
	resumed bool            // the answer awaited was waited for before
	nudged  chan struct{}   // nudge is done

	interrupt func() // c.expire as a value, made once
	nudge     func() // ends the read under way, for one who leaves
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

// An exchange is what is written and read in one go. After ErrLeft it goes on with await.
type exchange struct {
	reqs     []kafkawire.Request
	resps    []kafkawire.Response
	v        kafkawire.Version
	window   int
	firstID  int32
	sent     int
	done     int
	inFlight int   // bytes of the requests that are not answered
	refused  error // by the encoder; the answers to what was sent before still come
}

// exchange writes the requests, never more than window of them ahead of their
// answers, and reads the answers in order into resps. The first done answers are
// valid, on error too. After an error of the connection it is broken; an error of
// the encoder leaves it whole, and the request and those after it unsent. When leave
// ends while an answer is waited for it returns ErrLeft, and await must be called.
func (c *conn) exchange(ctx, leave context.Context, reqs []kafkawire.Request, resps []kafkawire.Response, v kafkawire.Version, window int) (int, error) {
	if len(reqs) != len(resps) {
		return 0, fmt.Errorf("pool: %d requests, but %d responses to fill", len(reqs), len(resps))
	}
	if err := c.usable(ctx); err != nil {
		return 0, err
	}
	c.sizes = c.sizes[:0]
	c.under = exchange{reqs: reqs, resps: resps, v: v, window: max(1, window), firstID: c.lastID + 1}
	return c.goOn(ctx, leave)
}

// await goes on with the exchange that was left.
func (c *conn) await(ctx, leave context.Context) (int, error) {
	c.broken, c.armed, c.resumed = nil, false, true
	return c.goOn(ctx, leave)
}

func (c *conn) goOn(ctx, leave context.Context) (int, error) {
	defer c.end(c.begin(ctx, leave))
	stay := afterwards(leave, c.nudge)
	done, err := c.pipeline(&c.under)
	if !stay() {
		<-c.nudged // what it has set would otherwise cut the next wait short
	}
	return done, err
}

// afterwards is [context.AfterFunc], for nothing where ctx never ends.
func afterwards(ctx context.Context, f func()) (stop func() bool) {
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, f)
}

func (c *conn) usable(ctx context.Context) error {
	if c.broken != nil {
		return c.broken
	}
	switch err := ctx.Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Kind: Timeout, Addr: c.addr, Op: "exchange", Err: fmt.Errorf("nothing was sent: %w", err)}
	case err != nil:
		return fmt.Errorf("%s: nothing was sent: %w", c.addr, err)
	}
	return nil
}

// begin has ctx end what is read and written until end, which gets what it returns.
func (c *conn) begin(ctx, leave context.Context) (stop func() bool) {
	c.ctx, c.leave = ctx, leave
	if !c.owed {
		c.owed = true
		c.pulse.begin()
	}
	return afterwards(ctx, c.interrupt)
}

func (c *conn) end(stop func() bool) {
	if !stop() && c.broken == nil {
		// The answers are good, but the past deadline of expire may be set only now.
		c.broken = context.Cause(c.ctx)
	}
	if !errors.Is(c.broken, ErrLeft) {
		c.giveUp()
	}
	c.ctx, c.leave = nil, nil
	c.shrink()
}

// giveUp ends the exchange, also one that was left.
func (c *conn) giveUp() {
	c.under = exchange{}
	if c.owed {
		c.owed = false
		c.pulse.end()
	}
}

func (c *conn) pipeline(x *exchange) (int, error) {
	for x.done < len(x.reqs) {
		// Refilled when half of the window has drained: fewer and larger writes.
		if outstanding := x.sent - x.done; x.refused == nil && x.sent < len(x.reqs) && outstanding <= x.window/2 {
			var n int
			n, x.refused = c.encode(x.reqs[x.sent:], x.v, x.window-outstanding, x.inFlight)
			x.sent += n
			x.inFlight += len(c.out)
			if err := c.flush(x.reqs[x.done].APIKey(), x.v); err != nil {
				return x.done, err
			}
			c.pulse.requests.add(x.reqs[x.done].APIKey(), x.v, n)
		}
		if x.sent == x.done {
			return x.done, x.refused
		}
		resp := x.resps[x.done]
		limit := c.largest(resp.APIKey(), x.v, c.sizes[x.done])
		if err := c.answer(resp, x.v, x.firstID+int32(x.done), x.sent-x.done == 1, limit); err != nil {
			return x.done, err
		}
		x.inFlight -= c.sizes[x.done]
		x.done++
	}
	return x.done, nil
}

// encode fills c.out with up to n of reqs, and returns how many it holds.
func (c *conn) encode(reqs []kafkawire.Request, v kafkawire.Version, n, inFlight int) (int, error) {
	c.out = c.out[:0]
	n = min(n, len(reqs))
	for i, req := range reqs[:n] {
		h := kafkawire.RequestHeader{Version: v, CorrelationID: c.lastID + 1, ClientID: c.clientID}
		out, err := kafkawire.AppendRequest(c.out, h, req)
		if err != nil {
			return i, err
		}
		if alone := inFlight == 0 && i == 0; !alone && inFlight+len(out) > maxInFlight {
			return i, nil
		}
		c.sizes = append(c.sizes, len(out)-len(c.out))
		c.out = out
		c.lastID++
	}
	return n, nil
}

func (c *conn) flush(key kafkawire.APIKey, v kafkawire.Version) error {
	if len(c.out) == 0 {
		return nil
	}
	c.armed = false
	err := c.arm(false)
	if err == nil {
		_, err = c.nc.Write(c.out)
	}
	if err == nil {
		err = c.hasten()
	}
	if err != nil {
		return c.lost(key, v, err)
	}
	return nil
}

// What answers may have, in bytes. A decoded answer takes several times the memory
// of its frame, and a peer that means ill sends the worst, so the limits are near
// what can be needed.
const (
	largestSingle   = 128 << 10 // FindCoordinator below v4: two strings of at most 32,767 bytes
	smallBatch      = 256 << 10 // and as many times the request as a key of few bytes needs:
	smallBatchTimes = 128       // a host name, or a sentence on what is wrong with it
	largestAnswer   = 2 << 20   // 200 bytes for each of 10,000 keys, and the keys
	largestAllTopic = 8 << 20   // Metadata v0 lists all topics: 200,000 partitions with three replicas
)

// largest is the limit of the answer to a request of so many bytes.
func (c *conn) largest(key kafkawire.APIKey, v kafkawire.Version, request int) int {
	limit := largestAnswer + 2*request
	switch {
	case key == kafkawire.APIKeyFindCoordinator && v < 4:
		limit = largestSingle
	case key == kafkawire.APIKeyFindCoordinator:
		limit = min(limit, smallBatch+smallBatchTimes*request)
	case key == kafkawire.APIKeyMetadata && v == 0:
		limit = largestAllTopic
	}
	return min(limit, c.maxFrame)
}

// answer reads the next answer into resp. alone says that no other is outstanding.
func (c *conn) answer(resp kafkawire.Response, v kafkawire.Version, id int32, alone bool, limit int) error {
	key := resp.APIKey()
	frame, err := c.in.next(limit)
	if err != nil && c.left(err) {
		c.broken = ErrLeft // until await
		return ErrLeft
	}
	if err != nil {
		return c.lost(key, v, err)
	}
	c.armed = false // the next answer has its own time, if flush does not begin it
	c.pulse.heard(c.ready)
	got, body, err := kafkawire.DecodeResponseHeader(frame, key, v)
	if err != nil {
		return c.fail(InvalidAnswer, key, v, err)
	}
	// Kafka 0.8.2 answers with correlation id 0 where it failed: it builds that
	// answer from the error, not from the request. Only such a broker may, and only
	// where there is no doubt which request is meant.
	if quirk := got == 0 && c.versions.assumed && alone; got != id && !quirk {
		return c.fail(InvalidAnswer, key, v, fmt.Errorf("the answer has correlation id %d, not the request's %d", got, id))
	}
	if err := resp.Decode(body, v); err != nil {
		return c.fail(InvalidAnswer, key, v, err)
	}
	c.served = c.served || key != kafkawire.APIKeyAPIVersions
	return nil
}

// left reports whether a read failed because its caller left, and for nothing else.
func (c *conn) left(err error) bool {
	return (c.leaves || c.leave.Err() != nil) && c.ctx.Err() == nil && isTimeout(err)
}

// Read is the connection's, with the deadline set first where an answer must be
// waited for and does not lie in the buffer already.
func (c *conn) Read(p []byte) (int, error) {
	if !c.armed {
		if err := c.arm(true); err != nil {
			return 0, err
		}
	}
	return c.nc.Read(p)
}

// arm sets the deadline for a write, or for the answer awaited.
func (c *conn) arm(reading bool) error {
	if !c.resumed {
		c.since = time.Now()
	}
	c.resumed = false
	deadline := c.since.Add(c.timeout)
	ends, has := c.ctx.Deadline()
	c.byCtx = has && ends.Before(deadline)
	if c.byCtx {
		deadline = ends
	}
	c.armed, c.ends = true, deadline
	if reading {
		deadline = c.staying()
	}
	if err := c.nc.SetDeadline(deadline); err != nil {
		return err
	}
	// Looked at last: they may have ended just before, and the deadline that this has set be overwritten.
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if reading && c.leave.Err() != nil {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// staying is until when the answer is waited for: c.ends, or until the caller leaves.
func (c *conn) staying() time.Time {
	by, has := c.leave.Deadline()
	c.leaves = has && by.Before(c.ends)
	if c.leaves {
		return by
	}
	return c.ends
}

// hasten has the wait for the answer to what was written end when the caller leaves.
func (c *conn) hasten() error {
	if by := c.staying(); c.leaves {
		if err := c.nc.SetReadDeadline(by); err != nil {
			return err
		}
	}
	if c.leave.Err() != nil { // before a deadline was set that has overwritten the one of nudge
		if err := c.nc.SetReadDeadline(time.Unix(1, 0)); err != nil {
			return err
		}
	}
	return c.ctx.Err() // looked at last, as arm does
}

// lost breaks the connection for an error of reading or writing, and says what it means.
func (c *conn) lost(key kafkawire.APIKey, v kafkawire.Version, err error) error {
	c.silence = time.Since(c.since)
	var wrong frameError
	switch {
	case errors.Is(c.ctx.Err(), context.Canceled):
		c.broken = fmt.Errorf("%s: %s v%d: the caller left before the answer: %w", c.addr, key, v, context.Canceled)
		return c.broken
	case errors.As(err, &wrong):
		return c.fail(NotKafka, key, v, err)
	case isTimeout(err) && (c.byCtx || c.ctx.Err() != nil):
		return c.fail(Timeout, key, v, fmt.Errorf("no answer before the caller's deadline%s: %w", c.partly(), context.DeadlineExceeded))
	case isTimeout(err):
		return c.fail(Timeout, key, v, fmt.Errorf("no answer within %s%s", c.timeout, c.partly()))
	case isAlert(err):
		return c.fail(TLSFailed, key, v, alertTrouble(err, c.certified))
	case errors.Is(err, net.ErrClosed):
		return c.fail(Closed, key, v, errors.New("the pool was closed"))
	case errors.Is(err, io.EOF):
		return c.fail(Unreachable, key, v, fmt.Errorf("the broker closed the connection instead of answering%s%s", c.partly(), c.stranger(key)))
	default:
		return c.fail(Unreachable, key, v, ioCause(c.addr, err))
	}
}

// stranger says what a close may mean where the broker has never served the
// connection, or was just shown credentials.
func (c *conn) stranger(key kafkawire.APIKey) string {
	if key == kafkawire.APIKeySaslAuthenticate {
		return " (some do so where the credentials are wrong: see kafka.sasl.*)"
	}
	asked := key == kafkawire.APIKeyFindCoordinator || key == kafkawire.APIKeyMetadata
	if !asked || c.served || c.versions.assumed || c.session.Load() != nil || c.in.buffered() > 0 {
		return ""
	}
	return " (a listener that wants SASL does so; kafka.sasl.mechanism sets it)"
}

// partly says how much of an answer has come.
func (c *conn) partly() string {
	if n := c.in.buffered(); n > 0 {
		return fmt.Sprintf(" (%d bytes of it came)", n)
	}
	return ""
}

func (c *conn) fail(kind ErrorKind, key kafkawire.APIKey, v kafkawire.Version, err error) error {
	c.broken = &Error{Kind: kind, Addr: c.addr, Op: fmt.Sprintf("%s v%d", key, v), Err: err}
	return c.broken
}

// shrink gives back what a large exchange needed.
func (c *conn) shrink() {
	c.in.shrink()
	if cap(c.out) > keptBuffer {
		c.out = nil
	}
}

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
