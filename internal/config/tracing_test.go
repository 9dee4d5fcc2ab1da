package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTracingSettings(t *testing.T) {
	for _, c := range []struct{ env, says string }{
		{"TRACING_ENDPOINT=http://otel:4318", ""},
		{"TRACING_ENDPOINT=https://otel.example/otlp", ""},
		{"TRACING_ENDPOINT=http://[::1]:4318", ""},
		{"TRACING_ENDPOINT=otel:4318", "begins with http://"},
		{"TRACING_ENDPOINT=grpc://otel:4317", "begins with http://"},
		{"TRACING_ENDPOINT=http://", "begins with http://"},
		{"TRACING_ENDPOINT=http://me:hunter2@otel:4318", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"TRACING_ENDPOINT=http://otel:4318?token=hunter2", "query"},
		{"TRACING_SAMPLE_RATIO=0", ""},
		{"TRACING_SAMPLE_RATIO=1", ""},
		{"TRACING_SAMPLE_RATIO=0.001", ""},
		{"TRACING_SAMPLE_RATIO=1.01", "out of range"},
		{"TRACING_SAMPLE_RATIO=-1", "out of range"},
		{"TRACING_SAMPLE_RATIO=NaN", "is not a number"},
		{"TRACING_SAMPLE_RATIO=inf", "is not a number"},
		{"TRACING_SAMPLE_RATIO=10%", "is not a number"},
	} {
		_, err := Load(Sources{Environ: []string{EnvPrefix + c.env}})
		if c.says == "" {
			require.NoError(t, err, c.env)
			continue
		}
		require.ErrorContains(t, err, c.says, c.env)
		require.NotContains(t, err.Error(), "hunter2")
	}
	loaded, err := Load(Sources{Environ: []string{"COORDSVC_TRACING_ENDPOINT=http://otel:4318"}, Flags: parseFlags(t, table, "--tracing-endpoint=", "--tracing-sample-ratio=0.25")})
	require.NoError(t, err)
	require.Empty(t, loaded.Tracing.Endpoint, "an empty flag turns it off")
	require.Equal(t, 0.25, loaded.Tracing.SampleRatio)
}
