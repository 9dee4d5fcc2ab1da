package service

import (
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
)

func TestContractOfKafkaCodes(t *testing.T) {
	for _, want := range []struct {
		code      kafkawire.ErrorCode
		reason    Reason
		retriable bool
		grpc      codes.Code
		http      int
	}{
		{15, "COORDINATOR_NOT_AVAILABLE", true, codes.Unavailable, 503},
		{14, "COORDINATOR_LOAD_IN_PROGRESS", true, codes.Unavailable, 503},
		{30, "GROUP_AUTHORIZATION_FAILED", false, codes.PermissionDenied, 403},
		{53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", false, codes.PermissionDenied, 403},
		{31, "CLUSTER_AUTHORIZATION_FAILED", false, codes.PermissionDenied, 403},
		{24, "INVALID_GROUP_ID", false, codes.InvalidArgument, 400},
		{42, "INVALID_REQUEST", false, codes.InvalidArgument, 400},
		{35, "UNSUPPORTED_VERSION", false, codes.Unimplemented, 501},
		{34, "ILLEGAL_SASL_STATE", false, codes.Unknown, 500},
		{-1, "UNKNOWN_SERVER_ERROR", false, codes.Unknown, 500},
		{120, "TRANSACTION_ABORTABLE", false, codes.Unknown, 500},
		{7, "REQUEST_TIMED_OUT", true, codes.Unknown, 500},
		{9999, "KAFKA_9999", false, codes.Unknown, 500},
	} {
		c := ContractOfCode(want.code)
		require.Equal(t, want.reason, c.Reason)
		require.Equal(t, want.retriable, c.Retriable, c.Reason)
		require.Equal(t, want.grpc, c.GRPC, c.Reason)
		require.Equal(t, want.http, c.HTTP, c.Reason)
		require.Equal(t, want.code, c.Code)
		require.True(t, c.Kafka)
	}
}

func TestContractOfEveryCode(t *testing.T) {
	for code := math.MinInt16; code <= math.MaxInt16; code++ {
		if code == 0 {
			continue
		}
		c := ContractOfCode(kafkawire.ErrorCode(code))
		if c.Reason == "" || c.GRPC == codes.OK || c.HTTP < 400 || c.Happened == "" || c.Do == "" {
			t.Fatalf("code %d has no whole row: %+v", code, c)
		}
	}
}

func TestContractOfOwnReasons(t *testing.T) {
	want := map[Reason]struct {
		retriable bool
		grpc      codes.Code
		http      int
	}{
		ReasonUnsupportedKeyType: {false, codes.Unimplemented, http.StatusNotImplemented},
		ReasonInvalidAnswer:      {true, codes.Unavailable, http.StatusServiceUnavailable},
		ReasonNotInAnswer:        {true, codes.Unavailable, http.StatusServiceUnavailable},
		ReasonBrokerUnreachable:  {true, codes.Unavailable, http.StatusServiceUnavailable},
		ReasonTLSFailed:          {false, codes.Unavailable, http.StatusServiceUnavailable},
		ReasonSASLFailed:         {false, codes.Unavailable, http.StatusServiceUnavailable},
		ReasonNotAKafkaBroker:    {false, codes.Unavailable, http.StatusServiceUnavailable},
		ReasonDeadlineExceeded:   {true, codes.DeadlineExceeded, http.StatusGatewayTimeout},
		ReasonOverloaded:         {true, codes.ResourceExhausted, http.StatusTooManyRequests},
		ReasonShuttingDown:       {true, codes.Unavailable, http.StatusServiceUnavailable},
		ReasonInternal:           {false, codes.Internal, http.StatusInternalServerError},
	}
	require.Len(t, own, len(want))
	for reason, w := range want {
		c := ContractOfReason(reason)
		require.Equal(t, w.retriable, c.Retriable, reason)
		require.Equal(t, w.grpc, c.GRPC, reason)
		require.Equal(t, w.http, c.HTTP, reason)
		require.NotEmpty(t, c.Happened)
		require.NotEmpty(t, c.Do)
	}
	require.Panics(t, func() { ContractOfReason("NO_SUCH_REASON") })
}

// A KRaft controller, or a proxy, is not mended by a newer Kafka.
func TestContractOfNoCommonVersion(t *testing.T) {
	none := contractOf(&pool.Error{Kind: pool.Unsupported, Have: kafkawire.VersionRange{Min: -1, Max: -1}})
	require.Equal(t, Reason("UNSUPPORTED_VERSION"), none.Reason)
	require.False(t, none.Kafka)
	require.Contains(t, none.Do, "kafka.brokers")
	require.Equal(t, ReasonUnsupportedKeyType, contractOf(&pool.Error{Kind: pool.Unsupported, Have: kafkawire.VersionRange{Min: 0, Max: 3}}).Reason)
}

func TestMessageNamesKeyBrokerAndRemedy(t *testing.T) {
	e := &LookupError{Contract: ContractOfCode(kafkawire.ErrGroupAuthorizationFailed)}
	require.Equal(t, `group "orders": Kafka does not let coordsvc see the group (GROUP_AUTHORIZATION_FAILED from b:9092); `+
		`grant coordsvc's principal DESCRIBE on GROUP "orders"`, e.Message(kafkawire.KeyTypeGroup, "orders", "b:9092"))

	e = &LookupError{Contract: ContractOfCode(kafkawire.ErrCoordinatorNotAvailable)}
	require.Contains(t, e.Message(kafkawire.KeyTypeTransaction, "t", ""), "__transaction_state")
	require.Contains(t, e.Message(kafkawire.KeyTypeShare, "g:t:0", ""), "__share_group_state")

	long := strings.Repeat("ü", 10_000)
	text := e.Message(kafkawire.KeyTypeGroup, long, "")
	require.Less(t, len(text), 1000)
	require.Contains(t, text, "(20000 bytes)")
	require.NotContains(t, text, `\x`, "a cut must not split a character")
}

func TestBrokerTextIsNeverPassedOnBare(t *testing.T) {
	for text, want := range map[string]string{
		"":     "",
		"NONE": "",
		"no!":  `the broker says "no!"`,
	} {
		require.Equal(t, want, brokerText(text))
	}
	require.Less(t, len(brokerText(strings.Repeat("x", 30_000))), 400)
	require.NotContains(t, brokerText("x"+strings.Repeat("é", 1_000)), `\x`, "a cut must not split a character")
}
