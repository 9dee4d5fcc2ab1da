package config

// need is a setting that does nothing, or worse than it seems, without another.
type need struct {
	setting string
	given   bool
	missing bool
	reason  string
}

// checkSecurity refuses what would be less than was asked for: a certificate that
// nobody is shown, a list of names that nothing is compared with.
func (l *Loaded) checkSecurity() []error {
	tls, auth := &l.TLS, &l.Auth
	tlsOff := !tls.Enabled
	require := tls.ClientAuth == "require"
	noCaller := !require && auth.TokenFile == "" && auth.OIDC.Issuer == ""
	var mistakes []error
	for _, n := range []need{
		{"tls.enabled", tls.Enabled, tls.CertFile == "", "needs the certificate: set tls.cert-file"},
		{"tls.enabled", tls.Enabled, tls.KeyFile == "", "needs the key of the certificate: set tls.key-file"},
		{"tls.cert-file", tls.CertFile != "", tlsOff, "is given, but tls.enabled is false: set it to true, or leave this out"},
		{"tls.key-file", tls.KeyFile != "", tlsOff, "is given, but tls.enabled is false: set it to true, or leave this out"},
		{"tls.client-auth", require, tlsOff, "require needs TLS: set tls.enabled to true"},
		{"tls.client-auth", require, tls.ClientCAFile == "", "require needs the authorities of the clients: set tls.client-ca-file"},
		{"tls.client-ca-file", tls.ClientCAFile != "", !require, "is given, but clients are not asked for certificates: set tls.client-auth to require"},
		{"auth.allowed-subjects", len(auth.AllowedSubjects) > 0, !require, "is given, but clients are not asked for certificates: set tls.client-auth to require"},
		{"auth.oidc.issuer", auth.OIDC.Issuer != "", len(auth.OIDC.Audience) == 0,
			"needs auth.oidc.audience: without it every token that the issuer made for anybody would be accepted"},
		{"auth.oidc.audience", len(auth.OIDC.Audience) > 0, auth.OIDC.Issuer == "", "is given without auth.oidc.issuer"},
		{"auth.oidc.ca-file", auth.OIDC.CAFile != "", auth.OIDC.Issuer == "", "is given without auth.oidc.issuer"},
		{"auth.policy-file", auth.PolicyFile != "", noCaller,
			"is given, but nothing tells who is calling: set auth.token-file, auth.oidc.issuer or tls.client-auth too"},
	} {
		if n.given && n.missing {
			mistakes = append(mistakes, &Error{Setting: n.setting, Origin: l.origins[n.setting], Reason: n.reason})
		}
	}
	return mistakes
}
