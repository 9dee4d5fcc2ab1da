package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
)

// Limits bound what one call may ask for.
type Limits struct {
	// MaxKeys is how many keys a call may have. Default 10,000.
	MaxKeys int
	// DefaultTimeout is how long a call waits for answers if it does not say,
	// MaxTimeout the longest it may say. Defaults 5s, 30s.
	DefaultTimeout time.Duration
	MaxTimeout     time.Duration
}

// CoordinatorService implements the RPCs: it checks requests, asks the Finder,
// and translates what comes back.
type CoordinatorService struct {
	coordsvcv1.UnimplementedCoordinatorServiceServer

	finder  *Finder
	cluster *pool.Cluster
	limits  Limits
}

// NewCoordinatorService makes the service over a finder and its cluster, both of
// which stay the caller's.
func NewCoordinatorService(finder *Finder, cluster *pool.Cluster, limits Limits) *CoordinatorService {
	limits.MaxKeys = cmp.Or(limits.MaxKeys, 10_000)
	limits.DefaultTimeout = cmp.Or(limits.DefaultTimeout, 5*time.Second)
	limits.MaxTimeout = cmp.Or(limits.MaxTimeout, 30*time.Second)
	return &CoordinatorService{finder: finder, cluster: cluster, limits: limits}
}

// FindCoordinators implements the RPC of that name.
func (s *CoordinatorService) FindCoordinators(ctx context.Context, req *coordsvcv1.FindCoordinatorsRequest) (*coordsvcv1.FindCoordinatorsResponse, error) {
	keyType, err := s.check(req.GetKeyType(), req.GetTimeout(), "keys", req.GetKeys())
	if err != nil {
		return nil, err
	}
	results, err := s.find(ctx, keyType, req.GetKeys(), req.GetTimeout())
	if err != nil {
		return nil, err
	}
	if err := wholeFailure(results); err != nil {
		return nil, err
	}
	return toProto(keyType, results), nil
}

// GetCoordinator implements the RPC of that name.
func (s *CoordinatorService) GetCoordinator(ctx context.Context, req *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
	keyType, err := s.check(req.GetKeyType(), req.GetTimeout(), "key", []string{req.GetKey()})
	if err != nil {
		return nil, err
	}
	results, err := s.find(ctx, keyType, []string{req.GetKey()}, req.GetTimeout())
	if err != nil {
		return nil, err
	}
	if results[0].Err != nil {
		return nil, keyFailure(keyType, &results[0])
	}
	row := &coordsvcv1.CoordinatorResult{}
	translate(row, &explainer{keyType: keyType}, &results[0], coordinators{})
	return &coordsvcv1.GetCoordinatorResponse{Result: row}, nil
}

// ListBrokers implements the RPC of that name.
func (s *CoordinatorService) ListBrokers(context.Context, *coordsvcv1.ListBrokersRequest) (*coordsvcv1.ListBrokersResponse, error) {
	known := s.cluster.Brokers()
	slices.SortFunc(known, func(a, b pool.BrokerStatus) int {
		return cmp.Or(cmp.Compare(a.NodeID, b.NodeID), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
	resp := &coordsvcv1.ListBrokersResponse{Brokers: make([]*coordsvcv1.Broker, len(known))}
	for i := range known {
		resp.Brokers[i] = brokerToProto(&known[i])
	}
	return resp, nil
}

// check refuses what no broker should be asked. The status names each bad field.
func (s *CoordinatorService) check(t coordsvcv1.KeyType, timeout *durationpb.Duration, field string, keys []string) (kafkawire.KeyType, error) {
	var bad violations
	keyType, ok := keyTypes[t]
	if !ok {
		bad.add("key_type", fmt.Sprintf("%d is no key type; want GROUP, TRANSACTION or SHARE", t))
	}
	if timeout != nil {
		if err := timeout.CheckValid(); err != nil {
			bad.add("timeout", "is no valid duration: "+err.Error())
		} else if timeout.AsDuration() <= 0 {
			bad.add("timeout", fmt.Sprintf("is %v; it must be greater than zero", timeout.AsDuration()))
		}
	}
	switch {
	case len(keys) == 0:
		bad.add(field, "has no key; name at least one")
	case len(keys) > s.limits.MaxKeys:
		bad.add(field, fmt.Sprintf("has %d keys; at most %d a call (lookup.max-keys): ask in several calls", len(keys), s.limits.MaxKeys))
	case ok:
		for i, key := range keys {
			if err := CheckKey(keyType, key); err != nil {
				name := field
				if field == "keys" {
					name = fmt.Sprintf("keys[%d]", i)
				}
				bad.add(name, err.Error())
			}
		}
	}
	return keyType, bad.status()
}

// find asks the finder within the smallest of the call's deadline, the timeout
// asked for, and the server's maximum.
func (s *CoordinatorService) find(ctx context.Context, t kafkawire.KeyType, keys []string, timeout *durationpb.Duration) ([]Result, error) {
	wait := s.limits.DefaultTimeout
	if timeout != nil {
		wait = timeout.AsDuration()
	} else if _, ok := ctx.Deadline(); ok {
		wait = s.limits.MaxTimeout
	}
	wait = min(wait, s.limits.MaxTimeout)
	if ends, ok := ctx.Deadline(); ok {
		wait = min(wait, inTime(time.Until(ends)))
	}
	results, err := s.finder.Find(timeLimit{ctx, time.Now().Add(wait)}, t, keys)
	switch {
	case errors.Is(err, ErrTooManyWaiting):
		return nil, tooManyWaiting(s.finder.cfg.MaxWaitingKeys)
	case errors.Is(err, ErrFinderClosed):
		return nil, statusOf(failure(ReasonShuttingDown, ""))
	case err != nil: // the caller left
		return nil, cancelled(err)
	}
	return results, nil
}

// inTime is how long to wait where the caller itself gives up after left: what is sent
// only then, the keys that were found with it, would reach nobody.
func inTime(left time.Duration) time.Duration {
	const longestWay = 100 * time.Millisecond // of an answer to its caller
	return left - min(left/10, longestWay)
}

var keyTypes = map[coordsvcv1.KeyType]kafkawire.KeyType{
	coordsvcv1.KeyType_KEY_TYPE_UNSPECIFIED: kafkawire.KeyTypeGroup,
	coordsvcv1.KeyType_GROUP:                kafkawire.KeyTypeGroup,
	coordsvcv1.KeyType_TRANSACTION:          kafkawire.KeyTypeTransaction,
	coordsvcv1.KeyType_SHARE:                kafkawire.KeyTypeShare,
}

// toProto translates results. Long answers are the rule, so the rows are made in one
// allocation, and those of one coordinator share its message: nobody writes to it.
func toProto(t kafkawire.KeyType, results []Result) *coordsvcv1.FindCoordinatorsResponse {
	rows := make([]coordsvcv1.CoordinatorResult, len(results))
	found, words := coordinators{}, explainer{keyType: t}
	resp := &coordsvcv1.FindCoordinatorsResponse{Results: make([]*coordsvcv1.CoordinatorResult, len(results))}
	for i := range results {
		if results[i].Err != nil {
			resp.Failed++
		}
		translate(&rows[i], &words, &results[i], found)
		resp.Results[i] = &rows[i]
	}
	return resp
}

func translate(row *coordsvcv1.CoordinatorResult, words *explainer, r *Result, found coordinators) {
	row.Key, row.ApiVersion, row.AnsweredBy = r.Key, int32(r.APIVersion), r.AnsweredBy
	if r.Err != nil {
		row.Outcome = &coordsvcv1.CoordinatorResult_Error{Error: errorToProto(r, words.message(r))}
	} else {
		row.Outcome = found.of(r.Coordinator)
	}
}

// coordinators are those of an answer, by node.
type coordinators map[int32]*coordsvcv1.CoordinatorResult_Coordinator

func (known coordinators) of(c Coordinator) *coordsvcv1.CoordinatorResult_Coordinator {
	k, ok := known[c.NodeID]
	if ok && k.Coordinator.GetHost() == c.Host && k.Coordinator.GetPort() == c.Port {
		return k
	}
	k = &coordsvcv1.CoordinatorResult_Coordinator{Coordinator: &coordsvcv1.Coordinator{NodeId: c.NodeID, Host: c.Host, Port: c.Port}}
	known[c.NodeID] = k
	return k
}

func errorToProto(r *Result, message string) *coordsvcv1.LookupError {
	return &coordsvcv1.LookupError{
		Reason:    string(r.Err.Reason),
		KafkaCode: int32(r.Err.Code),
		Message:   message,
		Retriable: r.Err.Retriable,
	}
}

func brokerToProto(b *pool.BrokerStatus) *coordsvcv1.Broker {
	p := &coordsvcv1.Broker{
		NodeId: b.NodeID, Host: b.Host, Port: b.Port, Rack: b.Rack, Reachable: b.Reachable, State: stateOf(b),
		FindCoordinatorRange: rangeToProto(b.FindCoordinatorRange), ApiVersionsRange: rangeToProto(b.APIVersions),
		SaslMechanism: b.Mechanism,
		Connections:   &coordsvcv1.BrokerConnections{Open: int32(b.Open), Idle: int32(b.Idle), InUse: int32(b.InUse)},
	}
	if b.FindCoordinator != nil {
		v := int32(*b.FindCoordinator)
		p.FindCoordinatorVersion = &v
	}
	if b.RenewIn != nil {
		p.ReauthenticatesIn = durationpb.New(max(0, *b.RenewIn))
	}
	if b.LastError != nil {
		p.LastError = &coordsvcv1.BrokerError{
			Reason: string(reasonOf(b.LastError.Kind)), Message: b.LastError.Message, Time: timestamppb.New(b.LastError.Time),
		}
	}
	return p
}

func stateOf(b *pool.BrokerStatus) coordsvcv1.BrokerState {
	switch {
	case b.Reachable:
		return coordsvcv1.BrokerState_BROKER_STATE_UP
	case b.Open > 0:
		return coordsvcv1.BrokerState_BROKER_STATE_SUSPECT
	case b.LastError != nil:
		return coordsvcv1.BrokerState_BROKER_STATE_DOWN
	default:
		return coordsvcv1.BrokerState_BROKER_STATE_UNTRIED
	}
}

// rangeToProto gives nil for an API that the broker does not have, or is not known to.
func rangeToProto(r *kafkawire.VersionRange) *coordsvcv1.VersionRange {
	if r == nil || r.Max < r.Min || r.Min < 0 {
		return nil
	}
	return &coordsvcv1.VersionRange{Min: int32(r.Min), Max: int32(r.Max)}
}
