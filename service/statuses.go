package service

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
)

// Domain is the domain of every ErrorInfo that coordsvc gives.
const Domain = "coordsvc"

// retryAfter is what callers are told to wait before they repeat a call that
// failed for a retriable reason.
const retryAfter = time.Second

// maxViolations is how many bad keys a status names.
const maxViolations = 50

// violations gathers what is wrong with a request.
type violations struct {
	named []*errdetails.BadRequest_FieldViolation
	count int
}

func (v *violations) add(field, description string) {
	v.count++
	if len(v.named) < maxViolations {
		v.named = append(v.named, &errdetails.BadRequest_FieldViolation{Field: field, Description: description})
	}
}

// status returns INVALID_ARGUMENT with the violations, or nil if there are none.
func (v *violations) status() error {
	if v.count == 0 {
		return nil
	}
	message := v.named[0].Field + ": " + v.named[0].Description
	if v.count > 1 {
		message += fmt.Sprintf(" (and %d more)", v.count-1)
	}
	info := &errdetails.ErrorInfo{Reason: "INVALID_ARGUMENT", Domain: Domain,
		Metadata: map[string]string{"violations": strconv.Itoa(v.count)}}
	return newStatus(codes.InvalidArgument, message, info, &errdetails.BadRequest{FieldViolations: v.named})
}

// keyFailure is the status of a GetCoordinator whose key has no coordinator.
func keyFailure(t kafkawire.KeyType, r *Result) error {
	return errorStatus(r.Err, r.Err.Message(t, r.Key, r.AnsweredBy), map[string]string{"answered_by": r.AnsweredBy})
}

// wholeFailure returns the status of a FindCoordinators none of whose keys a broker
// said anything about, and nil for all others.
func wholeFailure(results []Result) error {
	worst := results[0].Err
	for i := range results {
		e := results[i].Err
		if e == nil || results[i].AnsweredBy != "" || !wholeReasons[e.Reason] {
			return nil
		}
		// What kept brokers from being asked tells more than that time ran out.
		if worst.Reason == ReasonDeadlineExceeded {
			worst = e
		}
	}
	return statusOf(worst)
}

// wholeReasons are the reasons that fail a call of many keys if all have one of them.
var wholeReasons = map[Reason]bool{
	ReasonBrokerUnreachable: true, ReasonTLSFailed: true, ReasonSASLFailed: true, ReasonNotAKafkaBroker: true,
	ReasonDeadlineExceeded: true, ReasonOverloaded: true, ReasonShuttingDown: true, ReasonInternal: true,
}

// statusOf is the status of a failure that concerns no single key.
func statusOf(e *LookupError) error { return errorStatus(e, wholeMessage(e), nil) }

func wholeMessage(e *LookupError) string {
	message := e.Happened
	if e.Detail != "" {
		message += ": " + e.Detail
	}
	return message + "; " + e.Do
}

// tooManyWaiting is the status of a call that met FinderConfig.MaxWaitingKeys.
func tooManyWaiting(most int) error {
	const setting = "limits.max-waiting-keys"
	e := failure(ReasonOverloaded, fmt.Sprintf("more than %d keys would wait (setting %s)", most, setting))
	return errorStatus(e, wholeMessage(e), map[string]string{"setting": setting, "limit": strconv.Itoa(most)})
}

// errorStatus has those of the metadata that are not empty.
func errorStatus(e *LookupError, message string, more map[string]string) error {
	metadata := map[string]string{"retriable": strconv.FormatBool(e.Retriable)}
	if e.Kafka {
		metadata["kafka_code"] = strconv.Itoa(int(e.Code))
	}
	for name, value := range more {
		if value != "" {
			metadata[name] = value
		}
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: string(e.Reason), Domain: Domain, Metadata: metadata}}
	if e.Retriable && (e.GRPC == codes.Unavailable || e.GRPC == codes.ResourceExhausted) {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)})
	}
	return newStatus(e.GRPC, message, details...)
}

func cancelled(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return statusOf(failure(ReasonDeadlineExceeded, ""))
	}
	return newStatus(codes.Canceled, "the caller left before the answer", &errdetails.ErrorInfo{Reason: "CANCELLED", Domain: Domain})
}

func newStatus(code codes.Code, message string, details ...protoadapt.MessageV1) error {
	s, err := status.New(code, message).WithDetails(details...)
	if err != nil { // only for code OK or a detail that cannot be marshalled
		panic("service: " + err.Error())
	}
	return s.Err()
}

// contractOf translates the pool's errors.
func contractOf(e *pool.Error) Contract {
	if e.Kind != pool.Unsupported {
		return ContractOfReason(reasonOf(e.Kind))
	}
	ours := kafkawire.Supported(kafkawire.APIKeyFindCoordinator)
	if _, err := kafkawire.Negotiate(ours, e.Have); err != nil {
		return noVersion()
	}
	return ContractOfReason(ReasonUnsupportedKeyType) // there is a version, but not for this type
}

// noVersion is the row of UNSUPPORTED_VERSION where no broker has answered that code.
func noVersion() Contract {
	c := ContractOfCode(kafkawire.ErrUnsupportedVersion)
	c.Kafka, c.Code = false, kafkawire.ErrNone
	c.Do = "check the host and the port in kafka.brokers: they must be a broker's"
	return c
}

// reasonOf translates the kinds of the pool's errors.
func reasonOf(k pool.ErrorKind) Reason {
	switch k {
	case pool.TLSFailed:
		return ReasonTLSFailed
	case pool.SASLFailed:
		return ReasonSASLFailed
	case pool.NotKafka:
		return ReasonNotAKafkaBroker
	case pool.Timeout:
		return ReasonDeadlineExceeded
	case pool.Unsupported:
		return noVersion().Reason
	case pool.Exhausted:
		return ReasonOverloaded
	case pool.InvalidAnswer:
		return ReasonInvalidAnswer
	case pool.Closed:
		return ReasonShuttingDown
	default:
		return ReasonBrokerUnreachable
	}
}
