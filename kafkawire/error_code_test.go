package kafkawire

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// The table is that of Apache Kafka 4.4.0, line by line.
func TestErrorCodesAreKafkas(t *testing.T) {
	want, err := os.ReadFile("testdata/error_codes.tsv")
	require.NoError(t, err)
	var got strings.Builder
	for i, row := range errorCodes {
		require.Equal(t, ErrorCode(i-1), row.code, "in order, none left out")
		fmt.Fprintf(&got, "%d\t%s\t%t\n", row.code, row.code.Name(), row.code.Retriable())
	}
	require.Equal(t, string(want), got.String())
}

// A second witness: the table of franz-go. Where the two differ, Apache Kafka 4.4.0
// is right (see TestErrorCodesAreKafkas), and the difference is named here.
func TestErrorCodesAgainstKerr(t *testing.T) {
	type row struct {
		name      string
		retriable bool
	}
	differs := map[ErrorCode]row{
		6:   {"NOT_LEADER_FOR_PARTITION", true}, // the name before Kafka 2.6
		8:   {"BROKER_NOT_AVAILABLE", true},
		51:  {"CONCURRENT_TRANSACTIONS", false},
		122: {"SHARE_SESSION_NOT_FOUND", false},
		123: {"INVALID_SHARE_SESSION_EPOCH", false},
	}
	for code := ErrorCode(-200); code < 500; code++ {
		known := kerr.TypedErrorForCode(int16(code))
		switch {
		case known == nil:
			require.Equal(t, ErrNone, code)
		case known == kerr.UnknownServerError && code != ErrUnknownServerError:
			require.False(t, code.Known(), code)
		default:
			got := row{code.Name(), code.Retriable()}
			theirs := row{known.Message, known.Retriable}
			require.True(t, code.Known(), code)
			if want, ok := differs[code]; ok {
				require.Equal(t, want, theirs, code)
				require.NotEqual(t, theirs, got, code)
				continue
			}
			require.Equal(t, theirs, got, code)
		}
	}
}

func TestErrorCodeConstants(t *testing.T) {
	for code, name := range map[ErrorCode]string{
		ErrUnknownServerError: "UNKNOWN_SERVER_ERROR", ErrNone: "NONE",
		ErrUnknownTopicOrPartition: "UNKNOWN_TOPIC_OR_PARTITION", ErrLeaderNotAvailable: "LEADER_NOT_AVAILABLE",
		ErrBrokerNotAvailable: "BROKER_NOT_AVAILABLE", ErrCoordinatorLoadInProgress: "COORDINATOR_LOAD_IN_PROGRESS",
		ErrCoordinatorNotAvailable: "COORDINATOR_NOT_AVAILABLE", ErrNotCoordinator: "NOT_COORDINATOR",
		ErrInvalidGroupID: "INVALID_GROUP_ID", ErrTopicAuthorizationFailed: "TOPIC_AUTHORIZATION_FAILED",
		ErrGroupAuthorizationFailed: "GROUP_AUTHORIZATION_FAILED", ErrClusterAuthorizationFailed: "CLUSTER_AUTHORIZATION_FAILED",
		ErrUnsupportedSaslMechanism: "UNSUPPORTED_SASL_MECHANISM", ErrIllegalSaslState: "ILLEGAL_SASL_STATE",
		ErrUnsupportedVersion: "UNSUPPORTED_VERSION", ErrInvalidRequest: "INVALID_REQUEST",
		ErrTransactionalIDAuthorizationFailed: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
		ErrSaslAuthenticationFailed:           "SASL_AUTHENTICATION_FAILED", ErrListenerNotFound: "LISTENER_NOT_FOUND",
		ErrTransactionAbortable: "TRANSACTION_ABORTABLE", ErrRebootstrapRequired: "REBOOTSTRAP_REQUIRED",
	} {
		require.Equal(t, name, code.Name())
	}
}

func TestErrorCodeMeanings(t *testing.T) {
	seen := make(map[string]ErrorCode)
	for _, row := range errorCodes {
		meaning := row.code.Meaning()
		require.NotEmpty(t, meaning, row.name)
		require.False(t, strings.HasSuffix(meaning, "."), row.name)
		require.NotContains(t, seen, meaning, row.name)
		seen[meaning] = row.code
	}
}

func TestUnknownErrorCode(t *testing.T) {
	for _, code := range []ErrorCode{-2, -32768, 137, 32767} {
		require.False(t, code.Known())
		require.False(t, code.Retriable())
		require.Equal(t, fmt.Sprintf("KAFKA_%d", int16(code)), code.Name())
		require.Contains(t, code.Meaning(), "newer Kafka")
	}
}
