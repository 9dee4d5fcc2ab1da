package kafkawire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What an encoder refuses, it refuses before it writes.
func TestRefusals(t *testing.T) {
	long := strings.Repeat("x", 32768)
	for name, c := range map[string]struct {
		message  Request
		versions []Version
		want     error
		text     string // of the error at the first of the versions
	}{
		"key too long": {&FindCoordinatorRequest{Keys: []string{long}}, []Version{0, 3, 4, 6}, ErrKeyTooLong,
			"kafkawire: cannot encode FindCoordinatorRequest v0, key 0: key is too long: 32768 bytes, at most 32767"},
		"one of the keys too long": {&FindCoordinatorRequest{Keys: []string{"a", long, long}}, []Version{4, 6}, ErrKeyTooLong,
			"kafkawire: cannot encode FindCoordinatorRequest v4, key 1: key is too long: 32768 bytes, at most 32767"},
		"no key": {&FindCoordinatorRequest{}, []Version{0, 1, 2, 3}, ErrKeyCount,
			"kafkawire: cannot encode FindCoordinatorRequest v0, Key: wrong number of keys: 0, but below v4 a request carries exactly one"},
		"two keys": {&FindCoordinatorRequest{Keys: []string{"a", "b"}}, []Version{0, 1, 2, 3}, ErrKeyCount,
			"kafkawire: cannot encode FindCoordinatorRequest v0, Key: wrong number of keys: 2, but below v4 a request carries exactly one"},
		"transaction": {&FindCoordinatorRequest{KeyType: KeyTypeTransaction, Keys: []string{"a"}}, []Version{0}, ErrKeyType,
			"kafkawire: cannot encode FindCoordinatorRequest v0, KeyType: key type cannot be asked for: TRANSACTION needs v1 or later"},
		"share": {&FindCoordinatorRequest{KeyType: KeyTypeShare, Keys: []string{"a"}}, []Version{5, 4, 3, 2, 1, 0}, ErrKeyType,
			"kafkawire: cannot encode FindCoordinatorRequest v5, KeyType: key type cannot be asked for: SHARE needs v6 or later"},
		"unknown type": {&FindCoordinatorRequest{KeyType: 3, Keys: []string{"a"}}, []Version{0, 1, 4, 6}, ErrKeyType,
			"kafkawire: cannot encode FindCoordinatorRequest v0, KeyType: key type cannot be asked for: KEY_TYPE_3 is not known"},
		"negative type":  {&FindCoordinatorRequest{KeyType: -1, Keys: []string{"a"}}, []Version{6}, ErrKeyType, ""},
		"no row":         {&FindCoordinatorResponse{}, []Version{0, 3}, ErrKeyCount, ""},
		"two rows":       {&FindCoordinatorResponse{Coordinators: make([]Coordinator, 2)}, []Version{0, 3}, ErrKeyCount, ""},
		"row's key":      {&FindCoordinatorResponse{Coordinators: []Coordinator{{Key: long}}}, []Version{4}, ErrTooLong, ""},
		"row's host":     {&FindCoordinatorResponse{Coordinators: []Coordinator{{Host: long}}}, []Version{0, 6}, ErrTooLong, ""},
		"row's message":  {&FindCoordinatorResponse{Coordinators: []Coordinator{{ErrorMessage: long}}}, []Version{1, 6}, ErrTooLong, ""},
		"software name":  {&APIVersionsRequest{ClientSoftwareName: long, NodeID: NoNode}, []Version{3, 5}, ErrTooLong, ""},
		"software":       {&APIVersionsRequest{ClientSoftwareVersion: long, NodeID: NoNode}, []Version{3, 5}, ErrTooLong, ""},
		"cluster id":     {&APIVersionsRequest{ClusterID: &long}, []Version{5}, ErrTooLong, ""},
		"only a node":    {&APIVersionsRequest{}, []Version{5}, ErrNotExpressible, ""},
		"only a cluster": {&APIVersionsRequest{ClusterID: new(string), NodeID: NoNode}, []Version{5}, ErrNotExpressible, ""},
		"mechanism":      {&SaslHandshakeRequest{Mechanism: long}, []Version{0, 1}, ErrTooLong, ""},
		"mechanisms":     {&SaslHandshakeResponse{Mechanisms: []string{"PLAIN", long}}, []Version{0, 1}, ErrTooLong, ""},
		"SASL message":   {&SaslAuthenticateResponse{ErrorMessage: long}, []Version{0, 2}, ErrTooLong, ""},
		"all and some topics": {&MetadataRequest{AllTopics: true, Topics: []string{"a"}, AllowAutoTopicCreation: true},
			[]Version{0, 12}, ErrNotExpressible, ""},
		"no topic in v0": {&MetadataRequest{AllowAutoTopicCreation: true}, []Version{0}, ErrNotExpressible,
			"kafkawire: cannot encode MetadataRequest v0, Topics: cannot be expressed: v0 has no way to ask for no topic, only for all"},
		"no creation before v4": {&MetadataRequest{Topics: []string{"a"}}, []Version{0, 3}, ErrNotExpressible, ""},
		"topic":                 {&MetadataRequest{Topics: []string{long}}, []Version{4, 12}, ErrTooLong, ""},
		"broker's host":         {&MetadataResponse{Brokers: []MetadataBroker{{Host: long}}}, []Version{0, 12}, ErrTooLong, ""},
		"broker's rack":         {&MetadataResponse{Brokers: []MetadataBroker{{Rack: long}}}, []Version{1, 12}, ErrTooLong, ""},
		"cluster's id":          {&MetadataResponse{ClusterID: long}, []Version{2, 12}, ErrTooLong, ""},
		"topic's name":          {&MetadataResponse{Topics: []MetadataTopic{{Name: long}}}, []Version{0, 12}, ErrTooLong, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for i, v := range c.versions {
				room := append(make([]byte, 0, 1<<17), "before"...)
				got, err := c.message.Encode(room, v)
				require.ErrorIs(t, err, c.want)
				require.Equal(t, "before", string(got))
				require.Equal(t, make([]byte, 100), got[6:106], "not even the room behind was written to")
				var encode *EncodeError
				require.ErrorAs(t, err, &encode)
				require.Equal(t, v, encode.Version)
				if i == 0 && c.text != "" {
					require.EqualError(t, err, c.text)
				}
			}
		})
	}
}

func TestEncodesWhatIsAllowed(t *testing.T) {
	cluster := ""
	for name, c := range map[string]struct {
		message Request
		version Version
	}{
		"longest key":              {&FindCoordinatorRequest{Keys: []string{strings.Repeat("x", MaxKeyLength)}}, 0},
		"no key in v4":             {&FindCoordinatorRequest{}, 4},
		"key that is not UTF-8":    {&FindCoordinatorRequest{Keys: []string{"\xff\xfe"}}, 6},
		"cluster id below v5":      {&APIVersionsRequest{ClusterID: &cluster}, 4},
		"empty cluster id":         {&APIVersionsRequest{ClusterID: &cluster, NodeID: 0}, 5},
		"all topics in v0":         {&MetadataRequest{AllTopics: true}, 0},
		"all topics":               {&MetadataRequest{AllTopics: true}, 12},
		"no topics":                {&MetadataRequest{}, 1},
		"creation before v4":       {&MetadataRequest{Topics: []string{"a"}, AllowAutoTopicCreation: true}, 0},
		"no creation since v4":     {&MetadataRequest{Topics: []string{"a"}}, 4},
		"nothing to authenticate":  {&SaslAuthenticateRequest{}, 2},
		"topic without name, v12":  {&MetadataResponse{Topics: []MetadataTopic{{TopicID: [16]byte{1}}}}, 12},
		"topic without name, v11":  {&MetadataResponse{Topics: []MetadataTopic{{TopicID: [16]byte{1}}}}, 11},
		"no broker in the cluster": {&MetadataResponse{}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.message.Encode(nil, c.version)
			require.NoError(t, err)
		})
	}
}

// The three ways to ask for topics come back as what they were.
func TestMetadataTopicsAsked(t *testing.T) {
	for v := Version(0); v <= Supported(APIKeyMetadata).Max; v++ {
		for _, want := range []MetadataRequest{
			{AllTopics: true, AllowAutoTopicCreation: true},
			{AllowAutoTopicCreation: true},
			{Topics: []string{"a", ""}, AllowAutoTopicCreation: true},
		} {
			encoded, err := want.Encode(nil, v)
			if v == 0 && !want.AllTopics && want.Topics == nil {
				require.ErrorIs(t, err, ErrNotExpressible)
				continue
			}
			require.NoError(t, err)
			var got MetadataRequest
			require.NoError(t, got.Decode(encoded, v))
			require.Equal(t, want, got, "v%d", v)
		}
	}
}
