package kafkawire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Bodies that are wrong in one way, and what is said of each.
func TestBadBodies(t *testing.T) {
	for name, c := range map[string]struct {
		message Request
		version Version
		body    string
		want    error
		text    string
	}{
		"null key v0": {&FindCoordinatorRequest{}, 0, "ffff", ErrNull,
			"kafkawire: cannot decode FindCoordinatorRequest v0, Key at byte 2: null where the protocol allows none"},
		"null key v3":         {&FindCoordinatorRequest{}, 3, "00 00 00", ErrNull, ""},
		"null element":        {&FindCoordinatorRequest{}, 4, "00 02 00 00", ErrNull, ""},
		"null keys":           {&FindCoordinatorRequest{}, 4, "00 00 00", ErrNull, ""},
		"negative key length": {&FindCoordinatorRequest{}, 0, "fffe", ErrInvalidLength, "kafkawire: cannot decode FindCoordinatorRequest v0, Key at byte 0: invalid length -2"},
		"key of 32768 bytes": {&FindCoordinatorRequest{}, 3, "818002 61", ErrInvalidLength,
			"kafkawire: cannot decode FindCoordinatorRequest v3, Key at byte 0: invalid length 32768"},
		"more keys than bytes": {&FindCoordinatorRequest{}, 4, "00 ffffffff0f 0000", ErrTruncated,
			"kafkawire: cannot decode FindCoordinatorRequest v4, CoordinatorKeys at byte 1: message is truncated: 4294967294 elements of at least 1 bytes, 2 bytes left"},
		"host cut short": {&FindCoordinatorResponse{}, 4, "00000000 02 0161 00000001 056162 0000000000", ErrTruncated, ""},
		"host longer than all": {&FindCoordinatorResponse{}, 4, "00000000 03 0261 00000001 036231 00002384 0000 01 00 0262 00000002 7f 61626364", ErrTruncated,
			"kafkawire: cannot decode FindCoordinatorResponse v4, Coordinators[1].Host at byte 28: message is truncated: length is 126, 4 bytes left"},
		"null row key": {&FindCoordinatorResponse{}, 4, "00000000 02 00 00000001 01 00002384 0000 01 00 00", ErrNull,
			"kafkawire: cannot decode FindCoordinatorResponse v4, Coordinators[0].Key at byte 6: null where the protocol allows none"},
		"null rows":                 {&FindCoordinatorResponse{}, 4, "00000000 00 00", ErrNull, ""},
		"varint of six bytes":       {&FindCoordinatorResponse{}, 4, "00000000 808080808001 00", ErrInvalidVarint, ""},
		"varint of 33 bits":         {&FindCoordinatorResponse{}, 4, "00000000 ffffffff1f 00", ErrInvalidVarint, ""},
		"negative count of APIs":    {&APIVersionsResponse{}, 0, "0000 fffffffe", ErrInvalidLength, ""},
		"more APIs than bytes":      {&APIVersionsResponse{}, 0, "0000 00000002 000000000000 0000000000", ErrTruncated, ""},
		"one byte":                  {&APIVersionsResponse{}, 3, "00", ErrTruncated, ""},
		"null software name":        {&APIVersionsRequest{}, 3, "00 01 00", ErrNull, ""},
		"null mechanism":            {&SaslHandshakeRequest{}, 0, "ffff", ErrNull, ""},
		"null among the mechanisms": {&SaslHandshakeResponse{}, 0, "0000 00000001 ffff", ErrNull, ""},
		"null SASL bytes":           {&SaslAuthenticateRequest{}, 0, "ffffffff", ErrNull, ""},
		"negative SASL bytes":       {&SaslAuthenticateRequest{}, 0, "80000000", ErrInvalidLength, ""},
		"SASL bytes cut short":      {&SaslAuthenticateRequest{}, 2, "05 616263", ErrTruncated, ""},
		"null topics in v0":         {&MetadataRequest{}, 0, "ffffffff", ErrNull, ""},
		"topic asked for by id":     {&MetadataRequest{}, 12, "02 00000000000000000000000000000001 00 00 01 00 00", ErrNull, ""},
		"null brokers":              {&MetadataResponse{}, 0, "ffffffff 00000000", ErrNull, ""},
		"null host of a broker":     {&MetadataResponse{}, 0, "00000001 00000001 ffff 00002384 00000000", ErrNull, ""},
		"null topic name v11":       {&MetadataResponse{}, 11, "00000000 01 00 00000001 02 0000 00 00000000000000000000000000000000 00 01 00000000 00 00", ErrNull, ""},
		"replica list cut short": {&MetadataResponse{}, 0, "00000000 00000001 0000 0001 61 00000001 0000 00000000 00000001 00000002 00000001 0000", ErrTruncated,
			"kafkawire: cannot decode MetadataResponse v0, Topics[0].Partitions[0].ReplicaNodes at byte 27: message is truncated: 2 elements of at least 4 bytes, 6 bytes left"},
	} {
		t.Run(name, func(t *testing.T) {
			body := unhex(t, c.body)
			err := c.message.Decode(body, c.version)
			require.ErrorIs(t, err, c.want)
			if c.text != "" {
				require.EqualError(t, err, c.text)
			}
		})
	}
}

// What is against the schema, or beyond what the package keeps, and read all the same.
func TestToleratedBodies(t *testing.T) {
	missing := Coordinator{NodeID: NoNode, Port: -1, ErrorCode: ErrCoordinatorNotAvailable}
	for name, c := range map[string]struct {
		got, want Request
		version   Version
		body      string
	}{
		"null host v0": {&FindCoordinatorResponse{}, &FindCoordinatorResponse{Coordinators: []Coordinator{missing}}, 0,
			"000f ffffffff ffff ffffffff"},
		"null host and message v1": {&FindCoordinatorResponse{}, &FindCoordinatorResponse{Coordinators: []Coordinator{missing}}, 1,
			"00000000 000f ffff ffffffff ffff ffffffff"},
		"null host v3": {&FindCoordinatorResponse{}, &FindCoordinatorResponse{Coordinators: []Coordinator{missing}}, 3,
			"00000000 000f 00 ffffffff 00 ffffffff 00"},
		"null host v4": {&FindCoordinatorResponse{}, &FindCoordinatorResponse{Coordinators: []Coordinator{missing}}, 4,
			"00000000 02 01 ffffffff 00 ffffffff 000f 00 00 00"},
		"tagged fields in every struct": {&FindCoordinatorResponse{}, &FindCoordinatorResponse{Coordinators: []Coordinator{missing, missing}}, 4,
			"00000000 03 01 ffffffff 01 ffffffff 000f 01 01 00 03 616263  01 ffffffff 01 ffffffff 000f 01 02 05 00 8001 01 61  01 09 01 ff"},
		"key type of tomorrow": {&FindCoordinatorRequest{}, &FindCoordinatorRequest{KeyType: 9, Keys: []string{"g"}}, 1, "0001 67 09"},
		"features of the broker": {&APIVersionsResponse{}, &APIVersionsResponse{APIs: []APIVersionRange{{APIKeyFindCoordinator, 0, 6}}}, 3,
			"0000 02 000a00000006 01 00 01 ff 00000000 02 00 03 010203 01 08 0000000000000001"},
		"overlong varint":            {&SaslAuthenticateRequest{}, &SaslAuthenticateRequest{AuthBytes: []byte("a")}, 2, "8280808000 61 00"},
		"null mechanisms":            {&SaslHandshakeResponse{}, &SaslHandshakeResponse{ErrorCode: ErrIllegalSaslState}, 1, "0022 ffffffff"},
		"null bytes beside an error": {&SaslAuthenticateResponse{}, &SaslAuthenticateResponse{ErrorCode: ErrSaslAuthenticationFailed}, 0, "003a ffff ffffffff"},
		"only half of whom to reach": {&APIVersionsRequest{}, &APIVersionsRequest{NodeID: 5}, 5, "01 01 00 00000005 00"},
		"true by any byte":           {&MetadataRequest{}, &MetadataRequest{AllTopics: true, AllowAutoTopicCreation: true}, 4, "ffffffff 7f"},
		"operations asked for":       {&MetadataRequest{}, &MetadataRequest{AllTopics: true, AllowAutoTopicCreation: true}, 8, "ffffffff 01 01 01"},
		"operations answered": {&MetadataResponse{}, &MetadataResponse{ControllerID: 1, Topics: []MetadataTopic{{Name: "a"}}}, 8,
			"00000000 00000000 ffff 00000001 00000001 0000 0001 61 00 00000000 00000df8 00000df8"},
		"null topic name v12": {&MetadataResponse{}, &MetadataResponse{ControllerID: 1, Topics: []MetadataTopic{{ErrorCode: 100, TopicID: [16]byte{15: 1}}}}, 12,
			"00000000 01 00 00000001 02 0064 00 00000000000000000000000000000001 00 01 80000000 00 00"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.got.Decode(unhex(t, c.body), c.version))
			require.Equal(t, c.want, c.got)
		})
	}
}

func TestErrorTexts(t *testing.T) {
	err := new(SaslHandshakeRequest).Decode([]byte{0, 1, 'a', 'b'}, 1)
	require.EqualError(t, err, "kafkawire: cannot decode SaslHandshakeRequest v1 at byte 3: bytes are left after the message: 1")
	_, _, err = DecodeResponseHeader([]byte{1}, APIKeyMetadata, 0)
	require.EqualError(t, err, "kafkawire: cannot decode ResponseHeader, correlation_id at byte 0: message is truncated: 4 bytes needed, 1 left")
	_, err = new(SaslHandshakeRequest).Encode(nil, 2)
	require.EqualError(t, err, "kafkawire: cannot encode SaslHandshakeRequest v2: version is not spoken here: SaslHandshake is written in versions 0-1")
	require.EqualError(t, new(SaslHandshakeRequest).Decode(nil, 2),
		"kafkawire: cannot decode SaslHandshakeRequest v2 at byte 0: version is not spoken here: SaslHandshake is read in versions 0-1")
	_, _, _, err = DecodeRequestHeader([]byte{0, 9, 0, 0, 0, 0, 0, 0, 0, 0})
	require.EqualError(t, err, "kafkawire: cannot decode RequestHeader v1, request_api_key at byte 0: API is not spoken here: 9")
}
