package kafkatest

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// warmKeys are enough that each of 50 partitions holds one of them, but for a
// chance of 1 in 500.
const warmKeys = 500

// Warm makes the internal topics exist and returns once every running broker gives the
// same good answer for each of many keys of each type that its release can answer.
func (c *Cluster) Warm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, keyType := range c.oldest.keyTypes() {
		if err := c.warm(ctx, keyType); err != nil {
			return fmt.Errorf("warm up key type %d on %v: %w", keyType, c.Bootstrap(), err)
		}
	}
	return nil
}

func (c *Cluster) warm(ctx context.Context, keyType int8) error {
	for {
		err := c.tryWarm(keyType)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *Cluster) tryWarm(keyType int8) error {
	var first []RawCoordinator
	for _, b := range c.brokers {
		// A cold broker creates the topic for the first key; the others would
		// only wait in the same queue.
		if _, err := b.findAll(keyType, WellFormedKeys(keyType, "warm", 1)); err != nil {
			return err
		}
		answers, err := b.findAll(keyType, WellFormedKeys(keyType, "warm", warmKeys))
		if err != nil {
			return err
		}
		if first == nil {
			first = answers
		}
		if !slices.Equal(first, answers) {
			return fmt.Errorf("%s and %s answer differently", c.brokers[0].Addr(), b.Addr())
		}
	}
	return nil
}

// findAll is RawFindAll where every answer must name a coordinator.
func (b *Broker) findAll(keyType int8, keys []string) ([]RawCoordinator, error) {
	b.mu.Lock()
	version := b.release.findCoordinator()
	b.mu.Unlock()
	answers, err := RawFindAll(context.Background(), b.Addr(), version, keyType, keys)
	if err != nil {
		return nil, err
	}
	for i, a := range answers {
		if a.Code != 0 {
			return nil, fmt.Errorf("%s answers %q with code %d", b.Addr(), keys[i], a.Code)
		}
	}
	return answers, nil
}

// WellFormedKeys are n different keys that begin with prefix and that Kafka takes
// for a key type: a share key is groupId:topicId:partition.
func WellFormedKeys(keyType int8, prefix string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", prefix, i)
		if keyType == 2 {
			keys[i] += ":nT3i4OXyR0mr0my1RZx9pQ:0"
		}
	}
	return keys
}
