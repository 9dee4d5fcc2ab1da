package kafkatest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// Releases are the Apache Kafka releases that the project is tried on, oldest
// first: at least one for each way of answering ApiVersions and FindCoordinator.
var Releases = []string{
	"0.8.2.2", "0.9.0.1", "0.10.1.1", "0.10.2.2", "1.1.1", "2.3.1",
	"2.4.1", "2.8.2", "3.0.2", "3.7.2", "3.9.2", "4.4.0",
}

// Selected is which releases KAFKA_VERSIONS ("4.4.0,2.8.2") asks for, or Releases.
func Selected() ([]string, error) {
	list := strings.FieldsFunc(os.Getenv("KAFKA_VERSIONS"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(list) == 0 {
		return slices.Clone(Releases), nil
	}
	for _, v := range list {
		if _, err := parseRelease(v); err != nil {
			return nil, fmt.Errorf("KAFKA_VERSIONS: %w", err)
		}
	}
	return list, nil
}

// release is a Kafka version as numbers: {2, 8, 2}, {0, 10, 1, 1}.
type release struct {
	name    string
	numbers []int
}

func parseRelease(name string) (release, error) {
	r := release{name: name}
	for part := range strings.SplitSeq(name, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return r, fmt.Errorf("%q is no Kafka release (like 4.4.0 or 0.10.2.2)", name)
		}
		r.numbers = append(r.numbers, n)
	}
	if len(r.numbers) < 3 || !r.atLeast(0, 8, 2) {
		return r, fmt.Errorf("%q is no Kafka release from 0.8.2 on (like 4.4.0 or 0.10.2.2)", name)
	}
	return r, nil
}

func (r release) atLeast(numbers ...int) bool { return slices.Compare(r.numbers, numbers) >= 0 }

func (r release) compare(other release) int { return slices.Compare(r.numbers, other.numbers) }

// kraft says whether brokers can keep their metadata themselves, which is fit
// for use from 3.3 on, or need ZooKeeper.
func (r release) kraft() bool { return r.atLeast(3, 3) }

// offers is which versions of an API came with which release; all are offered
// from 0 on.
var offers = map[kafkawire.APIKey][]offer{
	kafkawire.APIKeyMetadata: {
		{[]int{0, 8}, 0}, {[]int{0, 10}, 1}, {[]int{0, 10, 1}, 2}, {[]int{0, 11}, 4}, {[]int{1, 0}, 5}, {[]int{2, 0}, 6},
		{[]int{2, 1}, 7}, {[]int{2, 3}, 8}, {[]int{2, 4}, 9}, {[]int{2, 8}, 11}, {[]int{3, 1}, 12}, {[]int{4, 0}, 13},
	},
	kafkawire.APIKeyFindCoordinator: {
		{[]int{0, 8, 2}, 0}, {[]int{0, 11}, 1}, {[]int{2, 0}, 2}, {[]int{2, 4}, 3}, {[]int{3, 0}, 4}, {[]int{3, 8}, 5}, {[]int{3, 9}, 6},
	},
	kafkawire.APIKeySaslHandshake: {{[]int{0, 10}, 0}, {[]int{1, 0}, 1}},
	kafkawire.APIKeyAPIVersions: {
		{[]int{0, 10}, 0}, {[]int{0, 11}, 1}, {[]int{2, 0}, 2}, {[]int{2, 4}, 3}, {[]int{3, 9}, 4}, {[]int{4, 4}, 5},
	},
	kafkawire.APIKeySaslAuthenticate: {{[]int{1, 0}, 0}, {[]int{2, 2}, 1}, {[]int{2, 5}, 2}},
}

type offer struct {
	since   []int
	highest kafkawire.Version
}

// offers is what a release offers of the APIs that a lookup needs.
func (r release) offers() map[kafkawire.APIKey]kafkawire.VersionRange {
	ranges := make(map[kafkawire.APIKey]kafkawire.VersionRange)
	for key, list := range offers {
		for _, o := range list {
			if r.atLeast(o.since...) {
				ranges[key] = kafkawire.VersionRange{Min: 0, Max: o.highest}
			}
		}
	}
	return ranges
}

// findCoordinator is the highest FindCoordinator version that the release
// answers. One higher, and it closes the connection.
func (r release) findCoordinator() int16 {
	return int16(r.offers()[kafkawire.APIKeyFindCoordinator].Max)
}

// ReleaseAPIs is what a release ("2.8.2") offers of the APIs that a lookup needs.
func ReleaseAPIs(version string) (map[kafkawire.APIKey]kafkawire.VersionRange, error) {
	r, err := parseRelease(version)
	return r.offers(), err
}

// keyTypes are the FindCoordinator key types that a release can answer with a
// broker: 0 GROUP, 1 TRANSACTION, 2 SHARE. 3.9 and 4.0.0 take SHARE but answer
// COORDINATOR_NOT_AVAILABLE for ever.
func (r release) keyTypes() []int8 {
	switch {
	case r.atLeast(4, 1):
		return []int8{0, 1, 2}
	case r.atLeast(0, 11):
		return []int8{0, 1}
	}
	return []int8{0}
}

// artifact is a Maven coordinate, group:name:version.
type artifact string

// artifacts are what must be on the classpath; Maven adds what they depend on.
func (r release) artifacts() []artifact {
	scala := "2.13"
	switch {
	case !r.atLeast(2, 0):
		scala = "2.11"
	case !r.atLeast(2, 4):
		scala = "2.12"
	}
	list := []artifact{artifact("org.apache.kafka:kafka_" + scala + ":" + r.name)}
	if r.atLeast(0, 10) && !r.atLeast(1, 0) {
		list = append(list, "javax.xml.bind:jaxb-api:2.3.1") // no longer part of Java
	}
	if r.atLeast(1, 0) && !r.atLeast(4, 0) {
		list = append(list, "org.slf4j:slf4j-log4j12:1.7.36", "log4j:log4j:1.2.17") // else nothing is logged
	}
	if r.atLeast(4, 0) {
		list = append(list, "org.apache.logging.log4j:log4j-slf4j-impl:2.25.5") // the same, for log4j 2
	}
	if r.atLeast(2, 0) && !r.atLeast(2, 4) {
		// ZooKeeper 3.4.14 cannot parse addresses as Java 14 and later print them.
		list = append(list, "org.apache.zookeeper:zookeeper:3.4.10")
	}
	return list
}
