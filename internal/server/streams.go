package server

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
)

// streamsPerConnection bounds the streams, of health and reflection, that a connection
// has open. A client needs one or two; each takes memory for as long as it stays, and
// health is open to strangers.
const streamsPerConnection = 16

// openStreams counts the streams of each connection, by the client's address.
type openStreams struct {
	mu sync.Mutex
	of map[string]int
}

// enter lets a stream in. leave must be called when it ends; nil where there is an error.
func (o *openStreams) enter(ctx context.Context) (leave func(), err error) {
	client := ""
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		client = p.Addr.String()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of[client] >= streamsPerConnection {
		return nil, newStatus(codes.ResourceExhausted, "TOO_MANY_STREAMS", fmt.Sprintf(
			"this connection has %d streams of health or reflection open, which is the most: end one first", streamsPerConnection)).Err()
	}
	o.of[client]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.of[client]--; o.of[client] == 0 {
			delete(o.of, client)
		}
	}, nil
}
