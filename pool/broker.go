package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/puddle/v2"

	"github.com/coordsvc/coordsvc/kafkawire"
)

const (
	// A broker whose dial failed is not dialled again for backoffBase, doubling to
	// backoffCap, each moved by up to a fifth either way.
	backoffBase = 100 * time.Millisecond
	backoffCap  = time.Second
	// Where TLS or the authentication failed, that is doubled from refusedBase to a cap
	// of their own: it heals only when somebody changes something, and many wrong
	// passwords can lock an account.
	refusedBase = time.Second
	tlsCap      = 5 * time.Second
	saslCap     = 30 * time.Second
	// stallAfter is how long a broker may owe an answer before others are preferred.
	// It is far below any request timeout, so that a paused broker is avoided before
	// the first caller has given it up.
	stallAfter = 500 * time.Millisecond
	// A broker that failed twice or more with nothing answered between is avoided
	// for penaltyBase, doubling to penaltyCap, even if pings succeed.
	penaltyBase = time.Second
	penaltyCap  = 30 * time.Second
	// establishSteps is more than establish can take, in dial timeouts: a backstop.
	establishSteps = 20
)

// broker is one endpoint with its pool of connections. What stands under mu is
// guarded by [Cluster.mu].
//
// Puddle keeps the connections; who gets one and when one is dialled is decided in
// queue.go. The counts here mirror puddle's: connections are acquired, released and
// taken out with mu held, and those that are created are counted after puddle has
// them. So puddle never has fewer idle ones than are counted, and an acquire with
// idle > 0 never waits, nor dials. [puddle.Pool.Reset] is not used: it does not say
// whether it took one that is not counted yet.
type broker struct {
	endpoint
	host  string
	port  int32
	pool  *puddle.Pool[*conn]
	leave func()               // ends the dials under way: it has left the cluster
	epoch atomic.Int64         // raised by each reset: older connections are not kept
	last  atomic.Pointer[conn] // the newest connection
	// strikes counts failed exchanges since the last good one.
	strikes atomic.Int32
	node    atomic.Int32 // id; -1: not known
	log     *slog.Logger

	// Under mu:
	rack         string
	bootstrap    bool // was given in the configuration
	discovered   bool // is named by Metadata
	removed      bool
	idle         int
	inUse        int
	dialing      int
	early        int  // of the dials, those whose connection was counted before they were
	slow         int  // of the dials, those that take longer than hedgeAfter
	up           bool // the last attempt to reach it succeeded
	failures     int  // failed dials since the last good one
	retryAt      int64
	suspectSince int64 // when an exchange met silence or nonsense
	struckAt     int64 // when strikes was last raised
	penaltyEnds  int64
	pinging      bool
	pingedAt     int64
	versions     versions // of the newest connection
	negotiated   bool     // versions is set
	lastError    *BrokerError
}

func (c *Cluster) newBroker(host string, port int32) *broker {
	b := &broker{host: host, port: port}
	b.node.Store(kafkawire.NoNode)
	b.addr = joinAddr(host, port)
	b.cfg = &c.cfg
	b.sasl = c.sasl
	b.pulse = &pulse{clock: c.clock, cluster: &c.heard, requests: &c.count.requests}
	b.opened, b.closed = c.track, c.untrack
	b.log = c.cfg.Logger.With("broker", b.addr)
	stays, leave := context.WithCancel(c.base)
	b.leave = leave
	pool, err := puddle.NewPool(&puddle.Config[*conn]{
		// Puddle's context carries the values of whoever came first and, on some
		// ways, no deadline; the broker's own is used in its stead.
		Constructor: func(context.Context) (*conn, error) { return b.construct(stays) },
		Destructor:  func(cn *conn) { c.destroy(cn) },
		MaxSize:     int32(c.cfg.MaxConnectionsPerBroker),
	})
	if err != nil {
		panic("pool: " + err.Error()) // only for a size below 1, which Validate refuses
	}
	b.pool = pool
	return b
}

// construct makes a connection. Puddle runs it in goroutines that do not recover.
func (b *broker) construct(base context.Context) (cn *conn, err error) {
	defer func() {
		if p := recover(); p != nil {
			cn, err = nil, &Error{Kind: Unreachable, Addr: b.addr, Op: "connect", Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	epoch := b.epoch.Load()
	ctx, cancel := context.WithTimeout(base, establishSteps*b.cfg.DialTimeout)
	defer cancel()
	cn, err = b.establish(ctx)
	if err != nil {
		return nil, err
	}
	cn.epoch = epoch
	b.last.Store(cn)
	return cn, nil
}

func (b *broker) open() int { return b.idle + b.inUse }

func (b *broker) hasRoom() bool { return b.open()+b.dialing < b.cfg.MaxConnectionsPerBroker }

// carries reports whether the broker may answer FindCoordinator at this version:
// what is known holds while a connection is open, since an upgrade ends them all.
func (b *broker) carries(least kafkawire.Version) bool {
	return b.open() == 0 || b.versions.findCoordinator >= least
}

// suspect reports whether others should be asked while there are others.
func (b *broker) suspect(now int64) bool {
	return !b.up && b.failures > 0 ||
		b.unheardSince(b.suspectSince) ||
		now < b.penaltyEnds ||
		b.pulse.silentFor(now) > min(stallAfter, b.cfg.RequestTimeout/2)
}

func (b *broker) unheardSince(at int64) bool { return at != 0 && b.pulse.last.Load() <= at }

// mayDial reports whether a dial may begin. A broker to which nothing is open, or
// that takes its time, is tried by one dial, whose outcome all wait for.
func (b *broker) mayDial(now int64) bool {
	return b.hasRoom() && now >= b.retryAt && (b.dialing == 0 || b.open() > 0 && b.slow == 0)
}

func (b *broker) dialSucceeded() {
	if b.failures > 0 {
		b.log.Info("broker is reachable again")
	}
	b.up, b.failures, b.retryAt = true, 0, 0
	if cn := b.last.Load(); cn != nil {
		b.versions, b.negotiated = cn.versions, true
		b.log.Debug("connected", "find_coordinator", int16(cn.versions.findCoordinator))
	}
}

func (b *broker) dialFailed(err error, now int64) {
	b.note(err)
	b.failures++
	pause := doubled(backoffBase, b.failures, backoffCap)
	switch KindOf(err) {
	case TLSFailed:
		pause = doubled(refusedBase, b.failures, tlsCap)
	case SASLFailed:
		pause = doubled(refusedBase, b.failures, saslCap)
	default: // it may answer at any moment
	}
	b.retryAt = now + int64(jittered(pause))
	if b.open() == 0 { // else it serves, and only refuses more connections
		b.up = false
	}
	level := slog.LevelDebug
	if b.failures == 1 {
		level = slog.LevelWarn
	}
	b.log.Log(context.Background(), level, "broker cannot be connected to", "error", err.Error())
}

// note keeps the error for [Cluster.Brokers].
func (b *broker) note(err error) {
	kind := KindOf(err)
	if kind == 0 {
		kind = Unreachable
	}
	b.lastError = &BrokerError{Kind: kind, Message: err.Error(), Time: time.Now(), err: err}
}

// punish has the broker avoided for a while once failures repeat. Exchanges that
// were under way together fail together: they count once.
func (b *broker) punish(began, now int64) {
	if b.struckAt != 0 && began <= b.struckAt {
		return
	}
	b.struckAt = now
	if n := int(b.strikes.Add(1)); n >= 2 {
		b.penaltyEnds = now + int64(jittered(doubled(penaltyBase, n-1, penaltyCap)))
	}
}

// trouble is the broker's part in why no connection is to be had. What came of the last
// dial may be long ago, and is not what comes of the one under way.
func (b *broker) trouble() error {
	switch {
	case b.dialing > 0 && (b.lastError == nil || b.failures == 0):
		return &Error{Kind: Unreachable, Addr: b.addr, Err: errors.New("still connecting")}
	case b.dialing > 0 && !slices.Contains([]ErrorKind{Unreachable, Timeout}, KindOf(b.lastError.err)): // those say as much
		return &Error{Kind: Unreachable, Addr: b.addr, Err: fmt.Errorf("still connecting; the last time that failed: %w", b.lastError.err)}
	case b.lastError != nil:
		return b.lastError.err
	default:
		return &Error{Kind: Unreachable, Addr: b.addr, Err: errors.New("not connected")}
	}
}

// doubled is base after the first failure, twice as much after each further one,
// up to limit.
func doubled(base time.Duration, failures int, limit time.Duration) time.Duration {
	for ; failures > 1 && base < limit; failures-- {
		base *= 2
	}
	return min(base, limit)
}

// jittered moves d by up to a fifth either way.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
