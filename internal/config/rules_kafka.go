package config

// given reports whether a setting has a value that is not its default.
func (l *Loaded) given(path string) bool {
	s := find(l.table, path)
	return s != nil && s.format(&l.Settings) != s.Default
}

func (l *Loaded) checkKafkaTLS(broken func(path, format string, args ...any)) {
	const certificate, key = "kafka.tls.cert-file", "kafka.tls.key-file"
	if !l.Kafka.TLS.Enabled {
		for _, path := range []string{"kafka.tls.ca-file", certificate, key, "kafka.tls.server-name", "kafka.tls.insecure-skip-verify"} {
			if l.given(path) {
				broken(path, "it has no effect while kafka.tls.enabled is false (%s)", l.origins["kafka.tls.enabled"])
			}
		}
		return
	}
	switch {
	case l.given(certificate) && !l.given(key):
		broken(certificate, "it needs kafka.tls.key-file, the file with the certificate's private key")
	case l.given(key) && !l.given(certificate):
		broken(key, "it needs kafka.tls.cert-file, the file with the key's certificate")
	}
}

// The settings that are for some mechanisms only.
var (
	passwordSettings = []string{"kafka.sasl.username", "kafka.sasl.password", "kafka.sasl.password-file"}
	clientSettings   = []string{"kafka.sasl.oauth.client-id", "kafka.sasl.oauth.client-secret", "kafka.sasl.oauth.client-secret-file", "kafka.sasl.oauth.scope"}
	tokenSettings    = append([]string{"kafka.sasl.token-file", "kafka.sasl.oauth.token-endpoint-url", "kafka.sasl.oauth.extensions"}, clientSettings...)
)

func (l *Loaded) checkKafkaSASL(broken func(path, format string, args ...any)) {
	mechanism := l.Kafka.SASL.Mechanism
	const path = "kafka.sasl.mechanism"
	unused := func(paths []string, why string) {
		for _, path := range paths {
			if l.given(path) {
				broken(path, "%s", why)
			}
		}
	}
	switch mechanism {
	case "":
		const why = "it has no effect without kafka.sasl.mechanism"
		unused(passwordSettings, why)
		unused(tokenSettings, why)
	case "OAUTHBEARER":
		unused(passwordSettings, "it is not for the mechanism OAUTHBEARER, which has a token in place of a user and a password")
		l.oneOf(broken, path, mechanism, "kafka.sasl.token-file", "kafka.sasl.oauth.token-endpoint-url")
		l.checkTokenEndpoint(broken, unused)
	default:
		unused(tokenSettings, "it is for the mechanism OAUTHBEARER, but kafka.sasl.mechanism is "+mechanism)
		if !l.given("kafka.sasl.username") {
			broken(path, "%s needs kafka.sasl.username", mechanism)
		}
		l.oneOf(broken, path, mechanism, "kafka.sasl.password", "kafka.sasl.password-file")
	}
}

func (l *Loaded) checkTokenEndpoint(broken func(path, format string, args ...any), unused func([]string, string)) {
	const endpoint = "kafka.sasl.oauth.token-endpoint-url"
	if !l.given(endpoint) {
		unused(clientSettings, "it has no effect without "+endpoint)
		return
	}
	if !l.given("kafka.sasl.oauth.client-id") {
		broken(endpoint, "it needs kafka.sasl.oauth.client-id")
	}
	l.oneOf(broken, endpoint, "a token endpoint", "kafka.sasl.oauth.client-secret", "kafka.sasl.oauth.client-secret-file")
}

// oneOf wants exactly one of two settings for the sake of what.
func (l *Loaded) oneOf(broken func(path, format string, args ...any), path, what, first, second string) {
	switch one, other := l.given(first), l.given(second); {
	case one && other:
		broken(second, "%s is given as well (%s); give one of them", first, l.origins[first])
	case !one && !other:
		broken(path, "%s needs %s or %s", what, first, second)
	}
}
