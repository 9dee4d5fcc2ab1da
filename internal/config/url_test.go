package config

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestURLsWithPasswordsAreNotShown: neither among the settings in force nor in the
// mistake, whatever else is wrong with the URL.
func TestURLsWithPasswordsAreNotShown(t *testing.T) {
	for path, others := range map[string][]string{
		"auth.oidc.issuer":                    {"--auth-oidc-audience=a"},
		"tracing.endpoint":                    nil,
		"kafka.sasl.oauth.token-endpoint-url": {"--kafka-sasl-mechanism=OAUTHBEARER", "--kafka-sasl-oauth-client-id=a", "--kafka-sasl-oauth-client-secret=b"},
	} {
		s := find(table, path)
		for _, value := range []string{"https://me:hunter2@login.example", "https://me:hunter2@login.example:port/", "me:hunter2@login.example", "https://me:hunter2%@login"} {
			loaded, err := Load(Sources{Flags: parseFlags(t, table, append(slices.Clone(others), "--"+s.Flag()+"="+value)...)})
			require.ErrorContains(t, err, path+" (flag --"+s.Flag()+"): the URL holds a user or a password", value)
			require.NotContains(t, err.Error(), "hunter2", value)
			require.NotContains(t, err.Error(), "\n", "it is one mistake")
			require.NotContains(t, s.format(&loaded.Settings), "hunter2", value)
		}
	}
}
