package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecurityNeedsAllItsParts(t *testing.T) {
	tlsOn := []string{"--tls-enabled", "--tls-cert-file=c", "--tls-key-file=k"}
	mutual := append([]string{"--tls-client-auth=require", "--tls-client-ca-file=ca"}, tlsOn...)
	for name, c := range map[string]struct {
		args []string
		says []string // each mistake; none: well
	}{
		"nothing":             {},
		"TLS":                 {args: tlsOn},
		"mutual TLS":          {args: append([]string{"--auth-allowed-subjects=a,b"}, mutual...)},
		"tokens":              {args: []string{"--auth-token-file=t", "--auth-policy-file=p"}},
		"OIDC":                {args: []string{"--auth-oidc-issuer=https://login.example", "--auth-oidc-audience=a", "--auth-policy-file=p"}},
		"policy by subject":   {args: append([]string{"--auth-policy-file=p"}, mutual...)},
		"TLS without files":   {args: []string{"--tls-enabled"}, says: []string{"tls.enabled (flag --tls-enabled): needs the certificate", "needs the key"}},
		"files without TLS":   {args: []string{"--tls-cert-file=c", "--tls-key-file=k"}, says: []string{"tls.cert-file (flag --tls-cert-file): is given, but tls.enabled is false", "tls.key-file"}},
		"clients without TLS": {args: []string{"--tls-client-auth=require", "--tls-client-ca-file=ca"}, says: []string{"tls.client-auth (flag --tls-client-auth): require needs TLS"}},
		"clients without CA":  {args: append([]string{"--tls-client-auth=require"}, tlsOn...), says: []string{"set tls.client-ca-file"}},
		"CA, not asked for":   {args: append([]string{"--tls-client-ca-file=ca"}, tlsOn...), says: []string{"tls.client-ca-file (flag --tls-client-ca-file): is given, but clients are not asked"}},
		"subjects, not asked": {args: append([]string{"--auth-allowed-subjects=a"}, tlsOn...), says: []string{"auth.allowed-subjects (flag --auth-allowed-subjects): is given, but clients are not asked"}},
		"issuer for anybody":  {args: []string{"--auth-oidc-issuer=https://login.example"}, says: []string{"auth.oidc.issuer (flag --auth-oidc-issuer): needs auth.oidc.audience"}},
		"audience alone":      {args: []string{"--auth-oidc-audience=a"}, says: []string{"auth.oidc.audience (flag --auth-oidc-audience): is given without"}},
		"issuer's CA alone":   {args: []string{"--auth-oidc-ca-file=a"}, says: []string{"auth.oidc.ca-file"}},
		"policy for nobody":   {args: []string{"--auth-policy-file=p"}, says: []string{"auth.policy-file (flag --auth-policy-file): is given, but nothing tells who is calling"}},
		"a word that is none": {args: []string{"--tls-client-auth=maybe"}, says: []string{`"maybe" is not one of off, require`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(Sources{Flags: parseFlags(t, table, c.args...)})
			if len(c.says) == 0 {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			require.Len(t, strings.Split(err.Error(), "\n"), len(c.says), err.Error())
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
		})
	}
}
