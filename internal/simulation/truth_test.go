package simulation

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// A truth is the record of who coordinated what, for all simulated time. As in
// Kafka, a key belongs to a partition of its type's internal topic and the
// partition's leader is the coordinator.
type truth map[kafkawire.KeyType][][]reign

// A reign is one leader of a partition, from then until the next reign. Without a
// leader the answer is the error code.
type reign struct {
	from time.Duration
	node int32
	code kafkawire.ErrorCode // 15 or 14 where there is no leader to name
}

var keyTypes = []kafkawire.KeyType{kafkawire.KeyTypeGroup, kafkawire.KeyTypeTransaction, kafkawire.KeyTypeShare}

// newTruth lets leaders move until horizon. Afterwards every partition has one.
func newTruth(r *rand.Rand, nodes int, horizon time.Duration) truth {
	t := truth{}
	pace := pick(r, 200*time.Millisecond, time.Second, 4*time.Second, time.Hour)
	for _, keyType := range keyTypes {
		partitions := make([][]reign, 1+r.IntN(6))
		for i := range partitions {
			partitions[i] = newReigns(r, nodes, pace, horizon)
		}
		t[keyType] = partitions
	}
	return t
}

func newReigns(r *rand.Rand, nodes int, pace, horizon time.Duration) []reign {
	leader := func() int32 { return 1 + r.Int32N(int32(nodes)) }
	reigns := []reign{{node: leader()}}
	for at := between(r, 0, 2*pace); at < horizon; at += between(r, pace/4, 2*pace) {
		if r.IntN(3) > 0 {
			reigns = append(reigns, reign{from: at, node: leader()})
			continue
		}
		code := pick(r, kafkawire.ErrCoordinatorNotAvailable, kafkawire.ErrCoordinatorLoadInProgress)
		reigns = append(reigns, reign{from: at, code: code})
		at += between(r, 0, pick(r, 100*time.Millisecond, time.Second, 4*time.Second))
		reigns = append(reigns, reign{from: min(at, horizon), node: leader()})
	}
	return reigns
}

func (t truth) reigns(keyType kafkawire.KeyType, key string) []reign {
	partitions := t[keyType]
	return partitions[hash(keyType, key)%uint64(len(partitions))]
}

// at is the reign over a key at one moment.
func (t truth) at(keyType kafkawire.KeyType, key string, when time.Duration) reign {
	reigns := t.reigns(keyType, key)
	for i := len(reigns) - 1; i > 0; i-- {
		if reigns[i].from <= when {
			return reigns[i]
		}
	}
	return reigns[0]
}

// ever reports whether some reign between two moments, both included, satisfies is.
func (t truth) ever(keyType kafkawire.KeyType, key string, s span, is func(reign) bool) bool {
	reigns := t.reigns(keyType, key)
	for i, g := range reigns {
		if ends := i+1 < len(reigns) && reigns[i+1].from < s.from; !ends && g.from <= s.to && is(g) {
			return true
		}
	}
	return false
}

func hash(keyType kafkawire.KeyType, key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte{byte(keyType)})
	h.Write([]byte(key))
	return h.Sum64()
}

// A span is a stretch of simulated time, counted from its beginning.
type span struct{ from, to time.Duration }

func (s span) contains(at time.Duration) bool { return s.from <= at && at < s.to }

func (s span) overlaps(o span) bool { return s.from <= o.to && o.from <= s.to }

func (s span) String() string { return fmt.Sprintf("%v-%v", round(s.from), round(s.to)) }

func round(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return d
	}
	return d.Round(time.Millisecond)
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(r.Int64N(int64(high-low)))
}

// odds is true with probability p.
func odds(r *rand.Rand, p float64) bool { return r.Float64() < p }
