package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
)

// match finds the row of each key, and writes the outcomes over old. Apache Kafka
// answers in the order asked; others may not, so the key decides. A missing row is an
// outcome too.
func match(old []Result, keys []string, rows []kafkawire.Coordinator, v kafkawire.Version, lease *pool.Lease) []Result {
	results := slices.Grow(old[:0], len(keys))[:len(keys)]
	var misplaced map[string]int // by key, its index; not by row, of which there may be any number
	for i, key := range keys {
		if i < len(rows) && rows[i].Key == key {
			results[i] = outcome(&rows[i], v, lease)
			continue
		}
		if misplaced == nil {
			misplaced = make(map[string]int)
		}
		misplaced[key] = i
		results[i] = Result{Err: failure(ReasonNotInAnswer, ""), APIVersion: v, AnsweredBy: lease.Addr()}
	}
	for j := range rows {
		if len(misplaced) == 0 {
			break
		}
		if i, ok := misplaced[rows[j].Key]; ok {
			results[i] = outcome(&rows[j], v, lease)
			delete(misplaced, rows[j].Key)
		}
	}
	return results
}

// outcome translates one row of an answer.
func outcome(row *kafkawire.Coordinator, v kafkawire.Version, lease *pool.Lease) Result {
	r := Result{APIVersion: v, AnsweredBy: lease.Addr()}
	switch {
	case row.ErrorCode != kafkawire.ErrNone:
		r.Err = &LookupError{Contract: ContractOfCode(row.ErrorCode), Detail: brokerText(lease.Without(row.ErrorMessage))}
	case row.NodeID < 0 || !pool.IsHost(row.Host) || row.Port < 1 || row.Port > 65535:
		r.Err = failure(ReasonInvalidAnswer, fmt.Sprintf("it reports success, but no usable address: node %d, host %s, port %d", row.NodeID, quoteKey(lease.Without(row.Host)), row.Port))
	default:
		r.Coordinator = Coordinator{NodeID: row.NodeID, Host: row.Host, Port: row.Port}
	}
	return r
}

// brokerText is what a broker's error text is worth showing: v1 to v3 say "NONE",
// later versions "" where they have nothing to say.
func brokerText(s string) string {
	if s == "" || s == "NONE" {
		return ""
	}
	return fmt.Sprintf("the broker says %q", pool.Excerpt(s))
}

// oneKeyMayHaveFailedAll recognises answers that Kafka gives to all keys of a
// request because of one of them: -1 (malformed share keys on Kafka 4.0.0) and 42.
func oneKeyMayHaveFailedAll(results []Result) bool {
	if len(results) < 2 {
		return false
	}
	for i := range results {
		e := results[i].Err
		if e == nil || !e.Kafka || e.Code != results[0].Err.Code {
			return false
		}
	}
	c := results[0].Err.Code
	return c == kafkawire.ErrUnknownServerError || c == kafkawire.ErrInvalidRequest
}

// acquireFailure is the outcome of all keys that wait when no connection is to be had.
func acquireFailure(err error) Result {
	var e *pool.Error
	if !errors.As(err, &e) {
		if errors.Is(err, context.Canceled) {
			return Result{Err: failure(ReasonShuttingDown, "")}
		}
		return Result{Err: failure(ReasonBrokerUnreachable, err.Error())}
	}
	return Result{Err: &LookupError{Contract: contractOf(e), Detail: err.Error()}}
}

// exchangeFailure is the outcome of the keys whose answers did not come.
func exchangeFailure(err error, addr string, waited time.Duration) *LookupError {
	var e *pool.Error
	switch {
	case pool.KindOf(err) == pool.Timeout:
		return failure(ReasonDeadlineExceeded, fmt.Sprintf("%s did not answer within %v", addr, waited.Round(10*time.Millisecond)))
	case errors.As(err, &e):
		return &LookupError{Contract: contractOf(e), Detail: err.Error()}
	}
	if errors.Is(err, context.Canceled) {
		return failure(ReasonShuttingDown, "")
	}
	return failure(ReasonBrokerUnreachable, fmt.Sprintf("%s: %v", addr, err))
}

func repeat(r Result, n int) []Result {
	results := make([]Result, n)
	for i := range results {
		results[i] = r
	}
	return results
}
