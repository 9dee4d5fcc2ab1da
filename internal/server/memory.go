package server

import (
	"fmt"
	"math"
	"sync/atomic"
)

// What a call takes while it is inside, estimated from what is known before
// anything is decoded. Per byte of the request: the message as it came, its text
// decoded, the request to Kafka and its answer. Per key: the rows in the finder, in
// the answer and in its JSON. TestMemoryOfLargeCalls measures it.
const (
	memoryPerByte = 4
	memoryPerKey  = 512
)

// smallCall is what a call may take to count as small: a quarter of the memory is
// for small calls only, so that a few huge ones do not shut out those who ask for
// one key.
const smallCall = 256 << 10

// unlimitedMemory is what calls may take where the process has no limit: a hundred and
// more calls of 10,000 keys at one time.
const unlimitedMemory = 1 << 30

// chooseMemory gives calls half of what the process may have. (TestMemoryOfLargeCalls:
// the process takes about what calls may, and 30 MiB, garbage included.)
func chooseMemory(processLimit, largestCall int64) int64 {
	if processLimit == math.MaxInt64 {
		return max(unlimitedMemory, leastMemory(largestCall))
	}
	return max(processLimit/2, leastMemory(largestCall))
}

// leastMemory lets the largest call in, which may have no more than three quarters.
func leastMemory(largestCall int64) int64 { return largestCall + largestCall/3 + 1 }

// largestCall is what a call of the largest size and the most keys takes.
func (c Config) largestCall() int64 {
	return memoryPerByte*int64(c.MaxMessageBytes) + memoryPerKey*int64(c.MaxKeys)
}

// memory bounds what all calls inside take together, of both protocols.
type memory struct {
	most int64
	full *preparedError
	used atomic.Int64
}

func newMemory(most int64) *memory {
	return &memory{most: most, full: prepare(overloaded(LimitMemory, most, fmt.Sprintf(
		"the calls that are being answered take all of the %d bytes that they may (setting %s): "+
			"call again in a second, or ask for fewer keys at a time; if it stays, add instances or memory", most, LimitMemory)))}
}

// share is what one call has of the memory. It must be given back.
type share struct {
	of    *memory
	taken int64
}

// take adds n bytes to the share, or fails with memory.full.
func (s *share) take(n int64) error {
	bound := s.of.most
	if s.taken+n > smallCall {
		bound -= s.of.most / 4
	}
	for {
		used := s.of.used.Load()
		if used+n > bound {
			return s.of.full
		}
		if s.of.used.CompareAndSwap(used, used+n) {
			s.taken += n
			return nil
		}
	}
}

// shrink gives back what the share has over n.
func (s *share) shrink(n int64) {
	s.of.used.Add(n - s.taken)
	s.taken = n
}

func (s *share) giveBack() { s.shrink(0) }
