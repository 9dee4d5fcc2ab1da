package kafkatest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// verdict is a testing.TB that notes how a test would have ended.
type verdict struct {
	testing.TB
	outcome string
}

func (v *verdict) Helper() {}

func (v *verdict) end(how, text string) {
	v.outcome = how + ": " + text
	panic(v) // as runtime.Goexit would, but for one function only
}

func (v *verdict) Skip(args ...any)              { v.end("skip", fmt.Sprint(args...)) }
func (v *verdict) Skipf(format string, a ...any) { v.end("skip", fmt.Sprintf(format, a...)) }
func (v *verdict) Fatal(args ...any)             { v.end("fail", fmt.Sprint(args...)) }

func judge(t *testing.T, versions ...string) string {
	v := &verdict{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(v) {
				panic(r)
			}
		}()
		RequireReal(v, versions...)
	}()
	return v.outcome
}

func TestRequireReal(t *testing.T) {
	const nothing = "real Kafka cannot be started here, missing: java (17 or later), mvn (Apache Maven)"
	tests := []struct {
		name     string
		env      map[string]string
		versions []string
		want     string
	}{
		{"off", nil, nil, "skip: starts real Kafka: run by make test-kafka (KAFKATEST_REAL=1)"},
		{"nothing installed", map[string]string{"KAFKATEST_REAL": "1"}, nil, "skip: " + nothing},
		{"nothing installed, but asked for", map[string]string{"KAFKATEST_REAL": "1", "KAFKATEST_REQUIRED": "1"}, nil, "fail: " + nothing},
		{
			"release left out", map[string]string{"KAFKATEST_REAL": "1", "KAFKA_VERSIONS": "2.8.2,1.1.1"},
			[]string{"2.8.2", "4.4.0"}, "skip: needs Kafka 4.4.0, which KAFKA_VERSIONS=2.8.2,1.1.1 leaves out",
		},
		{
			"misspelt", map[string]string{"KAFKATEST_REAL": "1", "KAFKA_VERSIONS": "4.4"},
			nil, `fail: KAFKA_VERSIONS: "4.4" is no Kafka release from 0.8.2 on (like 4.4.0 or 0.10.2.2)`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, name := range []string{"KAFKATEST_REAL", "KAFKATEST_REQUIRED", "KAFKA_VERSIONS", "JAVA_HOME"} {
				t.Setenv(name, test.env[name])
			}
			t.Setenv("PATH", t.TempDir())
			require.Equal(t, test.want, judge(t, test.versions...))
		})
	}
}
