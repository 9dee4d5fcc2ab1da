package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// This file is how long an answer is waited for, and what it means that none comes.

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

// errUnread says that a write did not end in its time. What is written in part cannot be
// left, so it has half of the time that there is for the answer: then another broker can be
// asked.
var errUnread = errors.New("the broker does not read what it is sent")

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
	} else {
		deadline = c.since.Add(c.ends.Sub(c.since) / 2)
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

// awaitAnswer sets the deadline for the answer to what was written.
func (c *conn) awaitAnswer() error {
	if err := c.nc.SetReadDeadline(c.staying()); err != nil {
		return err
	}
	if c.leave.Err() != nil { // before that, which has overwritten the deadline of nudge
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
	case errors.Is(err, errUnread):
		return c.fail(Timeout, key, v, err)
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
