package kafkatest

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

// RequireReal is the first line of every test that starts real Kafka, with the
// releases that it needs. Such tests run with KAFKATEST_REAL=1 only, and
// where KAFKA_VERSIONS selects those releases. Where Java or Maven is missing
// they are skipped, or fail with KAFKATEST_REQUIRED=1, which make
// test-kafka and CI set.
func RequireReal(t testing.TB, versions ...string) {
	t.Helper()
	if os.Getenv("KAFKATEST_REAL") != "1" {
		t.Skip("starts real Kafka: run by make test-kafka (KAFKATEST_REAL=1)")
	}
	selected, err := Selected()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		if !slices.Contains(selected, v) {
			noteSkipped(t, "needs Kafka "+v)
			t.Skipf("needs Kafka %s, which KAFKA_VERSIONS=%s leaves out", v, os.Getenv("KAFKA_VERSIONS"))
		}
	}
	err = Available()
	switch {
	case err == nil:
	case os.Getenv("KAFKATEST_REQUIRED") == "1":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// EachRelease runs a test once for each release that KAFKA_VERSIONS selects, as
// a subtest named after it, one after the other.
func EachRelease(t *testing.T, test func(t *testing.T, version string)) {
	t.Helper()
	RequireReal(t)
	versions, err := Selected()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Releases {
		if !slices.Contains(versions, v) {
			noteSkipped(t, "on Kafka "+v)
		}
	}
	for _, v := range versions {
		t.Run("kafka-"+v, func(t *testing.T) { test(t, v) })
	}
}

// noteSkipped adds a line to the file that KAFKATEST_SKIPPED names: go test says
// nothing of skips unless it is asked for everything.
func noteSkipped(t testing.TB, what string) {
	t.Helper()
	name := os.Getenv("KAFKATEST_SKIPPED")
	if name == "" {
		return
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "  %s: %s\n", t.Name(), what); err != nil {
		t.Fatal(err)
	}
}
