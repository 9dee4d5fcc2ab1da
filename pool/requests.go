package pool

import (
	"sync/atomic"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// RequestCount is how many requests of one API and version were sent.
type RequestCount struct {
	API     kafkawire.APIKey
	Version kafkawire.Version
	Count   int64
}

// spokenAPIs are what connections ask for.
var spokenAPIs = [...]kafkawire.APIKey{
	kafkawire.APIKeyFindCoordinator,
	kafkawire.APIKeyMetadata,
	kafkawire.APIKeyAPIVersions,
	kafkawire.APIKeySaslHandshake,
	kafkawire.APIKeySaslAuthenticate,
}

// spokenVersions is more than the highest version of any of them.
const spokenVersions = 16

// requestCounts counts the requests of all connections, by API and version.
type requestCounts [len(spokenAPIs)][spokenVersions]atomic.Int64

func (n *requestCounts) add(key kafkawire.APIKey, v kafkawire.Version, requests int) {
	if v < 0 || v >= spokenVersions {
		return
	}
	for i, spoken := range spokenAPIs {
		if key == spoken {
			n[i][v].Add(int64(requests))
			return
		}
	}
}

// list has a row for every version that can be spoken, also those that were not.
func (n *requestCounts) list() []RequestCount {
	var rows []RequestCount
	for i, key := range spokenAPIs {
		spoken := kafkawire.Supported(key)
		for v := spoken.Min; v <= spoken.Max; v++ {
			rows = append(rows, RequestCount{API: key, Version: v, Count: n[i][v].Load()})
		}
	}
	return rows
}
