package kafkawire

import "fmt"

// An ErrorCode is how a broker says what went wrong, as numbered in the list of
// [error codes]. It is an answer, not a Go error: those of this package are in
// errors.go.
//
// [error codes]: https://kafka.apache.org/protocol#protocol_error_codes
type ErrorCode int16

// The codes that the project acts on; the table below has them all.
const (
	ErrUnknownServerError                 ErrorCode = -1
	ErrNone                               ErrorCode = 0
	ErrUnknownTopicOrPartition            ErrorCode = 3
	ErrLeaderNotAvailable                 ErrorCode = 5
	ErrBrokerNotAvailable                 ErrorCode = 8
	ErrCoordinatorLoadInProgress          ErrorCode = 14
	ErrCoordinatorNotAvailable            ErrorCode = 15
	ErrNotCoordinator                     ErrorCode = 16
	ErrInvalidGroupID                     ErrorCode = 24
	ErrTopicAuthorizationFailed           ErrorCode = 29
	ErrGroupAuthorizationFailed           ErrorCode = 30
	ErrClusterAuthorizationFailed         ErrorCode = 31
	ErrUnsupportedSaslMechanism           ErrorCode = 33
	ErrIllegalSaslState                   ErrorCode = 34
	ErrUnsupportedVersion                 ErrorCode = 35
	ErrInvalidRequest                     ErrorCode = 42
	ErrTransactionalIDAuthorizationFailed ErrorCode = 53
	ErrSaslAuthenticationFailed           ErrorCode = 58
	ErrListenerNotFound                   ErrorCode = 72
	ErrTransactionAbortable               ErrorCode = 120
	ErrRebootstrapRequired                ErrorCode = 129
)

// entry finds the code's row; ok is false for a code that is not in the table.
func (c ErrorCode) entry() (row errorCode, ok bool) {
	i := int(c) - int(errorCodes[0].code)
	if i < 0 || i >= len(errorCodes) {
		return errorCode{}, false
	}
	return errorCodes[i], true
}

// Known reports whether Kafka 4.4 defines the code.
func (c ErrorCode) Known() bool {
	_, ok := c.entry()
	return ok
}

// Name is Kafka's own, such as "COORDINATOR_NOT_AVAILABLE"; "NONE" for 0 and
// "KAFKA_<code>" for a code that is not known.
func (c ErrorCode) Name() string {
	if row, ok := c.entry(); ok {
		return row.name
	}
	return fmt.Sprintf("KAFKA_%d", int16(c))
}

// String is Name.
func (c ErrorCode) String() string { return c.Name() }

// Retriable reports whether Kafka's own clients take the error for one that may
// pass (a subclass of Java's RetriableException). Of a code that is not known it
// is false.
func (c ErrorCode) Retriable() bool {
	row, _ := c.entry()
	return row.retriable
}

// Meaning says in a few words what happened, to follow a colon.
func (c ErrorCode) Meaning() string {
	if row, ok := c.entry(); ok {
		return row.meaning
	}
	return "an error that this release does not know; a newer Kafka may have added it"
}

type errorCode struct {
	code      ErrorCode
	name      string
	retriable bool
	meaning   string
}

// errorCodes is in the order of the codes, with none left out. Source: the enum
// org.apache.kafka.common.protocol.Errors of Apache Kafka 4.4.0, whose names and
// flags testdata/error_codes.tsv repeats; the meanings are the project's own.
var errorCodes = [...]errorCode{
	{-1, "UNKNOWN_SERVER_ERROR", false, "the broker failed in a way that it did not foresee; its log has the cause"},
	{0, "NONE", false, "no error"},
	{1, "OFFSET_OUT_OF_RANGE", false, "the offset lies outside what the partition holds"},
	{2, "CORRUPT_MESSAGE", true, "a record fails its checksum, is too large, or lacks a key that it needs"},
	{3, "UNKNOWN_TOPIC_OR_PARTITION", true, "the broker has no such topic or partition, or does not know of it yet"},
	{4, "INVALID_FETCH_SIZE", false, "the fetch size makes no sense"},
	{5, "LEADER_NOT_AVAILABLE", true, "the partition has no leader at the moment"},
	{6, "NOT_LEADER_OR_FOLLOWER", true, "the broker neither leads nor follows the partition"},
	{7, "REQUEST_TIMED_OUT", true, "the request took longer than it was given"},
	{8, "BROKER_NOT_AVAILABLE", false, "the broker is not available"},
	{9, "REPLICA_NOT_AVAILABLE", true, "the replica is not available on this broker"},
	{10, "MESSAGE_TOO_LARGE", false, "the record is larger than the broker takes"},
	{11, "STALE_CONTROLLER_EPOCH", false, "the controller has moved to another broker"},
	{12, "OFFSET_METADATA_TOO_LARGE", false, "the metadata string of the offset commit is too large"},
	{13, "NETWORK_EXCEPTION", true, "the connection ended before the answer came"},
	{14, "COORDINATOR_LOAD_IN_PROGRESS", true, "the coordinator is loading its state and cannot answer yet"},
	{15, "COORDINATOR_NOT_AVAILABLE", true, "no broker coordinates the key at the moment: the internal topic is missing, its partition has no leader, or the leader lacks this listener"},
	{16, "NOT_COORDINATOR", true, "the broker asked does not coordinate the key"},
	{17, "INVALID_TOPIC_EXCEPTION", false, "the topic name is not valid"},
	{18, "RECORD_LIST_TOO_LARGE", false, "the batch is larger than a log segment"},
	{19, "NOT_ENOUGH_REPLICAS", true, "fewer replicas are in sync than the topic demands"},
	{20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", true, "the records were written, but to fewer in-sync replicas than the topic demands"},
	{21, "INVALID_REQUIRED_ACKS", false, "the number of acknowledgements asked for is not valid"},
	{22, "ILLEGAL_GENERATION", false, "the generation of the group is not the current one"},
	{23, "INCONSISTENT_GROUP_PROTOCOL", false, "the member's protocols do not fit those of the group"},
	{24, "INVALID_GROUP_ID", false, "the group id is not valid"},
	{25, "UNKNOWN_MEMBER_ID", false, "the coordinator does not know the member"},
	{26, "INVALID_SESSION_TIMEOUT", false, "the session timeout lies outside what the broker allows"},
	{27, "REBALANCE_IN_PROGRESS", false, "the group is rebalancing"},
	{28, "INVALID_COMMIT_OFFSET_SIZE", false, "the offsets to commit are too large"},
	{29, "TOPIC_AUTHORIZATION_FAILED", false, "the principal lacks an ACL on the topic"},
	{30, "GROUP_AUTHORIZATION_FAILED", false, "the principal lacks DESCRIBE on the group"},
	{31, "CLUSTER_AUTHORIZATION_FAILED", false, "the principal lacks an ACL on the cluster, such as CLUSTER_ACTION"},
	{32, "INVALID_TIMESTAMP", false, "the timestamp lies outside what the topic allows"},
	{33, "UNSUPPORTED_SASL_MECHANISM", false, "the broker does not offer the SASL mechanism"},
	{34, "ILLEGAL_SASL_STATE", false, "the request does not fit the state of authentication: not yet authenticated, or the session has ended"},
	{35, "UNSUPPORTED_VERSION", false, "the broker does not speak this version of the API"},
	{36, "TOPIC_ALREADY_EXISTS", false, "the topic exists already"},
	{37, "INVALID_PARTITIONS", false, "the number of partitions is not valid"},
	{38, "INVALID_REPLICATION_FACTOR", false, "the replication factor is below 1 or above the number of brokers"},
	{39, "INVALID_REPLICA_ASSIGNMENT", false, "the replica assignment is not valid"},
	{40, "INVALID_CONFIG", false, "the configuration is not valid"},
	{41, "NOT_CONTROLLER", true, "the broker is not the controller"},
	{42, "INVALID_REQUEST", false, "the broker finds the request malformed; its log has the cause"},
	{43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", false, "the message format on the broker cannot do this"},
	{44, "POLICY_VIOLATION", false, "a policy of the cluster forbids it"},
	{45, "OUT_OF_ORDER_SEQUENCE_NUMBER", false, "the producer's sequence number is out of order"},
	{46, "DUPLICATE_SEQUENCE_NUMBER", false, "the producer's sequence number was used before"},
	{47, "INVALID_PRODUCER_EPOCH", false, "the producer epoch is outdated"},
	{48, "INVALID_TXN_STATE", false, "the transaction is not in a state for this"},
	{49, "INVALID_PRODUCER_ID_MAPPING", false, "the producer id does not belong to the transactional id"},
	{50, "INVALID_TRANSACTION_TIMEOUT", false, "the transaction timeout is longer than the broker allows"},
	{51, "CONCURRENT_TRANSACTIONS", true, "another operation on the transaction is still going on"},
	{52, "TRANSACTION_COORDINATOR_FENCED", false, "the transaction coordinator that asks is no longer the current one"},
	{53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", false, "the principal lacks DESCRIBE on the transactional id"},
	{54, "SECURITY_DISABLED", false, "security features are off"},
	{55, "OPERATION_NOT_ATTEMPTED", false, "the broker did not try this operation"},
	{56, "KAFKA_STORAGE_ERROR", true, "a disk of the broker failed"},
	{57, "LOG_DIR_NOT_FOUND", false, "the broker has no such log directory"},
	{58, "SASL_AUTHENTICATION_FAILED", false, "authentication failed: wrong credentials, or an account that is not known"},
	{59, "UNKNOWN_PRODUCER_ID", false, "the broker has no state of the producer id"},
	{60, "REASSIGNMENT_IN_PROGRESS", false, "a reassignment of the partition is going on"},
	{61, "DELEGATION_TOKEN_AUTH_DISABLED", false, "delegation tokens are off"},
	{62, "DELEGATION_TOKEN_NOT_FOUND", false, "the broker does not know the delegation token"},
	{63, "DELEGATION_TOKEN_OWNER_MISMATCH", false, "the principal may not renew the delegation token"},
	{64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", false, "delegation tokens cannot be asked for over this connection"},
	{65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", false, "the principal may not use delegation tokens so"},
	{66, "DELEGATION_TOKEN_EXPIRED", false, "the delegation token has expired"},
	{67, "INVALID_PRINCIPAL_TYPE", false, "the type of principal is not supported"},
	{68, "NON_EMPTY_GROUP", false, "the group still has members"},
	{69, "GROUP_ID_NOT_FOUND", false, "the group does not exist"},
	{70, "FETCH_SESSION_ID_NOT_FOUND", true, "the broker has no such fetch session"},
	{71, "INVALID_FETCH_SESSION_EPOCH", true, "the fetch session is at another epoch"},
	{72, "LISTENER_NOT_FOUND", true, "the partition's leader lacks the listener that the request came by"},
	{73, "TOPIC_DELETION_DISABLED", false, "topics cannot be deleted here"},
	{74, "FENCED_LEADER_EPOCH", true, "the leader epoch is older than the broker's"},
	{75, "UNKNOWN_LEADER_EPOCH", true, "the leader epoch is newer than the broker's"},
	{76, "UNSUPPORTED_COMPRESSION_TYPE", false, "the client cannot read the compression that is in use"},
	{77, "STALE_BROKER_EPOCH", false, "the broker's own epoch has changed"},
	{78, "OFFSET_NOT_AVAILABLE", true, "the leader was elected lately and does not know its high watermark yet"},
	{79, "MEMBER_ID_REQUIRED", false, "the member must come back with the id that it was given"},
	{80, "PREFERRED_LEADER_NOT_AVAILABLE", true, "the preferred leader is not available"},
	{81, "GROUP_MAX_SIZE_REACHED", false, "the group is full"},
	{82, "FENCED_INSTANCE_ID", false, "another member took over the static member's instance id"},
	{83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", true, "no replica may become leader"},
	{84, "ELECTION_NOT_NEEDED", true, "the leader need not be elected"},
	{85, "NO_REASSIGNMENT_IN_PROGRESS", false, "no reassignment is going on"},
	{86, "GROUP_SUBSCRIBED_TO_TOPIC", false, "the group subscribes to the topic"},
	{87, "INVALID_RECORD", false, "the broker refused the record"},
	{88, "UNSTABLE_OFFSET_COMMIT", true, "a transaction has yet to settle the offsets"},
	{89, "THROTTLING_QUOTA_EXCEEDED", true, "a quota is used up"},
	{90, "PRODUCER_FENCED", false, "a newer producer has taken over the transactional id"},
	{91, "RESOURCE_NOT_FOUND", false, "what the request names does not exist"},
	{92, "DUPLICATE_RESOURCE", false, "the request names something twice"},
	{93, "UNACCEPTABLE_CREDENTIAL", false, "the new credential does not meet the rules"},
	{94, "INCONSISTENT_VOTER_SET", false, "the two sides of a voters' request do not agree who the voters are"},
	{95, "INVALID_UPDATE_VERSION", false, "the version of the update is not valid"},
	{96, "FEATURE_UPDATE_FAILED", false, "the features could not be updated"},
	{97, "PRINCIPAL_DESERIALIZATION_FAILURE", false, "a forwarded request's principal could not be read: the brokers' security set-up is at fault"},
	{98, "SNAPSHOT_NOT_FOUND", false, "there is no such snapshot"},
	{99, "POSITION_OUT_OF_RANGE", false, "the position lies outside the snapshot"},
	{100, "UNKNOWN_TOPIC_ID", true, "the broker has no topic of this id"},
	{101, "DUPLICATE_BROKER_REGISTRATION", false, "another broker has the id"},
	{102, "BROKER_ID_NOT_REGISTERED", false, "no broker of this id is registered"},
	{103, "INCONSISTENT_TOPIC_ID", true, "the topic has another id than the request says"},
	{104, "INCONSISTENT_CLUSTER_ID", false, "the cluster has another id than the request says"},
	{105, "TRANSACTIONAL_ID_NOT_FOUND", false, "the transactional id does not exist"},
	{106, "FETCH_SESSION_TOPIC_ID_ERROR", true, "the fetch session uses topic ids inconsistently"},
	{107, "INELIGIBLE_REPLICA", false, "a replica may not join the in-sync replicas"},
	{108, "NEW_LEADER_ELECTED", false, "the partition was updated, but has a new leader"},
	{109, "OFFSET_MOVED_TO_TIERED_STORAGE", false, "the offset has moved to tiered storage"},
	{110, "FENCED_MEMBER_EPOCH", false, "the member's epoch is outdated: it must drop its partitions and join again"},
	{111, "UNRELEASED_INSTANCE_ID", false, "another member still has the instance id"},
	{112, "UNSUPPORTED_ASSIGNOR", false, "the group does not support the assignor"},
	{113, "STALE_MEMBER_EPOCH", false, "the member's epoch is behind: it must learn the current one and try again"},
	{114, "MISMATCHED_ENDPOINT_TYPE", false, "this endpoint is of another type: a broker instead of a controller, or the reverse"},
	{115, "UNSUPPORTED_ENDPOINT_TYPE", false, "the type of endpoint is not supported yet"},
	{116, "UNKNOWN_CONTROLLER_ID", false, "the controller's id is not known"},
	{117, "UNKNOWN_SUBSCRIPTION_ID", false, "the telemetry subscription is not known or outdated"},
	{118, "TELEMETRY_TOO_LARGE", false, "the telemetry is larger than the broker takes"},
	{119, "INVALID_REGISTRATION", false, "the controller finds the broker's registration not valid"},
	{120, "TRANSACTION_ABORTABLE", false, "the transaction failed, and can go on once it is aborted"},
	{121, "INVALID_RECORD_STATE", false, "the record is not in a state to be acknowledged so"},
	{122, "SHARE_SESSION_NOT_FOUND", true, "the broker has no such share session"},
	{123, "INVALID_SHARE_SESSION_EPOCH", true, "the share session is at another epoch"},
	{124, "FENCED_STATE_EPOCH", false, "the share partition's state epoch is outdated"},
	{125, "INVALID_VOTER_KEY", false, "the voter's key is not that of the replica"},
	{126, "DUPLICATE_VOTER", false, "the replica is a voter already"},
	{127, "VOTER_NOT_FOUND", false, "the replica is no voter"},
	{128, "INVALID_REGULAR_EXPRESSION", false, "the regular expression is not valid"},
	{129, "REBOOTSTRAP_REQUIRED", false, "the client was led to the wrong broker or knows an outdated cluster: it must start again from its bootstrap addresses"},
	{130, "STREAMS_INVALID_TOPOLOGY", false, "the streams topology is not valid"},
	{131, "STREAMS_INVALID_TOPOLOGY_EPOCH", false, "the epoch of the streams topology is not valid"},
	{132, "STREAMS_TOPOLOGY_FENCED", false, "the streams topology is outdated"},
	{133, "SHARE_SESSION_LIMIT_REACHED", true, "the broker holds as many share sessions as it may"},
	{134, "GROUP_DELETION_FAILED", false, "the group could not be deleted"},
	{135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", false, "the description of the streams topology could not be stored"},
	{136, "CONTROLLER_ID_NOT_REGISTERED", false, "no controller of this id is registered"},
}
