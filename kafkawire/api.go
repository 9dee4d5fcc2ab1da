package kafkawire

import "fmt"

// An APIKey names the API that a request calls, as numbered in the list of [API keys].
//
// [API keys]: https://kafka.apache.org/protocol#protocol_api_keys
type APIKey int16

// The APIs that the package speaks.
const (
	APIKeyMetadata         APIKey = 3
	APIKeyFindCoordinator  APIKey = 10
	APIKeySaslHandshake    APIKey = 17
	APIKeyAPIVersions      APIKey = 18
	APIKeySaslAuthenticate APIKey = 36
)

// A Version is a version of one API's messages. Each API counts its own.
type Version int16

// A VersionRange is the versions from Min to Max, both included. It is empty
// where Max is below Min.
type VersionRange struct{ Min, Max Version }

// Contains reports whether v lies in the range.
func (r VersionRange) Contains(v Version) bool { return r.Min <= v && v <= r.Max }

// String gives "0-6", or "none" for an empty range.
func (r VersionRange) String() string {
	if r.Max < r.Min {
		return "none"
	}
	return fmt.Sprintf("%d-%d", r.Min, r.Max)
}

// noVersions is the range of an API that one side does not know.
var noVersions = VersionRange{Min: 0, Max: -1}

// never stands in the table for messages that have no flexible version.
const never Version = 1<<15 - 1

// An api is what the package knows of one API as a whole.
type api struct {
	key      APIKey
	name     string       // as in the protocol guide
	versions VersionRange // that the encoders and decoders speak
	flexible Version      // the first flexible version (KIP-482)
}

// apis is the one table of versions.
//
// Apache Kafka 4.4 goes further only in Metadata: v13 adds a top-level error
// code to the answer, for clients that wait for REBOOTSTRAP_REQUIRED there.
// SaslHandshake will not get past v1 (KAFKA-9577).
var apis = [...]api{
	{APIKeyMetadata, "Metadata", VersionRange{0, 12}, 9},
	{APIKeyFindCoordinator, "FindCoordinator", VersionRange{0, 6}, 3},
	{APIKeySaslHandshake, "SaslHandshake", VersionRange{0, 1}, never},
	{APIKeyAPIVersions, "ApiVersions", VersionRange{0, 5}, 3},
	{APIKeySaslAuthenticate, "SaslAuthenticate", VersionRange{0, 2}, 2},
}

// api is the row of the table, or nil for an API that the package does not speak.
func (k APIKey) api() *api {
	for i := range apis {
		if apis[i].key == k {
			return &apis[i]
		}
	}
	return nil
}

// String gives the name of the protocol guide, such as "FindCoordinator", or
// "API 42" for one that the package does not speak.
func (k APIKey) String() string {
	if a := k.api(); a != nil {
		return a.name
	}
	return fmt.Sprintf("API %d", int16(k))
}

// speaks reports whether the package encodes and decodes version v of the API's
// messages.
func (k APIKey) speaks(v Version) bool {
	a := k.api()
	return a != nil && a.versions.Contains(v)
}

// flexible reports whether version v of the API's messages has compact lengths
// and tagged fields.
func (k APIKey) flexible(v Version) bool {
	a := k.api()
	return a != nil && v >= a.flexible
}

// Supported returns the versions of an API that this package encodes and
// decodes; an empty range for an API that it does not speak. What a client
// should send is a narrower question: see [Negotiate], and mind that some
// brokers drop the connection on ApiVersions above v3.
func Supported(key APIKey) VersionRange {
	if a := key.api(); a != nil {
		return a.versions
	}
	return noVersions
}

// Negotiate returns the highest version that lies in both ranges. Where there is
// none, or where a range is empty or has a negative bound, the error is
// [ErrNoCommonVersion]: to send one side's bound regardless only makes the
// broker close the connection without a word.
func Negotiate(ours, theirs VersionRange) (Version, error) {
	highest, lowest := min(ours.Max, theirs.Max), max(ours.Min, theirs.Min)
	if highest < lowest || ours.Min < 0 || theirs.Min < 0 {
		return -1, fmt.Errorf("%w: ours are %v, theirs are %v", ErrNoCommonVersion, ours, theirs)
	}
	return highest, nil
}
