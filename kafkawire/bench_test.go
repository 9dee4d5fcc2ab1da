package kafkawire

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Encoding into a buffer with room allocates nothing.
func TestEncodingAllocatesNothing(t *testing.T) {
	buffer := make([]byte, 0, 1<<20)
	eachVersion(t, func(t *testing.T, m message, v Version) {
		filled, _ := sample(t, m, v)
		header := RequestHeader{Version: v, CorrelationID: 7, ClientID: "coordsvc"}
		allocs := testing.AllocsPerRun(100, func() {
			if m.response {
				_, _ = AppendResponse(buffer[:0], 7, v, filled)
				return
			}
			_, _ = AppendRequest(buffer[:0], header, filled)
		})
		require.Zero(t, allocs)
	})
	batch := &FindCoordinatorRequest{Keys: manyKeys(500)}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		frame, err := AppendRequest(buffer[:0], RequestHeader{Version: 6, ClientID: "coordsvc"}, batch)
		if err != nil || len(frame) < 500 {
			t.Fatal(err)
		}
	}))
}

// Decoding a batch allocates at most 8 times, whatever the number of rows, and not
// at all where its strings and its room are there already.
func TestDecodingAllocatesLittle(t *testing.T) {
	for v := firstBatched; v <= Supported(APIKeyFindCoordinator).Max; v++ {
		for _, rows := range []int{0, 1, 50, 10_000, 100_000} {
			body, keys := batchAnswer(t, rows, v), manyKeys(rows)
			require.LessOrEqual(t, allocations(t, rows, func() (*FindCoordinatorResponse, error) {
				answer := new(FindCoordinatorResponse)
				return answer, answer.Decode(body, v)
			}), 8.0, "v%d, %d rows", v, rows)
			require.LessOrEqual(t, allocations(t, rows, func() (*FindCoordinatorResponse, error) {
				answer := new(FindCoordinatorResponse)
				return answer, answer.DecodeSharing(body, v, keys, new(Hosts))
			}), 8.0, "v%d, %d rows, everything new", v, rows)
			answer, hosts := new(FindCoordinatorResponse), new(Hosts)
			require.Zero(t, allocations(t, rows, func() (*FindCoordinatorResponse, error) {
				return answer, answer.DecodeSharing(body, v, keys, hosts)
			}), "v%d, %d rows, nothing new", v, rows)
		}
	}
}

// The answer to one key is one row: also below v4 there is nothing to allocate.
func TestDecodingOneAllocatesNothing(t *testing.T) {
	for v := Version(0); v < firstBatched; v++ {
		body, err := (&FindCoordinatorResponse{Coordinators: []Coordinator{{NodeID: 1, Host: "b1", Port: 9092}}}).Encode(nil, v)
		require.NoError(t, err)
		answer, hosts, keys := new(FindCoordinatorResponse), new(Hosts), manyKeys(1)
		require.Zero(t, allocations(t, 1, func() (*FindCoordinatorResponse, error) {
			return answer, answer.DecodeSharing(body, v, keys, hosts)
		}), "v%d", v)
	}
}

// allocations is how often decode, which must find so many rows, allocates when it is not the first time.
func allocations(t *testing.T, rows int, decode func() (*FindCoordinatorResponse, error)) float64 {
	return testing.AllocsPerRun(5, func() {
		if answer, err := decode(); err != nil || len(answer.Coordinators) != rows {
			t.Fatal(len(answer.Coordinators), err)
		}
	})
}

func manyKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("consumer-group-%05d", i)
	}
	return keys
}

// batchAnswer is what a broker answers to as many keys, all found.
func batchAnswer(t testing.TB, rows int, v Version) []byte {
	t.Helper()
	answer := &FindCoordinatorResponse{}
	for i, key := range manyKeys(rows) {
		node := int32(i%3) + 1
		answer.Coordinators = append(answer.Coordinators, Coordinator{Key: key, NodeID: node, Host: hostOf(node), Port: 9092})
	}
	body, err := answer.Encode(nil, v)
	require.NoError(t, err)
	return body
}

func hostOf(node int32) string { return fmt.Sprintf("kafka-%d.kafka.svc.cluster.local", node) }

// Compare within one run: go test -bench . -run '^$' ./kafkawire
//
// "reused" decodes into the same message again and again, as a connection can;
// "fresh" into a new one each time, which measures the memory allocator more than
// the decoders: both need 640 KB and more for 10,000 rows. "shared" is how the
// Finder does it: reused, with the keys that it asked for at hand. "unsafe" are
// messages of kmsg whose strings hold only as long as the frame does.

func BenchmarkDecodeFindCoordinator(b *testing.B) {
	for _, rows := range []int{1, 500, 10_000} {
		body, keys := batchAnswer(b, rows, 6), manyKeys(rows)
		hosts, ours, theirs := new(Hosts), new(FindCoordinatorResponse), kmsg.NewPtrFindCoordinatorResponse()
		theirs.Version = 6
		check := func(b *testing.B, i int, key string, node int32, host string) {
			if want := int32(i%3) + 1; key != keys[i] || node != want || host != hostOf(want) {
				b.Fatalf("wrong answer for %s: node %d at %q", key, node, host)
			}
		}
		for _, way := range []struct {
			name   string
			decode func() error
			kmsg   bool
		}{
			{"shared/kafkawire", func() error { return ours.DecodeSharing(body, 6, keys, hosts) }, false},
			{"reused/kafkawire", func() error { return ours.Decode(body, 6) }, false},
			{"reused/kmsg", func() error { return theirs.ReadFrom(body) }, true},
			{"unsafe/kmsg", func() error { return theirs.UnsafeReadFrom(body) }, true},
			{"fresh/kafkawire", func() error {
				ours = new(FindCoordinatorResponse)
				return ours.DecodeSharing(body, 6, keys, hosts)
			}, false},
			{"fresh/kmsg", func() error {
				theirs = kmsg.NewPtrFindCoordinatorResponse()
				theirs.Version = 6
				return theirs.ReadFrom(body)
			}, true},
		} {
			b.Run(fmt.Sprintf("rows=%d/%s", rows, way.name), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					if err := way.decode(); err != nil {
						b.Fatal(err)
					}
				}
				for i := range keys {
					if way.kmsg {
						row := &theirs.Coordinators[i]
						check(b, i, row.Key, row.NodeID, row.Host)
					} else {
						row := &ours.Coordinators[i]
						check(b, i, row.Key, row.NodeID, row.Host)
					}
				}
			})
		}
	}
}

func BenchmarkEncodeFindCoordinator(b *testing.B) {
	for _, keys := range []int{1, 500} {
		buffer := make([]byte, 0, 1<<20)
		b.Run(fmt.Sprintf("keys=%d/kafkawire", keys), func(b *testing.B) {
			request := &FindCoordinatorRequest{Keys: manyKeys(keys)}
			header := RequestHeader{Version: 6, ClientID: "coordsvc"}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := AppendRequest(buffer[:0], header, request); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("keys=%d/kmsg", keys), func(b *testing.B) {
			request := kmsg.NewPtrFindCoordinatorRequest()
			request.Version, request.CoordinatorKeys = 6, manyKeys(keys)
			formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("coordsvc"))
			b.ReportAllocs()
			for b.Loop() {
				formatter.AppendRequest(buffer[:0], request, 7)
			}
		})
	}
}
