package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
)

// FinderConfig bounds what a Finder does.
type FinderConfig struct {
	// ChunkKeys is how many keys go into one request at the most, on
	// FindCoordinator v4 and later. Default 500: a larger batch costs a broker no
	// less a key, and holds up others for longer.
	ChunkKeys int
	// PipelineWindow is how many requests are in flight on one connection at
	// the most where each carries one key (v0 to v3). Default 32.
	PipelineWindow int
	// RequestTimeout is how long one exchange with a broker may take. Default 10s.
	RequestTimeout time.Duration
	// MaxWaitingKeys is how many keys of all callers together may wait for an
	// answer; a call that would exceed it is refused. Default 1,000,000.
	MaxWaitingKeys int
	// Observer and Tracer are told what the Finder does. Default: nobody is.
	Observer Observer
	Tracer   Tracer
	// Logger receives what happens to batches; keys only at debug level. Default: none.
	Logger *slog.Logger
}

func (c FinderConfig) withDefaults() FinderConfig {
	if c.ChunkKeys <= 0 {
		c.ChunkKeys = 500
	}
	if c.PipelineWindow <= 0 {
		c.PipelineWindow = 32
	}
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = 10 * time.Second
	}
	if c.MaxWaitingKeys <= 0 {
		c.MaxWaitingKeys = 1_000_000
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Errors that fail a call as a whole before any of its keys waits.
var (
	// ErrTooManyWaiting says that FinderConfig.MaxWaitingKeys would be exceeded.
	ErrTooManyWaiting = errors.New("too many keys are waiting for the brokers")
	// ErrFinderClosed says that Close was called.
	ErrFinderClosed = errors.New("the finder is closed")
)

// A Finder asks Kafka which broker coordinates a key.
//
// It keeps no answer. Concurrent questions share requests instead: each key type
// has one open batch, which is written when a connection takes it (see queue).
// A key joins only a batch that is not written yet, so every answer was asked of
// Kafka after its caller asked.
type Finder struct {
	cluster *pool.Cluster
	cfg     FinderConfig
	queues  map[kafkawire.KeyType]*queue
	waiting atomic.Int64 // keys that callers wait for
	alarms  sync.Pool    // of *time.Timer that do not run: a call that made its own would spend more on it than on its key

	// stop ends the flights' waits; flights counts those under way.
	stop    context.Context
	cancel  context.CancelFunc
	flights sync.WaitGroup
}

// NewFinder makes a Finder over the cluster, which stays the caller's: close the
// Finder first, the cluster afterwards.
func NewFinder(cluster *pool.Cluster, cfg FinderConfig) *Finder {
	f := &Finder{cluster: cluster, cfg: cfg.withDefaults()}
	f.stop, f.cancel = context.WithCancel(context.Background())
	f.queues = map[kafkawire.KeyType]*queue{
		kafkawire.KeyTypeGroup:       newQueue(f, kafkawire.KeyTypeGroup, 0),
		kafkawire.KeyTypeTransaction: newQueue(f, kafkawire.KeyTypeTransaction, 1),
		kafkawire.KeyTypeShare:       newQueue(f, kafkawire.KeyTypeShare, 6),
	}
	return f
}

// Find looks up the keys and returns one result for each, in their order,
// duplicates kept. It waits until each has a final outcome or ctx ends or its
// deadline comes (that of a ctx which only tells it, too); a key that then has none
// reports what a broker last said of it, or else DEADLINE_EXCEEDED.
//
// The keys must be valid for their type (see CheckKeys). The error is
// ErrTooManyWaiting, ErrFinderClosed, or context.Canceled if the caller left;
// all else stands in the results.
func (f *Finder) Find(ctx context.Context, t kafkawire.KeyType, keys []string) ([]Result, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	defer f.waiting.Add(-int64(len(keys)))
	if f.waiting.Add(int64(len(keys))) > int64(f.cfg.MaxWaitingKeys) {
		return nil, ErrTooManyWaiting
	}
	q := f.queues[t]
	c, leads, err := q.ask(ctx, keys)
	if err != nil {
		return nil, err
	}
	if leads {
		q.flyAlong(ctx)
	}
	if f.await(ctx, c) {
		f.answered(t, c.results)
		return c.results, nil
	}
	results := q.leave(c)
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, ctx.Err()
	}
	f.answered(t, results)
	return results, nil
}

// await waits for the answer to a call. It reports false where ctx ends or the call's
// deadline comes first.
func (f *Finder) await(ctx context.Context, c *call) (answered bool) {
	select {
	case <-c.done: // by the flight that the caller was in
		return true
	default:
	}
	var late <-chan time.Time
	if !c.deadline.IsZero() {
		timer := f.alarm(time.Until(c.deadline))
		defer f.alarms.Put(timer)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-c.done:
		return true
	case <-ctx.Done():
	case <-late:
	}
	return false
}

// alarm is a timer that rings after d. It goes back to f.alarms when it is stopped.
func (f *Finder) alarm(d time.Duration) *time.Timer {
	timer, again := f.alarms.Get().(*time.Timer)
	if !again {
		return time.NewTimer(d)
	}
	timer.Reset(d)
	return timer
}

// brokersNamed is how many brokers a sentence names at the most.
const brokersNamed = 3

// errorStays is for how long the last error of a broker that is connected may be why it has
// not answered.
const errorStays = 30 * time.Second

// unheard says how the brokers stand, for a caller who heard of none: which cannot
// be reached and why, which are connected and owe an answer.
func (f *Finder) unheard() string {
	brokers := f.cluster.Brokers()
	var said []string
	for i := range brokers[:min(len(brokers), brokersNamed)] {
		b := &brokers[i]
		addr := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		switch {
		case b.Reachable, b.Open > 0 && (b.LastError == nil || time.Since(b.LastError.Time) > errorStays):
			// It may be suspect, for nothing but its silence.
			said = append(said, addr+" is connected and has not answered")
		case b.LastError != nil:
			said = append(said, b.LastError.Message)
		default:
			said = append(said, addr+" is still being connected to")
		}
	}
	if more := len(brokers) - len(said); more > 0 {
		said = append(said, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(said, "; ")
}

// Close refuses new calls, ends those that wait with SHUTTING_DOWN, and waits until no batch is under
// way or ctx ends, whose error it returns then.
func (f *Finder) Close(ctx context.Context) error {
	f.cancel()
	for _, q := range f.queues {
		q.close()
	}
	landed := make(chan struct{})
	go func() {
		f.flights.Wait()
		close(landed)
	}()
	select {
	case <-landed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
