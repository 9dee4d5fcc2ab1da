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

// Decoding a batch allocates at most 8 times, whatever the number of rows.
func TestDecodingAllocatesLittle(t *testing.T) {
	for v := firstBatched; v <= Supported(APIKeyFindCoordinator).Max; v++ {
		for _, rows := range []int{0, 1, 50, 10_000, 100_000} {
			body := batchAnswer(t, rows, v)
			allocs := testing.AllocsPerRun(5, func() {
				var answer FindCoordinatorResponse
				if err := answer.Decode(body, v); err != nil || len(answer.Coordinators) != rows {
					t.Fatal(err)
				}
			})
			require.LessOrEqual(t, allocs, 8.0, "v%d, %d rows", v, rows)
		}
	}
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
		answer.Coordinators = append(answer.Coordinators, Coordinator{Key: key, NodeID: node, Host: fmt.Sprintf("kafka-%d.kafka.svc.cluster.local", node), Port: 9092})
	}
	body, err := answer.Encode(nil, v)
	require.NoError(t, err)
	return body
}

// Compare the two of each pair: go test -bench . -run '^$' ./kafkawire
//
// "reused" decodes into the same message again and again, as a connection can;
// "fresh" into a new one each time, which measures the memory allocator more than
// the decoders: both need 640 KB and more for 10,000 rows.

func BenchmarkDecodeFindCoordinator(b *testing.B) {
	for _, rows := range []int{1, 500, 10_000} {
		body := batchAnswer(b, rows, 6)
		for _, memory := range []string{"reused", "fresh"} {
			fresh := memory == "fresh"
			b.Run(fmt.Sprintf("rows=%d/%s/kafkawire", rows, memory), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				answer := new(FindCoordinatorResponse)
				for b.Loop() {
					if fresh {
						answer = new(FindCoordinatorResponse)
					}
					if err := answer.Decode(body, 6); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("rows=%d/%s/kmsg", rows, memory), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				answer := kmsg.NewPtrFindCoordinatorResponse()
				for b.Loop() {
					if fresh {
						answer = kmsg.NewPtrFindCoordinatorResponse()
					}
					answer.Version = 6
					if err := answer.ReadFrom(body); err != nil {
						b.Fatal(err)
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
