package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// endpoint is an address and how connections to it are made.
type endpoint struct {
	addr    string // host:port
	cfg     *Config
	pulse   *pulse
	learned learned
	sasl    *authenticator // nil: no authentication

	spokeTLS atomic.Bool // a TLS handshake has succeeded
	opened   func(*conn) // told of each socket, and
	closed   func(*conn) // of its end
}

// establish makes a connection ready. The order of steps is Kafka's, and each step
// has DialTimeout:
//
//  1. open:         dial every address of the name, then TLS
//  2. negotiate:    ApiVersions, which may take up to three openings
//  3. authenticate: SaslHandshake, and SaslAuthenticate as often as the mechanism wants
//  4. ready:        the limits of a connection in use
func (e *endpoint) establish(ctx context.Context) (*conn, error) {
	highest := min(e.cfg.MaxAPIVersions, kafkawire.Supported(kafkawire.APIKeyAPIVersions).Max)
	n := negotiation{e: e, highest: highest}
	c, err := n.run(ctx)
	if err != nil {
		return nil, err
	}
	if e.sasl != nil {
		if err := e.sasl.authenticate(ctx, c); err != nil {
			c.close()
			return nil, err
		}
	}
	if n := c.in.buffered(); n > 0 { // the next answer would be taken from it
		c.close()
		return nil, &Error{Kind: InvalidAnswer, Addr: e.addr, Op: "connect",
			Err: fmt.Errorf("the broker sent %d bytes that were not asked for, after its answers", n)}
	}
	e.ready(c)
	return c, nil
}

// open makes a connection on which the first request can be sent.
func (e *endpoint) open(ctx context.Context) (*conn, error) {
	dialCtx, cancel := context.WithTimeout(ctx, e.cfg.DialTimeout)
	defer cancel()
	nc, err := e.cfg.Dial(dialCtx, "tcp", e.addr)
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, &Error{Kind: Closed, Addr: e.addr, Op: "dial", Err: errors.New("the pool was closed")}
	default:
		return nil, &Error{Kind: Unreachable, Addr: e.addr, Op: "dial", Err: ioCause(e.addr, err)}
	}
	c := newConn(nc, e.addr, e.cfg, e.pulse, e.closed)
	e.opened(c)
	if err := e.secure(ctx, c); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (e *endpoint) ready(c *conn) {
	c.ready = true
	c.timeout = e.cfg.RequestTimeout
	c.maxFrame = maxFrame
	c.expires = c.created + int64((0.9+0.1*rand.Float64())*float64(e.cfg.MaxLifetime))
	c.readied = e.pulse.clock.now()
	c.idle = c.readied
}
