package server

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// BenchmarkRESTHandler is one key by REST without the socket.
func BenchmarkRESTHandler(b *testing.B) {
	h := handlerOf(b, &fakeService{})
	b.ReportAllocs()
	for b.Loop() {
		if w, ok := send(b, h, "GET", "/v1/coordinators/GROUP/orders", ""); !ok || w.Code != 200 {
			b.Fatal("not answered")
		}
	}
}

// BenchmarkAnswer writes the answer to 10,000 keys as JSON and, to compare, as protobuf.
func BenchmarkAnswer(b *testing.B) {
	resp := &coordsvcv1.FindCoordinatorsResponse{}
	for i := range 10_000 {
		resp.Results = append(resp.Results, found(fmt.Sprintf("orders-%d", i)))
	}
	for name, marshal := range map[string]func(proto.Message) ([]byte, error){"JSON": MarshalJSON, "protobuf": proto.Marshal} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				text, err := marshal(resp)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(text)))
			}
		})
	}
}
