package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
)

const (
	apiVersions     = kafkawire.APIKeyAPIVersions
	findCoordinator = kafkawire.APIKeyFindCoordinator
	metadata        = kafkawire.APIKeyMetadata
)

// asked are the ApiVersions versions that the stub was asked, in order.
func asked(s *kafkatest.Stub) []int {
	versions := []int{}
	for _, r := range s.Requests(apiVersions) {
		versions = append(versions, int(r.Version))
	}
	return versions
}

// onVersions lets h answer from a version of ApiVersions on.
func onVersions(from kafkawire.Version, h kafkatest.Handler) kafkatest.Handler {
	return func(r *kafkatest.Request) {
		if r.Version >= from {
			h(r)
			return
		}
		kafkatest.Default(r)
	}
}

// refuse35 refuses every version above highest with code 35 and the list given.
func refuse35(highest kafkawire.Version, list ...kafkawire.APIVersionRange) kafkatest.Handler {
	return onVersions(highest+1, func(r *kafkatest.Request) {
		r.ReplyAs(r.CorrelationID, 0, &kafkawire.APIVersionsResponse{ErrorCode: kafkawire.ErrUnsupportedVersion, APIs: list})
	})
}

func TestNegotiation(t *testing.T) {
	all := []kafkawire.APIVersionRange{{Key: metadata, Max: 12}, {Key: findCoordinator, Max: 4}, {Key: apiVersions, Max: 2}}
	for name, test := range map[string]struct {
		release string
		handler kafkatest.Handler // of ApiVersions
		highest kafkawire.Version // to ask; 0 means 3
		asked   []int
		dials   int
		version int           // of FindCoordinator
		takes   time.Duration // at most
	}{
		"newest":             {release: "4.4.0", asked: []int{3}, dials: 1, version: 6},
		"asks v4 where told": {release: "4.4.0", highest: 4, asked: []int{4}, dials: 1, version: 6},
		"asks at most what kafkawire speaks": {release: "4.4.0", highest: 99,
			asked: []int{int(kafkawire.Supported(apiVersions).Max)}, dials: 1, version: 6},
		"3.7":                           {release: "3.7.2", asked: []int{3}, dials: 1, version: 4},
		"2.4, v4 refused with key 18":   {release: "2.4.1", highest: 4, asked: []int{4, 3}, dials: 1, version: 3},
		"2.3, v3 refused with no key":   {release: "2.3.1", asked: []int{3, 0}, dials: 1, version: 2},
		"0.10":                          {release: "0.10.2.2", asked: []int{3, 0}, dials: 1, version: 0},
		"refused with all keys":         {handler: refuse35(2, all...), asked: []int{3, 2}, dials: 1, version: 6},
		"refused, no lower offered":     {handler: refuse35(0, kafkawire.APIVersionRange{Key: apiVersions, Max: 3}), asked: []int{3, 0}, dials: 1, version: 6},
		"refused, a higher one offered": {handler: refuse35(0, kafkawire.APIVersionRange{Key: apiVersions, Max: 9}), asked: []int{3, 0}, dials: 1, version: 6},
		"refused, negative offered":     {handler: refuse35(0, kafkawire.APIVersionRange{Key: apiVersions, Min: -3, Max: -2}), asked: []int{3, 0}, dials: 1, version: 6},
		"resets on v3":                  {handler: onVersions(1, kafkatest.Reset), asked: []int{3, 0}, dials: 2, version: 6},
		"closes on v3":                  {handler: onVersions(1, kafkatest.Hangup), asked: []int{3, 0}, dials: 2, version: 6},
		"silent on v3":                  {handler: onVersions(1, kafkatest.Silent), asked: []int{3, 0}, dials: 2, version: 6, takes: 5 * time.Second},
		"0.8.2 closes":                  {release: "0.8.2.2", asked: []int{3, 0}, dials: 3, version: 0},
		"0.9 is silent":                 {release: "0.9.0.1", asked: []int{3, 0}, dials: 3, version: 0, takes: 7100 * time.Millisecond},
		"resets on all":                 {release: "0.8.2.2", handler: kafkatest.Reset, asked: []int{3, 0}, dials: 3, version: 0},
		"answer in single bytes":        {handler: kafkatest.InPieces(1, kafkatest.Default), asked: []int{3}, dials: 1, version: 6},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Release: test.release})
				if test.handler != nil {
					stub.On(apiVersions, test.handler)
				}
				c := newCluster(t, network, kafkatest.Addrs(stub), withoutDiscovery, func(cfg *Config) {
					cfg.AcquireTimeout = time.Minute
					if test.highest != 0 {
						cfg.MaxAPIVersions = test.highest
					}
				})
				begin := time.Now()
				lease := acquire(t, c)
				defer lease.Release()
				require.LessOrEqual(t, time.Since(begin), test.takes)
				require.EqualValues(t, test.version, lease.FindCoordinatorVersion())
				require.Equal(t, test.asked, asked(stub))
				require.Equal(t, test.dials, network.Dials(stub.Addr()))

				_, err := lookup(t.Context(), lease, "group")
				require.NoError(t, err)

				// A second connection pays nothing: it asks at once what was answered.
				second := acquire(t, c)
				defer second.Release()
				require.LessOrEqual(t, time.Since(begin), test.takes)
				require.Equal(t, test.dials+1, network.Dials(stub.Addr()))
				require.Equal(t, lease.FindCoordinatorVersion(), second.FindCoordinatorVersion())
				if test.release != "0.8.2.2" && test.release != "0.9.0.1" {
					require.Equal(t, test.asked[len(test.asked)-1], asked(stub)[len(asked(stub))-1])
					require.Len(t, asked(stub), len(test.asked)+1)
				} else {
					require.Len(t, asked(stub), len(test.asked))
				}
			})
		})
	}
}

func TestNegotiationFails(t *testing.T) {
	tlsAlert := kafkatest.Raw([]byte{0x15, 3, 3, 0, 2, 2, 50})
	for name, test := range map[string]struct {
		handler kafkatest.Handler // of ApiVersions
		prepare func(*kafkatest.Stub)
		kind    ErrorKind
		parts   []string
		dials   int
	}{
		"no FindCoordinator": {prepare: func(s *kafkatest.Stub) { s.RemoveAPI(findCoordinator) }, kind: Unsupported, dials: 1,
			parts: []string{"offers no FindCoordinator", "KRaft controller"}},
		"no common version": {prepare: func(s *kafkatest.Stub) { s.SetAPI(findCoordinator, kafkawire.VersionRange{Min: 7, Max: 9}) },
			kind: Unsupported, dials: 1, parts: []string{"7", "9", "0", "6"}},
		"TLS alert": {handler: tlsAlert, kind: NotKafka, dials: 1, parts: []string{"TLS alert (decode_error)"}},
		"HTTP": {handler: kafkatest.Raw([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")), kind: NotKafka, dials: 1,
			parts: []string{"HTTP", "400 Bad Request"}},
		"SSH":            {handler: kafkatest.Raw([]byte("SSH-2.0-OpenSSH_9.6\r\n")), kind: NotKafka, dials: 1, parts: []string{"SSH-2.0-OpenSSH_9.6"}},
		"frame too long": {handler: kafkatest.Raw([]byte{0, 16, 0, 1, 0, 0}), kind: NotKafka, dials: 1, parts: []string{"1048577 bytes", "1048576"}},
		"negative frame": {handler: kafkatest.Raw([]byte{0xff, 0xff, 0xff, 0xff}), kind: NotKafka, dials: 1, parts: []string{"-1 bytes"}},
		"empty frame":    {handler: kafkatest.Raw([]byte{0, 0, 0, 0}), kind: NotKafka, dials: 1, parts: []string{"0 bytes"}},
		"nonsense":       {handler: kafkatest.Raw([]byte{0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 9, 9}), kind: NotKafka, dials: 1, parts: []string{"ApiVersions v3"}},
		"wrong correlation id": {handler: func(r *kafkatest.Request) { r.ReplyAs(77, r.Version, r.DefaultAnswer()) }, kind: NotKafka, dials: 1,
			parts: []string{"correlation id 77"}},
		"correlation id 0": {handler: func(r *kafkatest.Request) { r.ReplyAs(0, r.Version, r.DefaultAnswer()) }, kind: NotKafka, dials: 1},
		"35 to v0":         {handler: refuse35(-1), kind: Unsupported, dials: 1, parts: []string{"UNSUPPORTED_VERSION"}},
		"another code": {handler: func(r *kafkatest.Request) {
			r.Reply(&kafkawire.APIVersionsResponse{ErrorCode: kafkawire.ErrInvalidRequest})
		}, kind: InvalidAnswer, dials: 1, parts: []string{"INVALID_REQUEST (42)"}},
		"closes whatever is asked": {handler: kafkatest.Hangup, prepare: func(s *kafkatest.Stub) { s.On(metadata, kafkatest.Hangup) },
			kind: Unreachable, dials: 3, parts: []string{"ApiVersions v3", "ApiVersions v0", "Metadata v0", "load balancer"}},
		"never answers": {handler: kafkatest.Silent, prepare: func(s *kafkatest.Stub) { s.On(metadata, kafkatest.Silent) },
			kind: Timeout, dials: 3, parts: []string{"ApiVersions v3: no answer within 5s", "Metadata v0"}},
		"part of an answer": {handler: kafkatest.Raw([]byte{0, 0, 0, 9, 0, 0}), kind: Timeout, dials: 1, parts: []string{"6 bytes of it came"}},
		"close inside an answer": {handler: func(r *kafkatest.Request) { r.Conn.Write([]byte{0, 0, 0, 9}); r.Conn.Close() }, kind: Unreachable, dials: 1,
			parts: []string{"4 bytes of it came"}},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
				if test.prepare != nil {
					test.prepare(stub)
				}
				if test.handler != nil {
					stub.On(apiVersions, test.handler)
				}
				c := newCluster(t, network, kafkatest.Addrs(stub), func(cfg *Config) { cfg.AcquireTimeout = time.Minute })
				_, err := c.Acquire(t.Context(), 0)
				requireKind(t, err, test.kind, append(test.parts, stub.Addr())...)
				require.Equal(t, test.dials, network.Dials(stub.Addr()))
				require.Zero(t, stub.Count(findCoordinator), "nothing may be sent to such a peer")
			})
		})
	}
}

func TestUnsupportedNamesBothRanges(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		stub.SetAPI(findCoordinator, kafkawire.VersionRange{Min: 7, Max: 9})
		c := newCluster(t, network, kafkatest.Addrs(stub))
		_, err := c.Acquire(t.Context(), 0)
		e := requireKind(t, err, Unsupported)
		require.Equal(t, kafkawire.VersionRange{Min: 7, Max: 9}, e.Have)
		require.Equal(t, kafkawire.Supported(findCoordinator), e.Want)
		require.ErrorIs(t, err, kafkawire.ErrNoCommonVersion)
	})
}

// A refused dial says nothing about versions: there is no second one.
func TestRefusedDialIsOneDial(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		c := newCluster(t, network, []string{"nobody:9092"})
		_, err := c.Acquire(t.Context(), 0)
		requireKind(t, err, Unreachable, "nobody:9092", "dial", "refused")
		require.Equal(t, 1, network.Dials("nobody:9092"))
	})
}

func TestSwallowedDialIsBounded(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		network.SetSilent("nobody:9092", true)
		c := newCluster(t, network, []string{"nobody:9092"}, func(cfg *Config) { cfg.AcquireTimeout = time.Minute })
		begin := time.Now()
		_, err := c.Acquire(t.Context(), 0)
		requireKind(t, err, Unreachable, "nobody:9092")
		require.Equal(t, 5*time.Second, time.Since(begin))
		require.Equal(t, 1, network.Dials("nobody:9092"))
	})
}

// A broker that is paused while it is dialled must not be taken for one of 2015.
func TestSilenceOfABusyBrokerDoesNotBrandIt(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		gate := kafkatest.NewGate()
		stub.On(apiVersions, gate.Hold(kafkatest.Default))
		stub.On(metadata, gate.Hold(kafkatest.Default))
		c := newCluster(t, network, kafkatest.Addrs(stub), func(cfg *Config) { cfg.AcquireTimeout = time.Minute })
		time.AfterFunc(8*time.Second, gate.Open) // both versions of ApiVersions have met silence by now

		_, err := c.Acquire(t.Context(), 0)
		requireKind(t, err, Timeout, "slow")
		time.Sleep(time.Second)
		lease := acquire(t, c)
		defer lease.Release()
		require.EqualValues(t, 6, lease.FindCoordinatorVersion())
	})
}

func TestLearnedIsDoubtedAfterTenMinutes(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Release: "0.8.2.2"})
		c := newCluster(t, network, kafkatest.Addrs(stub), withoutDiscovery)
		acquire(t, c).Release()
		require.Equal(t, []int{3, 0}, asked(stub))

		apis, err := kafkatest.ReleaseAPIs("4.4.0") // upgraded, without the pool noticing
		require.NoError(t, err)
		for key, versions := range apis {
			stub.SetAPI(key, versions)
		}
		time.Sleep(9 * time.Minute) // the first connection has idled out
		lease := acquire(t, c)
		require.EqualValues(t, 0, lease.FindCoordinatorVersion())
		lease.Release()
		require.Equal(t, []int{3, 0}, asked(stub))

		time.Sleep(5 * time.Minute)
		lease = acquire(t, c)
		require.EqualValues(t, 6, lease.FindCoordinatorVersion())
		lease.Release()
		require.Equal(t, []int{3, 0, 3}, asked(stub))
	})
}

// A broker that closes on what it should know may have been replaced.
func TestLearnedIsForgottenWhenTheBrokerCloses(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Release: "0.8.2.2"})
		c := newCluster(t, network, kafkatest.Addrs(stub), withoutDiscovery)
		acquire(t, c).Release()
		stub.On(findCoordinator, kafkatest.First(1, kafkatest.Hangup))
		_, err := use(t.Context(), c, "group")
		requireKind(t, err, Unreachable)
		acquire(t, c).Release()
		require.Equal(t, []int{3, 0, 3, 0}, asked(stub))
	})
}

// What is known of an endpoint keeps a restart from costing three dials.
func TestKnownBrokerThatClosesIsOneDial(t *testing.T) {
	simulated(t, func(t *testing.T, network *kafkatest.Network) {
		stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network})
		c := newCluster(t, network, kafkatest.Addrs(stub), withoutDiscovery)
		acquire(t, c).Release()
		stub.Disconnect()
		time.Sleep(2 * time.Second) // past which the end of the stream is seen
		stub.On(apiVersions, kafkatest.Silent)
		_, err := c.Acquire(t.Context(), 0)
		requireKind(t, err, Unreachable, "still connecting")
		time.Sleep(10 * time.Second)
		require.Equal(t, 2, network.Dials(stub.Addr()))
	})
}

// Closes and silence where ApiVersions was answered before are those of a broker that
// restarts, or of a proxy: taken for a broker without ApiVersions it would be asked
// for groups alone, for ten minutes.
func TestBrokerThatAnsweredIsNotTakenForOld(t *testing.T) {
	for name, trouble := range map[string]kafkatest.Handler{"closes": kafkatest.Hangup, "resets": kafkatest.Reset, "silence": kafkatest.Silent} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, network *kafkatest.Network) {
				stub := kafkatest.NewStub(t, kafkatest.StubConfig{Network: network, Release: "4.4.0"})
				c := newCluster(t, network, kafkatest.Addrs(stub))
				c.Start()
				synctest.Wait()
				stub.On(apiVersions, trouble)
				stub.Disconnect()
				time.Sleep(time.Minute)
				stub.On(apiVersions, nil)
				time.Sleep(20 * time.Second)
				lease, err := c.Acquire(t.Context(), 6)
				require.NoError(t, err)
				lease.Release()
			})
		})
	}
}
