package simulation

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
	"github.com/coordsvc/coordsvc/service"
)

// A plan is all that a seed decides before anything runs: the cluster, its faults,
// its leaders, the settings and the callers.
type plan struct {
	seed    uint64
	horizon time.Duration // faults and leader moves end here
	truth   truth
	brokers []*brokerPlan
	calls   []*callPlan

	bootstrap  []int // indexes of brokers
	advertised advertised
	closeAt    time.Duration // the Finder is closed under its callers; 0: at the end
	cursed     bool          // some keys fail whole requests

	pool   pool.Config
	finder service.FinderConfig
}

// advertised is which addresses Metadata names.
type advertised uint8

const (
	advertiseReal    advertised = iota
	advertiseRefused            // nobody listens there: an address of another network
	advertiseSilent             // dials are swallowed
	advertiseNothing            // Metadata has no brokers
)

var advertisedNames = [...]string{"real", "refused", "silent", "none"}

// How brokers answer ApiVersions.
type generation uint8

const (
	modern      generation = iota // refuses a version it does not know with 35, naming ApiVersions (2.4 and later)
	emptyRefuse                   // refuses with 35 and no list (0.10 to 2.3)
	fullRefuse                    // refuses with 35 and the whole list (Redpanda)
	resetsNewer                   // resets on a version it does not know (Azure Event Hubs)
	closes                        // does not know ApiVersions and closes (0.8.2)
	neverSays                     // does not know it and says nothing (0.9.0.1)
	controller                    // knows no FindCoordinator
)

var generationNames = [...]string{"modern", "35-empty", "35-full", "resets-newer", "closes", "never-answers", "no-key-10"}

// brokerPlan is one broker.
type brokerPlan struct {
	node        int32
	generation  generation
	find        kafkawire.VersionRange
	apiVersions kafkawire.Version
	metadata    kafkawire.Version // -1: not offered
	wire        time.Duration     // one way
	service     time.Duration     // a request
	spells      []spell
}

// carries reports whether the broker can be asked for keys of the type.
func (b *brokerPlan) carries(t kafkawire.KeyType) bool {
	least := map[kafkawire.KeyType]kafkawire.Version{kafkawire.KeyTypeTransaction: 1, kafkawire.KeyTypeShare: 6}[t]
	return b.generation != controller && b.find.Max >= least
}

// well reports whether nothing is wrong with the broker throughout.
func (b *brokerPlan) well(s span) bool {
	for _, sp := range b.spells {
		if sp.overlaps(s) {
			return false
		}
	}
	return true
}

// spell is a stretch of time in which something is wrong with a broker.
type spell struct {
	span
	fault fault
	odds  float64 // of each request
}

type fault uint8

const (
	down        fault = iota // resets connections, refuses dials
	unreachable              // swallows dials and requests
	paused                   // answers everything when the spell ends
	slow                     // seconds
	silent                   // drops requests
	wrongID                  // answers with another correlation id, and rows that nobody may see
	lossy                    // leaves rows out
	chatty                   // adds rows that were not asked for, in any order
	reordered                // rows in another order
	nodeless                 // code 0 with node -1, no host, or no port
	unavailable              // 15 or 14 for all keys
	cutShort                 // a part of the answer, then the end or nothing
	shrunk                   // a whole frame with a part of the answer
	garbage                  // bytes of another protocol, or of none
	resets                   // resets the connection instead of answering
	halfClosed               // ends its side and goes on reading
	splits                   // answers in pieces
	twice                    // answers twice
	disconnects              // resets all connections at the beginning, once
	sullen                   // closes on ApiVersions
	faults
)

var faultNames = [faults]string{"down", "unreachable", "paused", "slow", "silent", "wrong-id", "lossy", "chatty", "reordered", "nodeless",
	"unavailable", "cut-short", "shrunk", "garbage", "resets", "half-closed", "splits", "twice", "disconnects", "sullen"}

// callPlan is one call of Find.
type callPlan struct {
	at      time.Duration
	timeout time.Duration
	leaves  time.Duration // after how long the caller goes away; 0: it stays
	keyType kafkawire.KeyType
	keys    []string
}

func newPlan(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	p := &plan{seed: seed, horizon: between(r, 6*time.Second, 25*time.Second)}
	p.settings(r)
	p.cluster(r)
	if odds(r, 0.2) {
		defer p.toGrid()
	}
	p.truth = newTruth(r, len(p.brokers), p.horizon)
	p.callers(r)
	if odds(r, 0.07) {
		p.closeAt = between(r, 0, p.horizon)
	}
	return p
}

// toGrid rounds the times of brokers and callers, so that much happens at once: an
// answer at the deadline, a connection that comes free as the wait for it ends.
func (p *plan) toGrid() {
	const grid = 50 * time.Millisecond
	for _, b := range p.brokers {
		b.wire, b.service = b.wire.Round(grid), max(b.service.Round(grid), grid)
	}
	for _, c := range p.calls {
		c.at, c.leaves = c.at.Round(grid), c.leaves.Round(grid)
		c.timeout = max(c.timeout.Round(grid), grid)
	}
}

// settings draws limits far below the defaults as well: bounds that are never met
// prove nothing.
func (p *plan) settings(r *rand.Rand) {
	cfg := pool.DefaultConfig()
	cfg.DiscoverBrokers = odds(r, 0.85)
	cfg.DialTimeout = pick(r, 300*time.Millisecond, 600*time.Millisecond, time.Second, 5*time.Second)
	cfg.RequestTimeout = pick(r, 700*time.Millisecond, 1500*time.Millisecond, 3*time.Second, 10*time.Second)
	cfg.AcquireTimeout = pick(r, 300*time.Millisecond, 2*time.Second)
	cfg.MaxConnectionsPerBroker = 1 + r.IntN(4)
	cfg.MaxWaiters = pick(r, 16, 256, 1024)
	cfg.MaxIdleTime = pick(r, 2*time.Second, 3*time.Minute)
	cfg.MaxLifetime = pick(r, 3*time.Second, time.Hour)
	cfg.MaxAPIVersions = pick[kafkawire.Version](r, 0, 3, 3, 3, 4)
	p.pool = cfg
	p.finder = service.FinderConfig{
		ChunkKeys:      pick(r, 1, 3, 10, 100, 500),
		PipelineWindow: pick(r, 1, 4, 32),
		RequestTimeout: cfg.RequestTimeout,
	}
}

func (p *plan) cluster(r *rand.Rand) {
	n := 1 + r.IntN(5)
	mixed, base := odds(r, 0.4), newGeneration(r)
	calm, wild := odds(r, 0.1), odds(r, 0.3)
	for i := range n {
		b := base(r)
		if mixed {
			b = newGeneration(r)(r)
		}
		if n > 1 && odds(r, 0.03) {
			b.generation = controller
		}
		b.node = int32(i + 1)
		b.wire = between(r, 50*time.Microsecond, pick(r, time.Millisecond, 20*time.Millisecond, 100*time.Millisecond))
		b.service = between(r, 10*time.Microsecond, pick(r, time.Millisecond, 5*time.Millisecond))
		if !calm {
			b.fall(r, p.horizon, wild)
		}
		p.brokers = append(p.brokers, b)
	}
	p.bootstrap = r.Perm(n)
	if odds(r, 0.4) {
		p.bootstrap = p.bootstrap[:1+r.IntN(n)]
	}
	if odds(r, 0.15) {
		p.advertised = pick(r, advertiseRefused, advertiseSilent, advertiseNothing)
	}
}

// newGeneration chooses what a release answers; each use of it is one broker.
func newGeneration(r *rand.Rand) func(*rand.Rand) *brokerPlan {
	highest := kafkawire.Version(r.IntN(7))
	if odds(r, 0.4) {
		highest = 6
	}
	g := modern
	switch {
	case highest == 0:
		g = pick(r, closes, neverSays, emptyRefuse)
	case highest < 3:
		g = emptyRefuse
	case odds(r, 0.2):
		g = pick(r, fullRefuse, resetsNewer)
	}
	api := kafkawire.Version(r.IntN(4))
	metadata := kafkawire.Version(r.IntN(13))
	return func(r *rand.Rand) *brokerPlan {
		b := &brokerPlan{generation: g, find: kafkawire.VersionRange{Min: 0, Max: highest}, apiVersions: api, metadata: metadata}
		switch {
		case g == closes || g == neverSays:
			b.metadata = 0
		case odds(r, 0.03):
			b.metadata = -1
		case odds(r, 0.05):
			b.find.Min = highest
		}
		return b
	}
}

// fall draws the broker's spells.
func (b *brokerPlan) fall(r *rand.Rand, horizon time.Duration, wild bool) {
	pause := pick(r, 4*time.Second, 12*time.Second)
	if wild {
		pause = 2 * time.Second
	}
	favourite := fault(r.IntN(int(faults)))
	for at := between(r, 0, pause); at < horizon; at += between(r, 0, pause) {
		s := spell{fault: fault(r.IntN(int(faults))), odds: pick(r, 0.1, 0.5, 1)}
		if odds(r, 0.3) {
			s.fault = favourite
		}
		length := between(r, 10*time.Millisecond, pick(r, 300*time.Millisecond, 2*time.Second, 8*time.Second))
		s.span = span{at, min(at+length, horizon)}
		if s.fault == disconnects {
			s.to = s.from
		}
		b.spells = append(b.spells, s)
		at = s.to
	}
}

func (p *plan) callers(r *rand.Rand) {
	keys := newKeyring(r)
	p.cursed = keys.cursed
	last := p.horizon + time.Second
	for range 1 + r.IntN(50) {
		c := p.newCall(r, keys, between(r, 0, last))
		p.calls = append(p.calls, c)
	}
	for range r.IntN(4) { // crowds: many at one moment
		first := p.newCall(r, keys, between(r, 0, last))
		for range r.IntN(60) {
			c := p.newCall(r, keys, first.at)
			if odds(r, 0.5) {
				c.at += between(r, 0, 30*time.Millisecond)
			}
			if odds(r, 0.5) {
				c.keyType, c.keys = first.keyType, first.keys
			}
			p.calls = append(p.calls, c)
		}
	}
	for _, t := range keyTypes { // once all is well again
		recovered := p.horizon + p.recovery()
		p.calls = append(p.calls, &callPlan{at: recovered, timeout: 5 * time.Second, keyType: t, keys: []string{newKeyring(r).key(t)}})
	}
}

func (p *plan) newCall(r *rand.Rand, keys *keyring, at time.Duration) *callPlan {
	c := &callPlan{at: at, keyType: keys.keyType()}
	longest := pick(r, 50*time.Millisecond, time.Second, 5*time.Second, 10*time.Second, 10*time.Second)
	c.timeout = between(r, time.Millisecond, longest)
	if odds(r, 0.1) {
		c.timeout = between(r, 10*time.Second, 25*time.Second)
	}
	if odds(r, 0.15) {
		c.leaves = between(r, 0, c.timeout)
	}
	n := 1
	switch {
	case odds(r, 0.3):
		n = 1 + r.IntN(10)
	case odds(r, 0.05):
		n = 1 + r.IntN(p.finder.ChunkKeys*10)
	case odds(r, 0.01):
		n = 1 + r.IntN(p.finder.ChunkKeys*20)
	}
	for range min(n, 3000) {
		c.keys = append(c.keys, keys.key(c.keyType))
	}
	return c
}

// A keyring draws keys: some often, most once.
type keyring struct {
	r       *rand.Rand
	types   []kafkawire.KeyType
	popular int
	cursed  bool // malformed keys, which fail the batches they are in
	unique  int
}

const (
	deniedPrefix    = "denied-"    // the broker refuses it, alone
	malformedPrefix = "malformed-" // the broker refuses all keys of the request
)

func newKeyring(r *rand.Rand) *keyring {
	k := &keyring{r: r, popular: 1 + r.IntN(20), cursed: odds(r, 0.1), types: keyTypes}
	if odds(r, 0.5) {
		k.types = keyTypes[:1]
	}
	return k
}

func (k *keyring) keyType() kafkawire.KeyType { return pick(k.r, k.types...) }

func (k *keyring) key(t kafkawire.KeyType) string {
	name := ""
	switch {
	case odds(k.r, 0.02):
		name = deniedPrefix
	case k.cursed && odds(k.r, 0.02):
		name = malformedPrefix
	}
	if odds(k.r, 0.6) {
		name += fmt.Sprintf("popular-%d", k.r.IntN(k.popular))
	} else {
		k.unique++
		name += fmt.Sprintf("unique-%d", k.unique)
	}
	if t == kafkawire.KeyTypeShare {
		return name + ":" + base64.RawURLEncoding.EncodeToString([]byte("sixteen bytes id")) + ":0"
	}
	return name
}

// String is the plan in short.
func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "faults for %v; bootstrap %v; Metadata names %s; Finder closed at %v\n", round(p.horizon), p.bootstrapNodes(), advertisedNames[p.advertised], round(p.closeAt))
	fmt.Fprintf(&b, "pool: discover %v, dial %v, request %v, acquire %v, idle %v, lifetime %v, %d connections a broker, %d waiters, ApiVersions up to v%d; finder: chunk %d, window %d\n",
		p.pool.DiscoverBrokers, p.pool.DialTimeout, p.pool.RequestTimeout, p.pool.AcquireTimeout, p.pool.MaxIdleTime, p.pool.MaxLifetime,
		p.pool.MaxConnectionsPerBroker, p.pool.MaxWaiters, p.pool.MaxAPIVersions, p.finder.ChunkKeys, p.finder.PipelineWindow)
	for _, bp := range p.brokers {
		fmt.Fprintf(&b, "broker %d: %s, FindCoordinator v%d-v%d, ApiVersions v%d, Metadata v%d, wire %v, service %v:",
			bp.node, generationNames[bp.generation], bp.find.Min, bp.find.Max, bp.apiVersions, bp.metadata, bp.wire, bp.service)
		for _, s := range bp.spells {
			fmt.Fprintf(&b, " %s %v", faultNames[s.fault], s.span)
			if s.odds < 1 {
				fmt.Fprintf(&b, " (%.0f%%)", 100*s.odds)
			}
			b.WriteByte(';')
		}
		b.WriteByte('\n')
	}
	moves, keys := 0, 0
	for _, partitions := range p.truth {
		for _, reigns := range partitions {
			moves += len(reigns) - 1
		}
	}
	for _, c := range p.calls {
		keys += len(c.keys)
	}
	fmt.Fprintf(&b, "leaders move %d times; %d calls with %d keys\n", moves, len(p.calls), keys)
	return b.String()
}

func (p *plan) bootstrapNodes() []int32 {
	nodes := make([]int32, len(p.bootstrap))
	for i, at := range p.bootstrap {
		nodes[i] = p.brokers[at].node
	}
	return nodes
}
