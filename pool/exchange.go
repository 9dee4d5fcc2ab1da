package pool

import (
	"context"
	"errors"
	"fmt"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// maxInFlight bounds the bytes of requests that are out at one time, where they
// are more than one. A broker does not read the next request before the answer to
// the last is written, so a client that writes without reading can block for ever
// against a broker that does the same. This much fits the kernel's send buffer and
// the broker's receive buffer (socket.receive.buffer.bytes, 100 KiB) even if the
// broker reads nothing. A single request may be larger: the broker reads it whole.
const maxInFlight = 64 << 10

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
		if err != nil && isTimeout(err) && c.ctx.Err() == nil {
			err = errUnread
		}
	}
	if err == nil {
		err = c.awaitAnswer()
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
	c.useful = c.useful || key == kafkawire.APIKeyFindCoordinator
	return nil
}

// shrink gives back what a large exchange needed.
func (c *conn) shrink() {
	c.in.shrink()
	if cap(c.out) > keptBuffer {
		c.out = nil
	}
}
