package kafkawire

import "fmt"

// A KeyType says what the keys of a FindCoordinator request are. Source:
// FindCoordinatorRequest.json; Kafka's enum CoordinatorType.
type KeyType int8

const (
	// KeyTypeGroup is right for groups of every protocol: classic, consumer,
	// share and streams groups all have the same coordinator.
	KeyTypeGroup KeyType = 0
	// KeyTypeTransaction is for transactional ids. From v1 on (Kafka 0.11).
	KeyTypeTransaction KeyType = 1
	// KeyTypeShare is for share partitions, not share groups: the key is that of
	// a [SharePartition]. From v6 on (Kafka 3.9, of use from 4.1).
	KeyTypeShare KeyType = 2
)

// String gives "GROUP", "TRANSACTION", "SHARE", or "KEY_TYPE_9".
func (t KeyType) String() string {
	switch t {
	case KeyTypeGroup:
		return "GROUP"
	case KeyTypeTransaction:
		return "TRANSACTION"
	case KeyTypeShare:
		return "SHARE"
	}
	return fmt.Sprintf("KEY_TYPE_%d", int8(t))
}

// minVersion is the first version of FindCoordinator that can ask for the type;
// ok is false for a type that no version knows.
func (t KeyType) minVersion() (v Version, ok bool) {
	switch t {
	case KeyTypeGroup:
		return 0, true
	case KeyTypeTransaction:
		return 1, true
	case KeyTypeShare:
		return 6, true
	}
	return 0, false
}
