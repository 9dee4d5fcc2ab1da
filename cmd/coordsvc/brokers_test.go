package main

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

// A broker that lets clients in and then says nothing does not hide the others.
func TestBrokersOfWhichOneIsStuck(t *testing.T) {
	stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{})
	var asked atomic.Int32
	stubs[0].On(kafkawire.APIKeyMetadata, func(*kafkatest.Request) { asked.Add(1) })
	addrs := strings.Join(kafkatest.Addrs(stubs...), ",")
	for asked.Load() == 0 {
		got := coordsvc(t, "brokers", "--kafka-brokers", addrs, "--timeout", "4s")
		require.NotEqual(t, exitUnreachable, got.code, got.err)
		require.Regexp(t, `(?m)^1 .*\n2 +\S+ +up .*\n3 +\S+ +up .*\n\z`, got.out)
		if asked.Load() > 0 {
			require.Regexp(t, `(?m)^1 .* DEADLINE_EXCEEDED: .*Metadata v\d+: no answer within 2s`, got.out)
		}
	}
}

func TestBrokers(t *testing.T) {
	stubs := kafkatest.NewStubs(t, 3, kafkatest.StubConfig{})
	stubs[1].SetAPI(kafkawire.APIKeyFindCoordinator, kafkawire.VersionRange{Min: 0, Max: 3})
	seed := kafkatest.Addrs(stubs[0])[0]

	got := coordsvc(t, "brokers", "--kafka-brokers", seed, "-o", "json")
	require.Equal(t, exitOK, got.code, got.err)
	var list coordsvcv1.ListBrokersResponse
	require.NoError(t, protojson.Unmarshal([]byte(got.out), &list))
	require.Len(t, list.GetBrokers(), 3)
	for i, b := range list.GetBrokers() {
		want := int32(6)
		if i == 1 {
			want = 3
		}
		require.EqualValues(t, i+1, b.GetNodeId())
		require.Equal(t, coordsvcv1.BrokerState_BROKER_STATE_UP, b.GetState())
		require.Equal(t, want, b.GetFindCoordinatorVersion())
		require.Equal(t, want, b.GetFindCoordinatorRange().GetMax())
		require.NotNil(t, b.GetApiVersionsRange())
	}

	// Whichever address is tried first, all are, and nothing waits for the time to end.
	_, port, err := net.SplitHostPort(seed)
	require.NoError(t, err)
	given := strings.Join([]string{seed, "localhost:" + port, "127.0.0.1:1"}, ",")
	for range 5 {
		began := time.Now()
		got = coordsvc(t, "brokers", "--kafka-brokers", given, "--timeout", "10s")
		require.Equal(t, exitFailed, got.code, got.err)
		require.Less(t, time.Since(began), 9*time.Second)
		require.Regexp(t, `(?m)^- +127\.0\.0\.1:1 +down .*refused.*\n- +localhost:\d+ +up .*\n1 .*\n2 .*\n3 .*\n\z`, got.out)
	}

	stubs[2].Down()
	got = coordsvc(t, "brokers", "--kafka-brokers", seed)
	require.Equal(t, exitFailed, got.code, "one is down")
	require.Regexp(t, `2 +\S+ +up +v3 of 0-3`, got.out)
	require.Regexp(t, `3 +\S+ +down +- +- +- +0 +BROKER_UNREACHABLE: .*refused`, got.out)

	stubs[0].Down()
	got = coordsvc(t, "brokers", "--kafka-brokers", seed, "--timeout", "1s")
	require.Equal(t, exitUnreachable, got.code, "none is up")
	require.Contains(t, got.out, "refused")
}
