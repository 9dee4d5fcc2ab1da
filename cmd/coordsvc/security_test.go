package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Neither serve nor config takes files that cannot be used, and both say where
// the setting was made.
func TestUnusableFilesStopServeAndConfig(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	settings := filepath.Join(t.TempDir(), "coordsvc.yaml")
	require.NoError(t, os.WriteFile(settings, []byte("auth:\n  token-file: "+empty+"\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		env  []string
		says string
	}{
		"token file":   {args: []string{"--config", settings}, says: "auth.token-file (file " + settings + ":2): " + empty + ": holds no token"},
		"certificate":  {args: []string{"--tls-enabled", "--tls-cert-file=/nowhere", "--tls-key-file=/nowhere"}, says: "tls.cert-file (flag --tls-cert-file): /nowhere: cannot be read: no such file or directory"},
		"issuer":       {env: []string{"COORDSVC_AUTH_OIDC_ISSUER=http://login.example", "COORDSVC_AUTH_OIDC_AUDIENCE=a"}, says: "auth.oidc.issuer (environment COORDSVC_AUTH_OIDC_ISSUER): \"http://login.example\" must begin with https://"},
		"combinations": {args: []string{"--tls-enabled"}, says: "tls.enabled (flag --tls-enabled): needs the certificate"},
	} {
		for _, command := range []string{"serve", "config"} {
			t.Run(command+", "+name, func(t *testing.T) {
				got := call{
					args: append([]string{command, "--kafka-brokers=127.0.0.1:1", "--grpc-address=127.0.0.1:0", "--http-address=127.0.0.1:0", "--admin-address=127.0.0.1:0"}, c.args...),
					env:  c.env,
				}.run(t)
				require.Equal(t, exitUsage, got.code, got.err)
				require.Contains(t, got.err, c.says)
				require.NotContains(t, got.err, "listening")
			})
		}
	}
}
