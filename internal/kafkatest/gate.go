package kafkatest

import (
	"os"
	"testing"
)

// RequireReal is the first line of every test that starts real Kafka. Such tests
// run with COORDSVC_TEST_KAFKA=1 only. Where Java or Maven is missing they are
// skipped, or fail with COORDSVC_KAFKA_REQUIRED=1, which make test-kafka and CI
// set.
func RequireReal(t testing.TB) {
	t.Helper()
	if os.Getenv("COORDSVC_TEST_KAFKA") != "1" {
		t.Skip("starts real Kafka: run by make test-kafka (COORDSVC_TEST_KAFKA=1)")
	}
	if err := Available(); err != nil {
		if os.Getenv("COORDSVC_KAFKA_REQUIRED") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// EachRelease runs a test once a release that KAFKA_VERSIONS selects, as a
// subtest named after it, one after the other.
func EachRelease(t *testing.T, test func(t *testing.T, version string)) {
	t.Helper()
	RequireReal(t)
	versions, err := Selected()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		t.Run("kafka-"+v, func(t *testing.T) { test(t, v) })
	}
}
