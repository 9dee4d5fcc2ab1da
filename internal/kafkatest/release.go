package kafkatest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Releases are the Apache Kafka releases that the project is tried on, oldest
// first: at least one for each way of answering ApiVersions and FindCoordinator.
var Releases = []string{
	"0.8.2.2", "0.9.0.1", "0.10.1.1", "0.10.2.2", "1.1.1", "2.3.1",
	"2.4.1", "2.8.2", "3.0.2", "3.7.2", "3.9.2", "4.4.0",
}

// Selected is what KAFKA_VERSIONS ("4.4.0,2.8.2") asks for, or Releases.
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

// kraft says whether brokers keep their metadata themselves (KRaft fit for use:
// 3.3) or in ZooKeeper.
func (r release) kraft() bool { return r.atLeast(3, 3) }

// FindCoordinatorVersion is the highest FindCoordinator version that a release
// answers, measured. One higher, and it closes the connection.
func FindCoordinatorVersion(version string) (int16, error) {
	r, err := parseRelease(version)
	if err != nil {
		return 0, err
	}
	return r.findCoordinator(), nil
}

func (r release) findCoordinator() int16 {
	switch {
	case r.atLeast(3, 9):
		return 6
	case r.atLeast(3, 8):
		return 5
	case r.atLeast(3, 0):
		return 4
	case r.atLeast(2, 4):
		return 3
	case r.atLeast(2, 0):
		return 2
	case r.atLeast(0, 11):
		return 1
	}
	return 0
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
	if r.atLeast(0, 10) && !r.atLeast(0, 11) {
		list = append(list, "javax.xml.bind:jaxb-api:2.3.1") // no longer part of Java
	}
	if r.atLeast(1, 0) && !r.atLeast(4, 0) {
		list = append(list, "org.slf4j:slf4j-log4j12:1.7.36", "log4j:log4j:1.2.17") // else nothing is logged
	}
	if r.atLeast(2, 0) && !r.atLeast(2, 4) {
		// ZooKeeper 3.4.14 cannot parse addresses as Java 14 and later print them.
		list = append(list, "org.apache.zookeeper:zookeeper:3.4.10")
	}
	return list
}
