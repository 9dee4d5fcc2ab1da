package kafkawire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseSharePartition(t *testing.T) {
	for key, want := range map[string]SharePartition{
		"sg:nT3i4OXyR0mr0my1RZx9pQ:0":             {GroupID: "sg"},
		"a:b:nT3i4OXyR0mr0my1RZx9pQ:3":            {GroupID: "a:b", Partition: 3},
		":::nT3i4OXyR0mr0my1RZx9pQ:3":             {GroupID: "::", Partition: 3},
		"sg:nT3i4OXyR0mr0my1RZx9pQ:2147483647":    {GroupID: "sg", Partition: 2147483647},
		"sg:nT3i4OXyR0mr0my1RZx9pQ:007":           {GroupID: "sg", Partition: 7},
		" sg :nT3i4OXyR0mr0my1RZx9pQ:0":           {GroupID: " sg "},
		"gruppe-ä 😀/%:#:nT3i4OXyR0mr0my1RZx9pQ:1": {GroupID: "gruppe-ä 😀/%:#", Partition: 1},
	} {
		got, err := ParseSharePartition(key)
		require.NoError(t, err, key)
		require.Equal(t, want.GroupID, got.GroupID, key)
		require.Equal(t, want.Partition, got.Partition, key)
		require.Contains(t, got.String(), want.GroupID+":nT3i4OXyR0mr0my1RZx9pQ:")
	}
	got, err := ParseSharePartition("sg:AAECAwQFBgcICQoLDA0O_w:1")
	require.NoError(t, err)
	require.Equal(t, SharePartition{GroupID: "sg", TopicID: [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255}, Partition: 1}, got)
	require.Equal(t, "sg:AAECAwQFBgcICQoLDA0O_w:1", got.String())
}

func TestParseSharePartitionRefuses(t *testing.T) {
	for key, why := range map[string]string{
		"":                                        "has no colon",
		"my-share-group":                          "has no colon",
		"nT3i4OXyR0mr0my1RZx9pQ:0":                "has one colon",
		":nT3i4OXyR0mr0my1RZx9pQ:0":               "has a blank group id",
		" \t:nT3i4OXyR0mr0my1RZx9pQ:0":            "has a blank group id",
		"sg::0":                                   "has a topic id",
		"sg:orders:0":                             "has a topic id",
		"sg:nT3i4OXyR0mr0my1RZx9p:0":              "has a topic id",
		"sg:nT3i4OXyR0mr0my1RZx9pQQ:0":            "has a topic id",
		"sg:nT3i4OXyR0mr0my1RZx9p=:0":             "has a topic id",
		"sg:nT3i4OXyR0mr0my1RZx9p+:0":             "has a topic id",
		"sg:nT3i4OXyR0mr0my1RZx9\n\n:0":           "has a topic id",
		"sg:nT3i4OXyR0mr0my1RZx9p\n:0":            "has a topic id",
		"sg:nT3i4OXyR0mr0my1RZx9pQ:":              "has a partition",
		"sg:nT3i4OXyR0mr0my1RZx9pQ:-1":            "has a partition",
		"sg:nT3i4OXyR0mr0my1RZx9pQ:+1":            "has a partition",
		"sg:nT3i4OXyR0mr0my1RZx9pQ:1_0":           "has a partition",
		"sg:nT3i4OXyR0mr0my1RZx9pQ:0x1":           "has a partition",
		"sg:nT3i4OXyR0mr0my1RZx9pQ: 1":            "has a partition",
		"sg:nT3i4OXyR0mr0my1RZx9pQ:2147483648":    "has a partition",
		"sg:nT3i4OXyR0mr0my1RZx9pQ:0:":            "has a topic id",
		strings.Repeat("x", 40000):                "has no colon",
		"sg:" + strings.Repeat("x", 40000) + ":0": "has a topic id",
	} {
		got, err := ParseSharePartition(key)
		require.ErrorIs(t, err, ErrSharePartitionKey, key)
		require.ErrorContains(t, err, why)
		require.Equal(t, SharePartition{}, got, key)
		require.Less(t, len(err.Error()), 500)
	}
	_, err := ParseSharePartition("my-share-group")
	require.EqualError(t, err, `key "my-share-group" has no colon: not a share partition, which is groupId:topicId:partition`)
}
