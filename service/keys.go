package service

import (
	"fmt"
	"unicode/utf8"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// CheckKey returns why the key cannot be asked for as type t, or nil. What passes
// can be encoded in every FindCoordinator version that carries the type.
func CheckKey(t kafkawire.KeyType, key string) error {
	if len(key) > kafkawire.MaxKeyLength {
		return fmt.Errorf("key %s is too long; Kafka takes at most %d bytes", quoteKey(key), kafkawire.MaxKeyLength)
	}
	if !utf8.ValidString(key) {
		return fmt.Errorf("key %s is not valid UTF-8", quoteKey(key))
	}
	if t == kafkawire.KeyTypeShare {
		if _, err := kafkawire.ParseSharePartition(key); err != nil {
			return fmt.Errorf("%w, for example orders:nT3i4OXyR0mr0my1RZx9pQ:0; to look up a share group, ask with key type GROUP", err)
		}
	}
	return nil
}
