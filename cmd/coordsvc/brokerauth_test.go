package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
)

// A file that cannot be used stops each command before anything is dialled, and the
// setting and the file are named.
func TestWrongFilesForBrokers(t *testing.T) {
	stub := kafkatest.NewStub(t, kafkatest.StubConfig{})
	dir := t.TempDir()
	authority := kafkatest.NewAuthority(t, "ca")
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	cert := write("cert.pem", authority.Issue("one").CertPEM)
	key := write("key.pem", authority.Issue("two").KeyPEM)
	empty := write("empty", nil)
	missing := filepath.Join(dir, "missing")
	for _, tc := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--kafka-tls-enabled", "--kafka-tls-ca-file", missing}, "kafka.tls.ca-file (flag --kafka-tls-ca-file): " + missing + ": cannot be read: no such file or directory"},
		{[]string{"--kafka-tls-enabled", "--kafka-tls-cert-file", cert, "--kafka-tls-key-file", key},
			"kafka.tls.key-file (flag --kafka-tls-key-file): " + key + ": it is not the key of the certificate in " + cert + " (kafka.tls.cert-file): tls: private key does not match public key"},
		{[]string{"--kafka-sasl-mechanism", "PLAIN", "--kafka-sasl-username", "a", "--kafka-sasl-password-file", empty},
			"kafka.sasl.password-file (flag --kafka-sasl-password-file): " + empty + ": it is empty"},
		{[]string{"--kafka-sasl-mechanism", "OAUTHBEARER", "--kafka-sasl-token-file", dir}, "kafka.sasl.token-file (flag --kafka-sasl-token-file): " + dir + ": is not a file"},
		{[]string{"--kafka-sasl-mechanism", "OAUTHBEARER", "--kafka-sasl-oauth-token-endpoint-url", "https://login.example/token",
			"--kafka-sasl-oauth-client-id", "a", "--kafka-sasl-oauth-client-secret-file", missing},
			"kafka.sasl.oauth.client-secret-file (flag --kafka-sasl-oauth-client-secret-file): " + missing + ": cannot be read: no such file or directory"},
	} {
		for _, command := range []string{"serve", "lookup", "config"} {
			args := append([]string{command, "--kafka-brokers", stub.Addr()}, tc.flags...)
			if command == "lookup" {
				args = append(args, "group")
			}
			got := coordsvc(t, args...)
			require.Equal(t, exitUsage, got.code, got.err)
			require.Contains(t, got.err, "coordsvc: "+tc.want+"\n")
			require.Zero(t, stub.Accepted())
		}
	}
}

// A lookup with TLS and SASL against a stub, as the command line gives it.
func TestLookupWithTLSAndSASL(t *testing.T) {
	authority := kafkatest.NewAuthority(t, "ca")
	stub := kafkatest.NewStub(t, kafkatest.StubConfig{TLS: authority.Server(t, "127.0.0.1")})
	stub.RequireSASL(&kafkatest.SASL{Users: map[string]string{"alice": "hunter2"}})
	dir := t.TempDir()
	ca, password := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(ca, authority.PEM, 0o600))
	require.NoError(t, os.WriteFile(password, []byte("hunter2\n"), 0o600))
	lookup := func(mechanism string, user string) outcome {
		return coordsvc(t, "lookup", "--kafka-brokers", stub.Addr(), "--kafka-tls-enabled", "--kafka-tls-ca-file", ca, "--log-level=debug",
			"--kafka-sasl-mechanism", mechanism, "--kafka-sasl-username", user, "--kafka-sasl-password-file", password, "group")
	}
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		got := lookup(mechanism, "alice")
		require.Zero(t, got.code, got.err)
		require.Contains(t, got.out, "127.0.0.1")
		got = lookup(mechanism, "mallory")
		require.Equal(t, exitUnreachable, got.code)
		require.Contains(t, got.err, "refused the credentials ("+mechanism+")")
		require.NotContains(t, got.err+got.out, "hunter2")
	}
}
