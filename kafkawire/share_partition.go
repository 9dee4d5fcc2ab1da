package kafkawire

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrSharePartitionKey says that a key of type SHARE is no share partition.
var ErrSharePartitionKey = errors.New("not a share partition")

// A SharePartition is what keys of type SHARE stand for: one partition of a topic
// as read by one share group. Written groupId:topicId:partition, with the topic id
// in Kafka's form of a UUID: 22 characters of URL-safe base64, not padded. Source:
// KIP-932; FindCoordinatorRequest.json.
type SharePartition struct {
	GroupID   string
	TopicID   [16]byte
	Partition int32
}

// topicIDLength is how many characters a topic id takes as text.
const topicIDLength = 22

// ParseSharePartition reads a key of type SHARE. It is read from the right, for a
// group id may hold colons (KAFKA-20183; brokers from before it answer
// INVALID_REQUEST to such a key).
func ParseSharePartition(key string) (SharePartition, error) {
	rest, partition, ok := cutLast(key)
	if !ok {
		return SharePartition{}, badSharePartition(key, "has no colon")
	}
	group, topic, ok := cutLast(rest)
	if !ok {
		return SharePartition{}, badSharePartition(key, "has one colon")
	}
	if strings.TrimSpace(group) == "" {
		return SharePartition{}, badSharePartition(key, "has a blank group id")
	}
	topicID, ok := parseTopicID(topic)
	if !ok {
		return SharePartition{}, badSharePartition(key, fmt.Sprintf("has a topic id %q that is not %d characters of URL-safe base64", shorten(topic), topicIDLength))
	}
	n, err := strconv.ParseUint(partition, 10, 31)
	if err != nil {
		return SharePartition{}, badSharePartition(key, fmt.Sprintf("has a partition %q that is not a number from 0 to 2147483647", shorten(partition)))
	}
	return SharePartition{GroupID: group, TopicID: topicID, Partition: int32(n)}, nil
}

// String gives the key.
func (p SharePartition) String() string {
	return p.GroupID + ":" + base64.RawURLEncoding.EncodeToString(p.TopicID[:]) + ":" + strconv.Itoa(int(p.Partition))
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

func parseTopicID(s string) (id [16]byte, ok bool) {
	if len(s) != topicIDLength {
		return id, false
	}
	// Line breaks would be skipped: the number of bytes gives them away.
	n, err := base64.RawURLEncoding.Decode(id[:], []byte(s))
	return id, err == nil && n == len(id)
}

func badSharePartition(key, why string) error {
	return fmt.Errorf("key %q %s: %w, which is groupId:topicId:partition", shorten(key), why, ErrSharePartitionKey)
}

// shorten keeps what a person needs of a key that may have 32,767 bytes.
func shorten(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
