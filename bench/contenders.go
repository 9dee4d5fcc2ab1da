package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/grpc"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/kafkawire"
)

// The services that coordsvc is compared with, by name: the same gRPC API, written
// as one would write it in an afternoon.
const (
	noopService = "no-op gRPC service"
	kadmService = "kadm service"
	kgoService  = "kgo service"
)

// noopAnswer is what the no-op service says of every key.
var noopAnswer = coordinator{1, "127.0.0.1", 9092}

// requestCount counts FindCoordinator requests.
type requestCount struct{ atomic.Int64 }

var _ kgo.HookBrokerWrite = (*requestCount)(nil)

// OnBrokerWrite implements the hook of kgo.
func (n *requestCount) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == int16(kafkawire.APIKeyFindCoordinator) {
		n.Add(1)
	}
}

// runContender serves until stdin ends. It prints its address, and the number of
// requests whenever it is asked by a line.
func runContender(kind string, bootstrap []string) error {
	count := new(requestCount)
	svc, err := newContender(kind, bootstrap, count)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	g := grpc.NewServer()
	coordsvcv1.RegisterCoordinatorServiceServer(g, svc)
	go g.Serve(l)
	fmt.Println(l.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(count.Load())
	}
	return nil
}

func newContender(kind string, bootstrap []string, count *requestCount) (coordsvcv1.CoordinatorServiceServer, error) {
	if kind == noopService {
		return &plainService{find: findNothing}, nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.WithHooks(count))
	if err != nil {
		return nil, err
	}
	switch kind {
	case kadmService:
		return &plainService{find: kadmFinder(kadm.NewClient(client))}, nil
	case kgoService:
		return &plainService{find: kgoFinder(client)}, nil
	}
	return nil, fmt.Errorf("there is no service %q", kind)
}

// finder finds the coordinators of group ids, in their order.
type finder func(ctx context.Context, keys []string) ([]coordinator, error)

func findNothing(_ context.Context, keys []string) ([]coordinator, error) {
	found := make([]coordinator, len(keys))
	for i := range found {
		found[i] = noopAnswer
	}
	return found, nil
}

func kadmFinder(client *kadm.Client) finder {
	return func(ctx context.Context, keys []string) ([]coordinator, error) {
		resps := client.FindGroupCoordinators(ctx, keys...)
		found := make([]coordinator, len(keys))
		for i, key := range keys {
			r, ok := resps[key]
			switch {
			case !ok:
				return nil, fmt.Errorf("kadm has no answer for %q", key)
			case r.Err != nil:
				return nil, fmt.Errorf("kadm: %q: %w", key, r.Err)
			}
			found[i] = coordinator{r.NodeID, r.Host, r.Port}
		}
		return found, nil
	}
}

func kgoFinder(client *kgo.Client) finder {
	return func(ctx context.Context, keys []string) ([]coordinator, error) {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKeys = keys
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return nil, err
		}
		if len(resp.Coordinators) != len(keys) {
			return nil, fmt.Errorf("kgo: %d answers for %d keys", len(resp.Coordinators), len(keys))
		}
		found := make([]coordinator, len(keys))
		var misplaced map[string]int // the answers of requests that kgo split come in any order
		for i := range resp.Coordinators {
			c := &resp.Coordinators[i]
			if err := kerr.ErrorForCode(c.ErrorCode); err != nil {
				return nil, fmt.Errorf("kgo: %q: %w", c.Key, err)
			}
			at := i
			if c.Key != keys[i] {
				if misplaced == nil {
					misplaced = make(map[string]int, len(keys))
					for j, key := range keys {
						misplaced[key] = j
					}
				}
				at = misplaced[c.Key]
			}
			found[at] = coordinator{c.NodeID, c.Host, c.Port}
		}
		return found, nil
	}
}

// plainService is the API over a finder, with nothing else.
type plainService struct {
	coordsvcv1.UnimplementedCoordinatorServiceServer
	find finder
}

// FindCoordinators implements the RPC of that name.
func (s *plainService) FindCoordinators(ctx context.Context, req *coordsvcv1.FindCoordinatorsRequest) (*coordsvcv1.FindCoordinatorsResponse, error) {
	found, err := s.find(ctx, req.GetKeys())
	if err != nil {
		return nil, err
	}
	resp := &coordsvcv1.FindCoordinatorsResponse{Results: make([]*coordsvcv1.CoordinatorResult, len(found))}
	for i, c := range found {
		resp.Results[i] = toProto(req.GetKeys()[i], c)
	}
	return resp, nil
}

// GetCoordinator implements the RPC of that name.
func (s *plainService) GetCoordinator(ctx context.Context, req *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
	found, err := s.find(ctx, []string{req.GetKey()})
	if err != nil {
		return nil, err
	}
	return &coordsvcv1.GetCoordinatorResponse{Result: toProto(req.GetKey(), found[0])}, nil
}

func toProto(key string, c coordinator) *coordsvcv1.CoordinatorResult {
	return &coordsvcv1.CoordinatorResult{
		Key:     key,
		Outcome: &coordsvcv1.CoordinatorResult_Coordinator{Coordinator: &coordsvcv1.Coordinator{NodeId: c.node, Host: c.host, Port: c.port}},
	}
}
