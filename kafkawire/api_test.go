package kafkawire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNegotiate(t *testing.T) {
	ours := VersionRange{0, 6}
	for name, c := range map[string]struct {
		ours, theirs VersionRange
		want         Version // -1: none
	}{
		"theirs is lower":        {ours, VersionRange{0, 3}, 3},
		"theirs is higher":       {ours, VersionRange{0, 9}, 6},
		"same":                   {ours, ours, 6},
		"only the highest":       {ours, VersionRange{6, 6}, 6},
		"only the lowest":        {ours, VersionRange{0, 0}, 0},
		"their minimum overlaps": {ours, VersionRange{4, 9}, 6},
		"our minimum overlaps":   {VersionRange{4, 6}, VersionRange{0, 5}, 5},
		"theirs begin above":     {ours, VersionRange{7, 9}, -1},
		"theirs end below":       {VersionRange{4, 6}, VersionRange{0, 3}, -1},
		"max below min":          {ours, VersionRange{5, 2}, -1},
		"ours are pinned away":   {VersionRange{3, 1}, ours, -1},
		"negative maximum":       {ours, VersionRange{-3, -1}, -1},
		"negative minimum":       {ours, VersionRange{-1, 3}, -1},
		"our minimum negative":   {VersionRange{-1, 3}, ours, -1},
		"both negative":          {VersionRange{-2, -1}, VersionRange{-2, -1}, -1},
		"key absent":             {ours, noVersions, -1},
		"not spoken here":        {Supported(0), ours, -1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Negotiate(c.ours, c.theirs)
			require.Equal(t, c.want, got)
			if c.want >= 0 {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrNoCommonVersion)
		})
	}
	_, err := Negotiate(ours, VersionRange{7, 9})
	require.EqualError(t, err, "no common version: ours are 0-6, theirs are 7-9")
}

func TestSupported(t *testing.T) {
	for key, want := range map[APIKey]VersionRange{
		APIKeyMetadata:         {0, 12},
		APIKeyFindCoordinator:  {0, 6},
		APIKeySaslHandshake:    {0, 1},
		APIKeyAPIVersions:      {0, 5},
		APIKeySaslAuthenticate: {0, 2},
		0:                      noVersions,
		-1:                     noVersions,
	} {
		require.Equal(t, want, Supported(key), key)
	}
}

func TestStrings(t *testing.T) {
	for want, value := range map[string]interface{ String() string }{
		"Metadata":                  APIKeyMetadata,
		"FindCoordinator":           APIKeyFindCoordinator,
		"SaslHandshake":             APIKeySaslHandshake,
		"ApiVersions":               APIKeyAPIVersions,
		"SaslAuthenticate":          APIKeySaslAuthenticate,
		"API 42":                    APIKey(42),
		"0-6":                       VersionRange{0, 6},
		"none":                      noVersions,
		"GROUP":                     KeyTypeGroup,
		"TRANSACTION":               KeyTypeTransaction,
		"SHARE":                     KeyTypeShare,
		"KEY_TYPE_9":                KeyType(9),
		"COORDINATOR_NOT_AVAILABLE": ErrCoordinatorNotAvailable,
		"KAFKA_-3":                  ErrorCode(-3),
	} {
		require.Equal(t, want, value.String())
	}
}
