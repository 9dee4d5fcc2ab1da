package kafkatest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReleaseRules(t *testing.T) {
	tests := []struct {
		version   string
		kraft     bool
		protocol  string
		keyTypes  []int8
		artifacts []artifact
	}{
		{"0.8.2.2", false, "0.8.2", []int8{0}, []artifact{"org.apache.kafka:kafka_2.11:0.8.2.2"}},
		{"0.10.1.1", false, "0.10.1", []int8{0}, []artifact{"org.apache.kafka:kafka_2.11:0.10.1.1", "javax.xml.bind:jaxb-api:2.3.1"}},
		{"0.11.0.3", false, "0.11.0", []int8{0, 1}, []artifact{"org.apache.kafka:kafka_2.11:0.11.0.3", "javax.xml.bind:jaxb-api:2.3.1"}},
		{"1.1.1", false, "1.1", []int8{0, 1}, []artifact{"org.apache.kafka:kafka_2.11:1.1.1", "org.slf4j:slf4j-log4j12:1.7.36", "log4j:log4j:1.2.17"}},
		{"2.3.1", false, "2.3", []int8{0, 1}, []artifact{
			"org.apache.kafka:kafka_2.12:2.3.1", "org.slf4j:slf4j-log4j12:1.7.36", "log4j:log4j:1.2.17", "org.apache.zookeeper:zookeeper:3.4.10",
		}},
		{"3.9.2", true, "3.9", []int8{0, 1}, []artifact{"org.apache.kafka:kafka_2.13:3.9.2", "org.slf4j:slf4j-log4j12:1.7.36", "log4j:log4j:1.2.17"}},
		{"4.4.0", true, "4.4", []int8{0, 1, 2}, []artifact{"org.apache.kafka:kafka_2.13:4.4.0", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.5"}},
	}
	for _, test := range tests {
		t.Run(test.version, func(t *testing.T) {
			r, err := parseRelease(test.version)
			require.NoError(t, err)
			require.Equal(t, test.kraft, r.kraft())
			require.Equal(t, test.protocol, r.protocol())
			require.Equal(t, test.keyTypes, r.keyTypes())
			require.Equal(t, test.artifacts, r.artifacts())
		})
	}
}

func TestReleaseNamesThatAreNone(t *testing.T) {
	for _, name := range []string{"", "4", "4.4", "0.8.1.1", "four", "4.4.0-rc1", "4.-4.0", "../../etc"} {
		_, err := Launch(t.Context(), Options{Version: name})
		require.Error(t, err, name)
	}
	_, err := Options{Versions: []string{"2.8.2", "4.4.0"}}.releases()
	require.ErrorContains(t, err, "kafka 4.4.0 cannot join a cluster that uses ZooKeeper")
}
