package service

import (
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// A Reason says why a key has no coordinator. It is what programs are written
// against, so a reason never changes its meaning: Kafka's own name of an error
// code, KAFKA_<code> for a code that is not known here, or one of the reasons below.
type Reason string

// The reasons that are coordsvc's own, beside Kafka's names.
const (
	ReasonUnsupportedKeyType Reason = "UNSUPPORTED_KEY_TYPE"
	ReasonInvalidAnswer      Reason = "INVALID_ANSWER"
	ReasonNotInAnswer        Reason = "NOT_IN_ANSWER"
	ReasonBrokerUnreachable  Reason = "BROKER_UNREACHABLE"
	ReasonTLSFailed          Reason = "TLS_FAILED"
	ReasonSASLFailed         Reason = "SASL_AUTHENTICATION_FAILED"
	ReasonNotAKafkaBroker    Reason = "NOT_A_KAFKA_BROKER"
	ReasonDeadlineExceeded   Reason = "DEADLINE_EXCEEDED"
	ReasonOverloaded         Reason = "OVERLOADED"
	ReasonShuttingDown       Reason = "SHUTTING_DOWN"
	ReasonInternal           Reason = "INTERNAL"
)

// Contract is one row of the error contract: what a reason means on every side.
type Contract struct {
	Reason Reason
	// Code is the Kafka error code that the row stands for, if Kafka is true.
	Kafka bool
	Code  kafkawire.ErrorCode
	// Retriable says that the same question may succeed later without anybody
	// changing anything. The Finder itself asks again where it is set.
	Retriable bool
	// GRPC is the status code of a GetCoordinator that fails with the reason,
	// HTTP the status of its REST form.
	GRPC codes.Code
	HTTP int
	// Happened and Do are sentences for a person: what it means, what to do.
	Happened string
	Do       string
}

// own are the rows for reasons that no Kafka code stands behind.
var own = []Contract{
	{Reason: ReasonUnsupportedKeyType, GRPC: codes.Unimplemented, HTTP: http.StatusNotImplemented,
		Happened: "the brokers' versions of FindCoordinator cannot carry this key type",
		Do:       "TRANSACTION needs Kafka 0.11 or later, SHARE needs 4.1 or later (a share group is key type GROUP)"},
	{Reason: ReasonInvalidAnswer, Retriable: true, GRPC: codes.Unavailable, HTTP: http.StatusServiceUnavailable,
		Happened: "the broker's answer cannot be used",
		Do:       "retry; if it stays, look at the broker, or at the proxy in front of it"},
	{Reason: ReasonNotInAnswer, Retriable: true, GRPC: codes.Unavailable, HTTP: http.StatusServiceUnavailable,
		Happened: "the broker's answer left the key out",
		Do:       "retry; if it stays, look at the broker, or at the proxy in front of it"},
	{Reason: ReasonBrokerUnreachable, Retriable: true, GRPC: codes.Unavailable, HTTP: http.StatusServiceUnavailable,
		Happened: "no connection to a broker",
		Do:       "check that the brokers run, kafka.brokers, the names' DNS entries and the network between"},
	{Reason: ReasonTLSFailed, GRPC: codes.Unavailable, HTTP: http.StatusServiceUnavailable,
		Happened: "TLS with the broker failed",
		Do:       "check kafka.tls.* against the broker's listener: a TLS listener needs kafka.tls.enabled, a plaintext one must not have it"},
	{Reason: ReasonSASLFailed, GRPC: codes.Unavailable, HTTP: http.StatusServiceUnavailable,
		Happened: "the broker refused the SASL authentication",
		Do:       "check kafka.sasl.* against the users and mechanisms of the broker's listener"},
	{Reason: ReasonNotAKafkaBroker, GRPC: codes.Unavailable, HTTP: http.StatusServiceUnavailable,
		Happened: "what answers there is no Kafka broker",
		Do:       "check the host and the port in kafka.brokers; a TLS listener needs kafka.tls.enabled"},
	{Reason: ReasonDeadlineExceeded, Retriable: true, GRPC: codes.DeadlineExceeded, HTTP: http.StatusGatewayTimeout,
		Happened: "the time to wait ended before a broker said anything about the key",
		Do:       "retry with a longer timeout; if it stays, look at the brokers' load and at ListBrokers (/v1/brokers, coordsvc brokers)"},
	{Reason: ReasonOverloaded, Retriable: true, GRPC: codes.ResourceExhausted, HTTP: http.StatusTooManyRequests,
		Happened: "too many keys or callers wait for the brokers already",
		Do:       "retry later; if it stays, add instances or raise pool.max-connections-per-broker"},
	{Reason: ReasonShuttingDown, Retriable: true, GRPC: codes.Unavailable, HTTP: http.StatusServiceUnavailable,
		Happened: "this instance is stopping",
		Do:       "ask another instance"},
	{Reason: ReasonInternal, GRPC: codes.Internal, HTTP: http.StatusInternalServerError,
		Happened: "a defect in coordsvc",
		Do:       "report it with the log lines of this moment"},
}

// kafkaRows are the Kafka codes that have a row of their own. Every other code
// takes its name and retriability from Kafka's table, and UNKNOWN / 500.
var kafkaRows = []Contract{
	{Code: kafkawire.ErrCoordinatorLoadInProgress, GRPC: codes.Unavailable, HTTP: http.StatusServiceUnavailable,
		Happened: "the coordinator is still loading its partition",
		Do:       "retry"},
	{Code: kafkawire.ErrCoordinatorNotAvailable, GRPC: codes.Unavailable, HTTP: http.StatusServiceUnavailable,
		Happened: "there is no coordinator now: %[1]s was only just asked to be created, or cannot be created, or its partition for the key has no leader, or the leader has not this listener, or the broker is only starting",
		Do:       "retry; if it stays, look at the partitions of %[1]s, at its replication factor against the number of live brokers, and at the leaders' listeners"},
	{Code: kafkawire.ErrGroupAuthorizationFailed, GRPC: codes.PermissionDenied, HTTP: http.StatusForbidden,
		Happened: "Kafka does not let coordsvc see the group",
		Do:       "grant coordsvc's principal DESCRIBE on GROUP %[2]s"},
	{Code: kafkawire.ErrTransactionalIDAuthorizationFailed, GRPC: codes.PermissionDenied, HTTP: http.StatusForbidden,
		Happened: "Kafka does not let coordsvc see the transactional id",
		Do:       "grant coordsvc's principal DESCRIBE on TRANSACTIONAL_ID %[2]s"},
	{Code: kafkawire.ErrClusterAuthorizationFailed, GRPC: codes.PermissionDenied, HTTP: http.StatusForbidden,
		Happened: "Kafka does not let coordsvc ask for share partitions",
		Do:       "grant coordsvc's principal CLUSTER_ACTION on CLUSTER"},
	{Code: kafkawire.ErrInvalidGroupID, GRPC: codes.InvalidArgument, HTTP: http.StatusBadRequest,
		Happened: "the broker refuses the group id",
		Do:       "correct the key"},
	{Code: kafkawire.ErrInvalidRequest, GRPC: codes.InvalidArgument, HTTP: http.StatusBadRequest,
		Happened: "the broker refuses the key",
		Do:       "correct it; a share partition is groupId:topicId:partition (no colon in the group id before Kafka 4.3), a share group is key type GROUP; brokers where share groups are off (Kafka 4.0) refuse every share partition"},
	{Code: kafkawire.ErrUnsupportedVersion, GRPC: codes.Unimplemented, HTTP: http.StatusNotImplemented,
		Happened: "the broker does not support this lookup",
		Do:       "ask a newer Kafka; brokers of other makers may lack this key type"},
}

var (
	byReason = map[Reason]Contract{}
	byCode   = map[kafkawire.ErrorCode]Contract{}
)

func init() {
	for _, c := range own {
		byReason[c.Reason] = c
	}
	for _, c := range kafkaRows {
		c.Kafka = true
		c.Reason = Reason(c.Code.Name())
		c.Retriable = c.Code.Retriable()
		byCode[c.Code] = c
	}
}

// Contracts returns the rows of the error contract that have a meaning of their
// own: Kafka's codes first, then coordsvc's reasons.
func Contracts() []Contract {
	rows := make([]Contract, 0, len(kafkaRows)+len(own))
	for _, row := range kafkaRows {
		rows = append(rows, byCode[row.Code])
	}
	return append(rows, own...)
}

// ContractOfReason returns the row of one of coordsvc's own reasons.
func ContractOfReason(r Reason) Contract {
	c, ok := byReason[r]
	if !ok {
		panic(fmt.Sprintf("service: reason %q has no row in the error contract", r))
	}
	return c
}

// ContractOfCode returns the row of a Kafka error code, of any number.
func ContractOfCode(code kafkawire.ErrorCode) Contract {
	if c, ok := byCode[code]; ok {
		return c
	}
	return Contract{
		Reason: Reason(code.Name()), Kafka: true, Code: code, Retriable: code.Retriable(),
		GRPC: codes.Unknown, HTTP: http.StatusInternalServerError,
		Happened: "the broker answered error " + fmt.Sprint(int16(code)) + meaning(code),
		Do:       "see what the broker's log says of it",
	}
}

func meaning(code kafkawire.ErrorCode) string {
	if m := code.Meaning(); m != "" {
		return ": " + m
	}
	return ", which is not known here"
}
