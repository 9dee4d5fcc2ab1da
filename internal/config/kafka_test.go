package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is wrong with the settings of TLS and SASL is said before anything is dialled,
// by the name of the setting.
func TestKafkaSecurityMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"":                          "",
		"--kafka-tls-enabled":       "",
		"--kafka-tls-ca-file=a.pem": "kafka.tls.ca-file (flag --kafka-tls-ca-file): it has no effect while kafka.tls.enabled is false (default)",
		"--kafka-tls-enabled=false --kafka-tls-insecure-skip-verify":                                                         "kafka.tls.insecure-skip-verify (flag --kafka-tls-insecure-skip-verify): it has no effect while kafka.tls.enabled is false (flag --kafka-tls-enabled)",
		"--kafka-tls-enabled --kafka-tls-cert-file=a":                                                                        "kafka.tls.cert-file (flag --kafka-tls-cert-file): it needs kafka.tls.key-file, the file with the certificate's private key",
		"--kafka-tls-enabled --kafka-tls-key-file=a":                                                                         "kafka.tls.key-file (flag --kafka-tls-key-file): it needs kafka.tls.cert-file, the file with the key's certificate",
		"--kafka-tls-enabled --kafka-tls-key-file=a --kafka-tls-cert-file=b --kafka-tls-ca-file=c --kafka-tls-server-name=d": "",

		"--kafka-sasl-mechanism=SCRAM-SHA256":                                                                             `kafka.sasl.mechanism (flag --kafka-sasl-mechanism): "SCRAM-SHA256" is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER; did you mean SCRAM-SHA-256?`,
		"--kafka-sasl-mechanism=plain":                                                                                    `kafka.sasl.mechanism (flag --kafka-sasl-mechanism): "plain" is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER; did you mean PLAIN?`,
		"--kafka-sasl-mechanism=GSSAPI":                                                                                   `kafka.sasl.mechanism (flag --kafka-sasl-mechanism): "GSSAPI" is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER`,
		"--kafka-sasl-username=a":                                                                                         "kafka.sasl.username (flag --kafka-sasl-username): it has no effect without kafka.sasl.mechanism",
		"--kafka-sasl-mechanism=PLAIN --kafka-sasl-password=b":                                                            "kafka.sasl.mechanism (flag --kafka-sasl-mechanism): PLAIN needs kafka.sasl.username",
		"--kafka-sasl-mechanism=PLAIN --kafka-sasl-username=a":                                                            "kafka.sasl.mechanism (flag --kafka-sasl-mechanism): PLAIN needs kafka.sasl.password or kafka.sasl.password-file",
		"--kafka-sasl-mechanism=PLAIN --kafka-sasl-username=a --kafka-sasl-password=hunter2":                              "",
		"--kafka-sasl-mechanism=SCRAM-SHA-512 --kafka-sasl-username=a --kafka-sasl-password-file=f":                       "",
		"--kafka-sasl-mechanism=OAUTHBEARER --kafka-sasl-token-file=f":                                                    "",
		"--kafka-sasl-mechanism=OAUTHBEARER":                                                                              "kafka.sasl.mechanism (flag --kafka-sasl-mechanism): OAUTHBEARER needs kafka.sasl.token-file or kafka.sasl.oauth.token-endpoint-url",
		"--kafka-sasl-mechanism=OAUTHBEARER --kafka-sasl-token-file=f --kafka-sasl-username=a":                            "kafka.sasl.username (flag --kafka-sasl-username): it is not for the mechanism OAUTHBEARER, which has a token in place of a user and a password",
		"--kafka-sasl-mechanism=OAUTHBEARER --kafka-sasl-token-file=f --kafka-sasl-oauth-client-id=a":                     "kafka.sasl.oauth.client-id (flag --kafka-sasl-oauth-client-id): it has no effect without kafka.sasl.oauth.token-endpoint-url",
		"--kafka-sasl-mechanism=PLAIN --kafka-sasl-username=a --kafka-sasl-password=hunter2 --kafka-sasl-password-file=f": "kafka.sasl.password-file (flag --kafka-sasl-password-file): kafka.sasl.password is given as well (flag --kafka-sasl-password); give one of them",
		"--kafka-sasl-mechanism=PLAIN --kafka-sasl-username=a --kafka-sasl-password=hunter2 --kafka-sasl-token-file=f":    "kafka.sasl.token-file (flag --kafka-sasl-token-file): it is for the mechanism OAUTHBEARER, but kafka.sasl.mechanism is PLAIN",
		"--kafka-sasl-mechanism=PLAIN --kafka-sasl-username=a --kafka-sasl-password=hunter2\n":                            "kafka.sasl.password (flag --kafka-sasl-password): the value is not valid; it is a secret and not shown here",

		"--kafka-sasl-mechanism=OAUTHBEARER --kafka-sasl-oauth-token-endpoint-url=https://a/t --kafka-sasl-oauth-client-secret=hunter2":                                "kafka.sasl.oauth.token-endpoint-url (flag --kafka-sasl-oauth-token-endpoint-url): it needs kafka.sasl.oauth.client-id",
		"--kafka-sasl-mechanism=OAUTHBEARER --kafka-sasl-oauth-token-endpoint-url=https://a/t --kafka-sasl-oauth-client-id=a":                                          "kafka.sasl.oauth.token-endpoint-url (flag --kafka-sasl-oauth-token-endpoint-url): a token endpoint needs kafka.sasl.oauth.client-secret or kafka.sasl.oauth.client-secret-file",
		"--kafka-sasl-mechanism=OAUTHBEARER --kafka-sasl-oauth-token-endpoint-url=https://a/t --kafka-sasl-oauth-client-id=a --kafka-sasl-oauth-client-secret=hunter2": "",
		"--kafka-sasl-mechanism=OAUTHBEARER --kafka-sasl-oauth-token-endpoint-url=login.example/t":                                                                     `kafka.sasl.oauth.token-endpoint-url (flag --kafka-sasl-oauth-token-endpoint-url): "login.example/t" is no URL that begins with https:// or http:// and has a host`,
		"--kafka-sasl-mechanism=OAUTHBEARER --kafka-sasl-oauth-token-endpoint-url=https://a:hunter2@b/t":                                                               `kafka.sasl.oauth.token-endpoint-url (flag --kafka-sasl-oauth-token-endpoint-url): the URL holds a user or a password; give them by settings of their own`,
		"--kafka-sasl-mechanism=OAUTHBEARER --kafka-sasl-token-file=f --kafka-sasl-oauth-extensions=a=1,b":                                                             `kafka.sasl.oauth.extensions (flag --kafka-sasl-oauth-extensions): "b" is not name=value`,
		"--kafka-sasl-mechanism=OAUTHBEARER --kafka-sasl-token-file=f --kafka-sasl-oauth-extensions=auth=1":                                                            `kafka.sasl.oauth.extensions (flag --kafka-sasl-oauth-extensions): "auth" cannot be the name of an extension: it has letters only, and auth is taken`,
		"--kafka-sasl-mechanism=OAUTHBEARER --kafka-sasl-token-file=f --kafka-sasl-oauth-extensions=a=1,a=2":                                                           `kafka.sasl.oauth.extensions (flag --kafka-sasl-oauth-extensions): the extension a is given twice`,
		"--kafka-sasl-mechanism=OAUTHBEARER --kafka-sasl-token-file=f --kafka-sasl-oauth-extensions=a=1,b=x=y":                                                         "",
	} {
		t.Run(args, func(t *testing.T) {
			var given []string
			if args != "" {
				given = strings.Split(args, " ")
			}
			_, err := Load(Sources{Flags: parseFlags(t, table, given...)})
			if want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, want)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}
