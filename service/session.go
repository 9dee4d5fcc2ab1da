package service

import (
	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
)

// doubtRefusals has what a broker refused near the end of a session asked once more,
// on a fresh connection: some brokers (Amazon MSK with IAM) answer that way when a
// session has ended for them already, and the question is whether the key is denied
// or the session is. It reports whether there is such an answer.
func doubtRefusals(lease *pool.Lease, results []Result) bool {
	if !lease.SessionWaning() {
		return false
	}
	doubted := false
	for i := range results {
		if e := results[i].Err; e != nil && e.Kafka && isRefusal(e.Code) {
			e.doubted = true
			doubted = true
		}
	}
	if doubted {
		lease.Retire()
	}
	return doubted
}

func isRefusal(code kafkawire.ErrorCode) bool {
	switch code {
	case kafkawire.ErrGroupAuthorizationFailed, kafkawire.ErrTransactionalIDAuthorizationFailed, kafkawire.ErrClusterAuthorizationFailed:
		return true
	default:
		return false
	}
}

// dropLostSession has the connection closed if the broker does not take it for
// authenticated, and reports that.
func dropLostSession(lease *pool.Lease, results []Result) bool {
	for i := range results {
		if sessionLost(results[i].Err) {
			lease.Reject(results[i].Err.Code)
			return true
		}
	}
	return false
}
