package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{"8MiB": 8 << 20, "512KiB": 512 << 10, "1GiB": 1 << 30, "100000B": 100_000, "0B": 0, "8 MiB": 8 << 20} {
		got, err := parseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		again, err := parseSize(got.String())
		require.NoError(t, err)
		require.Equal(t, want, again)
	}
	for text, says := range map[string]string{
		"8388608": "has no unit", "8MB": "is not a size", "8 M": "is not a size", "-1MiB": "is not a size", "1.5MiB": "is not a size",
		"MiB": "is not a size", "": "is not a size", "9999999999GiB": "is not a size", "8mib": "is not a size",
	} {
		_, err := parseSize(text)
		require.ErrorContains(t, err, says, text)
	}
	require.Equal(t, "1025KiB", Size(1025<<10).String())
	require.Equal(t, "1025B", Size(1025).String())
}

func TestMaxMessageBytesSetting(t *testing.T) {
	loaded, err := Load(Sources{Environ: []string{"COORDSVC_LIMITS_MAX_MESSAGE_BYTES=1MiB"}})
	require.NoError(t, err)
	require.Equal(t, Size(1<<20), loaded.Limits.MaxMessageBytes)
	_, err = Load(Sources{Environ: []string{"COORDSVC_LIMITS_MAX_MESSAGE_BYTES=1B"}})
	require.ErrorContains(t, err, "64KiB to 1GiB")
}
