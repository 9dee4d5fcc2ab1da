package pool

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/puddle/v2"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// Lease is a connection lent by [Cluster.Acquire]. It is for one goroutine at a time
// and ends with Release.
type Lease struct {
	cluster *Cluster
	broker  *broker
	res     *puddle.Resource[*conn]
	conn    *conn
	node    int32
}

// Addr is the broker's address as it is dialled, host:port.
func (l *Lease) Addr() string { return l.broker.addr }

// Node is the broker's id, or -1 where only its address is known.
func (l *Lease) Node() int32 { return l.node }

// FindCoordinatorVersion is the highest FindCoordinator version that both sides know.
func (l *Lease) FindCoordinatorVersion() kafkawire.Version { return l.conn.versions.findCoordinator }

// Exchange sends the requests in version v and decodes the answers into resps, in
// order. At most window requests are ahead of their answers, fewer where they are
// large. The first done answers are valid, on error too.
//
// Each answer is waited for up to RequestTimeout, or as long as ctx lets it. After
// any error but an encoder's the connection is of no use any more: the lease can
// only be released. An encoder's error is returned once the answers to the requests
// before it are there; nothing was sent of that request and those after it.
func (l *Lease) Exchange(ctx context.Context, reqs []kafkawire.Request, resps []kafkawire.Response, v kafkawire.Version, window int) (done int, err error) {
	l.mustBeHeld("Exchange")
	return l.Ask(ctx, context.Background(), reqs, resps, v, window)
}

// ErrLeft says that the caller of [Lease.Ask] left before the answers came.
var ErrLeft = errors.New("pool: the caller left before the answer came")

// Ask is [Lease.Exchange] for a caller who may leave: when leave ends, or the deadline
// that it tells comes, while an answer is waited for, Ask returns [ErrLeft], and the
// connection is whole. Await must then be called, by any goroutine, before the lease is
// released, or the connection is closed.
func (l *Lease) Ask(ctx, leave context.Context, reqs []kafkawire.Request, resps []kafkawire.Response, v kafkawire.Version, window int) (done int, err error) {
	l.mustBeHeld("Ask")
	if err := l.refuse(reqs, v); err != nil {
		return 0, err
	}
	done, err = l.conn.exchange(ctx, leave, reqs, resps, v, window)
	l.judge(err)
	return done, err
}

// Await goes on with the exchange that Ask or Await has left: the rest of the requests is
// sent, and their answers are decoded into what Ask was given. done counts from the first.
func (l *Lease) Await(ctx, leave context.Context) (done int, err error) {
	l.mustBeHeld("Await")
	done, err = l.conn.await(ctx, leave)
	l.judge(err)
	return done, err
}

// SilentFor is how long the broker has owed answers and given none, over all of its
// connections; 0 where it owes none.
func (l *Lease) SilentFor() time.Duration { return l.broker.pulse.silentFor(l.cluster.clock.now()) }

// judge has the broker answer for what came of an exchange.
func (l *Lease) judge(err error) {
	switch {
	case errors.Is(err, ErrLeft): // it may yet answer
	case err != nil:
		l.cluster.lookupFailed(l.broker, l.conn, err)
	case l.broker.strikes.Load() != 0:
		l.broker.strikes.Store(0)
	}
}

// Reject says that the broker answered with a code by which the connection is of no
// use although its stream is whole: ILLEGAL_SASL_STATE, where the broker has
// forgotten who authenticated. Release then closes it, and the broker's idle ones go
// with it, so that the next lease of this broker has authenticated anew.
func (l *Lease) Reject(code kafkawire.ErrorCode) {
	l.mustBeHeld("Reject")
	l.conn.broken = &Error{Kind: SASLFailed, Addr: l.Addr(), Op: "FindCoordinator", Err: &codeError{code}}
	l.cluster.sessionLost(l.broker, l.conn)
}

// refuse keeps a version from the broker that it does not know: it would close the
// connection without a word.
func (l *Lease) refuse(reqs []kafkawire.Request, v kafkawire.Version) error {
	offered := l.conn.versions.findCoordinatorRange
	for _, r := range reqs {
		if r.APIKey() == kafkawire.APIKeyFindCoordinator && (v < offered.Min || v > offered.Max) {
			return &Error{Kind: Unsupported, Addr: l.Addr(), Op: "FindCoordinator", Have: offered,
				Want: kafkawire.VersionRange{Min: v, Max: v}, Err: errors.New("the broker does not offer this version; nothing was sent")}
		}
	}
	return nil
}

// Without takes the secret that the connection has authenticated with out of what its
// broker says: who was sent a password by PLAIN could repeat it.
func (l *Lease) Without(message string) string { return without(l.conn.in.secret, message) }

// SessionWaning reports whether the session of the connection (KIP-368) is so near its
// end that a refusal may be that, and no word on what was asked.
func (l *Lease) SessionWaning() bool {
	return l.conn.session.Load().waning(l.cluster.clock.now())
}

// Retire has the connection closed on Release, though nothing is wrong with its stream.
func (l *Lease) Retire() {
	l.mustBeHeld("Retire")
	l.conn.doubted = true
}

// Release gives the connection back, or has it closed if it is broken. The lease
// must not be used afterwards.
func (l *Lease) Release() {
	l.mustBeHeld("Release")
	l.conn.giveUp()
	res := l.res
	l.res = nil
	l.cluster.giveBack(l.broker, res, true)
}

func (l *Lease) mustBeHeld(method string) {
	if l.res == nil {
		panic("pool: " + method + " on a lease that was released before")
	}
}
