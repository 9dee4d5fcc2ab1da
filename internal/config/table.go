package config

import (
	"iter"
	"slices"
	"strings"
	"time"
)

// Setting is one row of the table.
type Setting struct {
	// Path is the place in the YAML file, for example kafka.dial-timeout. The names
	// of the flag and of the environment variable are made from it.
	Path string
	// Default is written as a person would give it. It is empty only where there is
	// no default.
	Default string
	// Doc says what the setting does and when to change it, in whole sentences. The
	// first one is the help of the flag.
	Doc string
	// Example is a value worth showing. Without one the default is shown.
	Example string
	// Required settings have no default; the commands that use them refuse to start
	// without.
	Required bool
	// Secret values are never printed, neither in errors nor by `coordsvc config`.
	Secret bool
	// Limit is what the value must keep to.
	Limit Limit
	// Formerly is the path that the setting had before it was renamed; "" where it
	// was not. The old names still work, with a warning, until the row loses this.
	Formerly string

	// field points to the place in the settings that holds the value: a *string,
	// *bool, *int, *float64, *Size, *time.Duration or *[]string. Its type is the type of the setting.
	field func(*Settings) any
}

// Sections describes the first part of the paths, in the order of the documentation.
var Sections = []Section{
	{"kafka", "The cluster to ask"},
	{"pool", "Connections to each broker"},
	{"lookup", "Lookups"},
	{"grpc", "gRPC port"},
	{"http", "REST port"},
	{"admin", "Admin port"},
	{"tls", "TLS on the gRPC and the REST port"},
	{"auth", "Who may call"},
	{"limits", "Limits"},
	{"log", "Logs"},
	{"tracing", "Traces"},
	{"shutdown", "Stopping"},
}

// Section is a group of settings.
type Section struct {
	Name  string
	Title string
}

// All yields every setting, grouped by section, in the order of the documentation.
// Documentation, schemas and deployment files are generated from it.
func All() iter.Seq[*Setting] {
	return slices.Values(table)
}

// Flag is the name of the flag, without the dashes: kafka-dial-timeout.
func (s *Setting) Flag() string { return strings.ReplaceAll(s.Path, ".", "-") }

// Env is the name of the environment variable: COORDSVC_KAFKA_DIAL_TIMEOUT.
func (s *Setting) Env() string {
	return EnvPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(s.Path))
}

// Section is the first part of the path: kafka.
func (s *Setting) Section() string {
	section, _, _ := strings.Cut(s.Path, ".")
	return section
}

// Summary is the first sentence of the documentation, for help texts.
func (s *Setting) Summary() string {
	if i := strings.Index(s.Doc, ". "); i >= 0 {
		return s.Doc[:i+1]
	}
	return s.Doc
}

var table = []*Setting{
	{
		Path:     "kafka.brokers",
		Required: true,
		Example:  "kafka-1.example:9092,kafka-2.example:9092",
		Doc: "Brokers to start from, as host:port. Two or three are enough: the others are found through them. " +
			"An IPv6 address stands in brackets: [2001:db8::1]:9092.",
		Limit: brokerAddresses(),
		field: func(s *Settings) any { return &s.Kafka.Brokers },
	},
	{
		Path:    "kafka.client-id",
		Default: "coordsvc",
		Doc:     "The client id sent with every request. Brokers show it in their request logs and apply quotas by it.",
		Limit:   printable(255),
		field:   func(s *Settings) any { return &s.Kafka.ClientID },
	},
	{
		Path:    "kafka.discover-brokers",
		Default: "true",
		Doc: "Ask the cluster for its brokers and spread lookups over all of them. " +
			"Set it to false where only the brokers of kafka.brokers can be reached.",
		field: func(s *Settings) any { return &s.Kafka.DiscoverBrokers },
	},
	{
		Path:    "kafka.dial-timeout",
		Default: "5s",
		Doc: "How long each step to a ready connection may take: connecting, and asking for the versions. " +
			"A broker that stays silent when asked for its versions (Kafka 0.9) costs one such wait.",
		Limit: between(10*time.Millisecond, 5*time.Minute),
		field: func(s *Settings) any { return &s.Kafka.DialTimeout },
	},
	{
		Path:    "kafka.request-timeout",
		Default: "10s",
		Doc: "How long a broker may take to answer one request. " +
			"After that its connection is closed and the keys are asked of another broker.",
		Limit: between(10*time.Millisecond, 5*time.Minute),
		field: func(s *Settings) any { return &s.Kafka.RequestTimeout },
	},
	{
		Path:    "kafka.max-api-versions",
		Default: "3",
		Doc: "The ApiVersions version to ask first. " +
			"Lower it only for a proxy or broker that closes the connection on a version it does not know.",
		Limit: from(0, 4),
		field: func(s *Settings) any { return &s.Kafka.MaxAPIVersions },
	},
	{
		Path:    "kafka.tls.enabled",
		Default: "false",
		Doc:     "Speak TLS to the brokers. The port must be that of a listener with SSL or SASL_SSL.",
		field:   func(s *Settings) any { return &s.Kafka.TLS.Enabled },
	},
	{
		Path:    "kafka.tls.ca-file",
		Example: "/etc/coordsvc/kafka-ca.pem",
		Doc: "Authorities that sign the brokers' certificates, in PEM form. Without it those of the operating system are trusted. " +
			"The files of kafka.tls.* are read again for each new connection; while a changed file cannot be used, what it held before is.",
		field: func(s *Settings) any { return &s.Kafka.TLS.CAFile },
	},
	{
		Path:    "kafka.tls.cert-file",
		Example: "/etc/coordsvc/kafka-client.pem",
		Doc:     "The certificate to show to brokers that ask for one, with its chain, in PEM form. It needs kafka.tls.key-file.",
		field:   func(s *Settings) any { return &s.Kafka.TLS.CertFile },
	},
	{
		Path:    "kafka.tls.key-file",
		Example: "/etc/coordsvc/kafka-client-key.pem",
		Doc:     "The private key of kafka.tls.cert-file, in PEM form and not encrypted.",
		field:   func(s *Settings) any { return &s.Kafka.TLS.KeyFile },
	},
	{
		Path:    "kafka.tls.server-name",
		Example: "kafka.example",
		Doc:     "The name to expect in every broker's certificate. Without it that is the host that is connected to.",
		field:   func(s *Settings) any { return &s.Kafka.TLS.ServerName },
	},
	{
		Path:    "kafka.tls.insecure-skip-verify",
		Default: "false",
		Doc:     "Take any certificate for the brokers'. Whoever is on the way can then read and change everything: for trials only.",
		field:   func(s *Settings) any { return &s.Kafka.TLS.InsecureSkipVerify },
	},
	{
		Path:    "kafka.sasl.mechanism",
		Example: "SCRAM-SHA-512",
		Doc: "How to authenticate with the brokers. Without it connections do not. " +
			"PLAIN and OAUTHBEARER show the brokers the secret itself and should have TLS.",
		Limit: oneOf("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
		field: func(s *Settings) any { return &s.Kafka.SASL.Mechanism },
	},
	{
		Path:    "kafka.sasl.username",
		Example: "coordsvc",
		Doc:     "The user of PLAIN and SCRAM. It needs the ACLs DESCRIBE on the groups and the transactional ids to look up.",
		Limit:   oneLine(),
		field:   func(s *Settings) any { return &s.Kafka.SASL.Username },
	},
	{
		Path:    "kafka.sasl.password",
		Secret:  true,
		Example: "change-me",
		Doc: "The password of PLAIN and SCRAM. " +
			"Everybody on the machine can see a flag: prefer kafka.sasl.password-file.",
		Limit: oneLine(),
		field: func(s *Settings) any { return &s.Kafka.SASL.Password },
	},
	{
		Path:    "kafka.sasl.password-file",
		Example: "/run/secrets/kafka-password",
		Doc: "A file that holds the password; a line's end after it does not count. " +
			"It is read at each authentication, so that a new password needs no restart.",
		field: func(s *Settings) any { return &s.Kafka.SASL.PasswordFile },
	},
	{
		Path:    "kafka.sasl.token-file",
		Example: "/run/secrets/kafka-token",
		Doc: "A file that holds the token of OAUTHBEARER. " +
			"It is read at each authentication: who writes it must replace the token in time.",
		field: func(s *Settings) any { return &s.Kafka.SASL.TokenFile },
	},
	{
		Path:    "kafka.sasl.oauth.token-endpoint-url",
		Example: "https://login.example/oauth2/token",
		Doc: "Where to get tokens for OAUTHBEARER with a client id and its secret (the client credentials grant), in place of kafka.sasl.token-file. " +
			"A token is used again until a fifth of its life is left.",
		Limit: httpURL(),
		field: func(s *Settings) any { return &s.Kafka.SASL.OAuth.TokenEndpointURL },
	},
	{
		Path:    "kafka.sasl.oauth.client-id",
		Example: "coordsvc",
		Doc:     "The client id at the token endpoint.",
		Limit:   oneLine(),
		field:   func(s *Settings) any { return &s.Kafka.SASL.OAuth.ClientID },
	},
	{
		Path:    "kafka.sasl.oauth.client-secret",
		Secret:  true,
		Example: "change-me",
		Doc:     "The client's secret at the token endpoint. Everybody on the machine can see a flag: prefer kafka.sasl.oauth.client-secret-file.",
		Limit:   oneLine(),
		field:   func(s *Settings) any { return &s.Kafka.SASL.OAuth.ClientSecret },
	},
	{
		Path:    "kafka.sasl.oauth.client-secret-file",
		Example: "/run/secrets/oauth-client-secret",
		Doc:     "A file that holds the client's secret; a line's end after it does not count. It is read each time that a token is fetched.",
		field:   func(s *Settings) any { return &s.Kafka.SASL.OAuth.ClientSecretFile },
	},
	{
		Path:    "kafka.sasl.oauth.scope",
		Example: "kafka.read",
		Doc:     "The scopes to ask the token endpoint for, separated by spaces.",
		field:   func(s *Settings) any { return &s.Kafka.SASL.OAuth.Scope },
	},
	{
		Path:    "kafka.sasl.oauth.extensions",
		Example: "logicalCluster=lkc-abc123,identityPoolId=pool-1",
		Doc:     "What to tell brokers beside the token (KIP-342), as name=value. Confluent Cloud wants logicalCluster and identityPoolId.",
		Limit:   saslExtensions(),
		field:   func(s *Settings) any { return &s.Kafka.SASL.OAuth.Extensions },
	},

	{
		Path:    "pool.max-connections-per-broker",
		Default: "4",
		Doc: "Connections to one broker at most. Kafka answers one request at a time on a connection, " +
			"so this is how many requests a broker works on for one instance of coordsvc.",
		Limit: from(1, 1000),
		field: func(s *Settings) any { return &s.Pool.MaxConnectionsPerBroker },
	},
	{
		Path:    "pool.max-idle-time",
		Default: "3m",
		Doc: "How long a connection may be unused before it is closed. " +
			"Keep it below connections.max.idle.ms of the brokers (10 minutes unless changed) and below what firewalls between allow.",
		Limit: between(time.Second, 24*time.Hour),
		field: func(s *Settings) any { return &s.Pool.MaxIdleTime },
	},
	{
		Path:    "pool.max-lifetime",
		Default: "1h",
		Doc:     "How long a connection is used before a new one takes its place. Each connection gets up to a tenth less, so that they do not all end at once.",
		Limit:   between(time.Second, 7*24*time.Hour),
		field:   func(s *Settings) any { return &s.Pool.MaxLifetime },
	},
	{
		Path:    "pool.acquire-timeout",
		Default: "2s",
		Doc:     "How long a batch of keys waits for a free connection. Then it is tried again as long as a caller waits for it.",
		Limit:   between(time.Millisecond, 5*time.Minute),
		field:   func(s *Settings) any { return &s.Pool.AcquireTimeout },
	},
	{
		Path:    "pool.max-waiters",
		Default: "1024",
		Doc:     "How many batches may wait for a connection at a time, whichever the broker. More are refused at once.",
		Limit:   from(1, 1_000_000),
		field:   func(s *Settings) any { return &s.Pool.MaxWaiters },
	},

	{
		Path:    "lookup.max-keys",
		Default: "10000",
		Doc:     "Keys in one call at most. A call with more is refused as a whole.",
		Limit:   from(1, 1_000_000),
		field:   func(s *Settings) any { return &s.Lookup.MaxKeys },
	},
	{
		Path:    "lookup.chunk-keys",
		Default: "500",
		Doc: "Keys in one request to a broker of Kafka 3.0 or later at most. " +
			"A large call is cut into chunks, which spread over brokers and connections; other callers wait for one chunk at most.",
		Limit: from(1, 10_000),
		field: func(s *Settings) any { return &s.Lookup.ChunkKeys },
	},
	{
		Path:    "lookup.pipeline-window",
		Default: "32",
		Doc:     "Requests on their way on one connection at a time, to brokers that take one key a request (before Kafka 3.0).",
		Limit:   from(1, 1024),
		field:   func(s *Settings) any { return &s.Lookup.PipelineWindow },
	},
	{
		Path:    "lookup.default-timeout",
		Default: "5s",
		Doc:     "How long a call that gives no timeout waits for an answer. Keys whose coordinator is not available yet are asked again until then.",
		Limit:   between(time.Millisecond, time.Hour),
		field:   func(s *Settings) any { return &s.Lookup.DefaultTimeout },
	},
	{
		Path:    "lookup.max-timeout",
		Default: "30s",
		Doc:     "The longest wait that a call may ask for. A longer timeout is cut to it.",
		Limit:   between(time.Millisecond, time.Hour),
		field:   func(s *Settings) any { return &s.Lookup.MaxTimeout },
	},

	{
		Path:    "grpc.address",
		Default: ":9090",
		Doc:     "Where gRPC is served, as host:port. No host means every address of the machine; port 0 takes a free one and logs which.",
		Limit:   listenAddress(),
		field:   func(s *Settings) any { return &s.GRPC.Address },
	},
	{
		Path:    "grpc.reflection",
		Default: "true",
		Doc:     "Serve gRPC reflection, which tells tools such as grpcurl what calls there are. It answers only those who may call.",
		field:   func(s *Settings) any { return &s.GRPC.Reflection },
	},
	{
		Path:    "http.address",
		Default: ":8080",
		Doc:     "Where REST is served, as host:port.",
		Limit:   listenAddress(),
		field:   func(s *Settings) any { return &s.HTTP.Address },
	},
	{
		Path:    "http.docs",
		Default: "true",
		Doc: "Serve the description of the API (/openapi.json), and a page to read and try it (/docs), on the REST port. " +
			"Both are open to everybody who can connect, and the same in every installation.",
		field: func(s *Settings) any { return &s.HTTP.Docs },
	},
	{
		Path:    "admin.address",
		Default: ":8081",
		Doc:     "Where health, metrics and the settings in force are served, as host:port. It is plain HTTP: keep it inside the cluster.",
		Limit:   listenAddress(),
		field:   func(s *Settings) any { return &s.Admin.Address },
	},
	{
		Path:    "admin.pprof",
		Default: "false",
		Doc: "Serve Go's profiles at /debug/pprof/ of the admin port. " +
			"Taking one costs a few percent of the processor while it lasts, and heap profiles are read by people who know the code.",
		field: func(s *Settings) any { return &s.Admin.Pprof },
	},

	{
		Path:    "tls.enabled",
		Default: "false",
		Doc:     "Serve gRPC and REST over TLS, 1.2 or later. The admin port stays plain HTTP, so that probes get through.",
		field:   func(s *Settings) any { return &s.TLS.Enabled },
	},
	{
		Path:    "tls.cert-file",
		Example: "/etc/coordsvc/tls/tls.crt",
		Doc: "The server's certificate in PEM, followed by those between it and its authority. " +
			"This file and the other files of tls.* and auth.* are read again every 10 seconds: a change is in use without a restart. " +
			"One that cannot be used is logged, and what was there before stays in use.",
		field: func(s *Settings) any { return &s.TLS.CertFile },
	},
	{
		Path:    "tls.key-file",
		Example: "/etc/coordsvc/tls/tls.key",
		Doc:     "The private key of the certificate, in PEM, without a password.",
		field:   func(s *Settings) any { return &s.TLS.KeyFile },
	},
	{
		Path:    "tls.client-auth",
		Default: "off",
		Doc:     "Whether clients must show a certificate of their own (require) or are not asked for one (off).",
		Limit:   oneOf("off", "require"),
		field:   func(s *Settings) any { return &s.TLS.ClientAuth },
	},
	{
		Path:    "tls.client-ca-file",
		Example: "/etc/coordsvc/tls/clients-ca.crt",
		Doc: "The authorities, in PEM, that must have signed the clients' certificates. " +
			"An authority that is taken out of the file is refused within 10 seconds, also on connections that are open.",
		field: func(s *Settings) any { return &s.TLS.ClientCAFile },
	},

	{
		Path:    "auth.allowed-subjects",
		Example: "orders.example,spiffe://prod.example/payments/*",
		Doc: "Names of the client certificates that may call, if not all that tls.client-ca-file has signed. " +
			"Each is a common name, a DNS name or a SPIFFE id; a star at the end stands for any rest.",
		field: func(s *Settings) any { return &s.Auth.AllowedSubjects },
	},
	{
		Path:    "auth.token-file",
		Example: "/etc/coordsvc/tokens",
		Doc: "File of bearer tokens, one name:token a line. With it, or with auth.oidc.issuer, every call must carry a token; " +
			"with both, either kind will do.",
		field: func(s *Settings) any { return &s.Auth.TokenFile },
	},
	{
		Path:    "auth.oidc.issuer",
		Example: "https://login.example/realms/prod",
		Doc: "URL of the OpenID Connect issuer whose JWTs are accepted as bearer tokens. " +
			"Its keys are fetched in the background, so that it may be down when the service starts.",
		Limit: withoutUser(),
		field: func(s *Settings) any { return &s.Auth.OIDC.Issuer },
	},
	{
		Path:    "auth.oidc.audience",
		Example: "coordsvc",
		Doc:     "What a JWT must be meant for (aud), at least one of these. It must be given with auth.oidc.issuer.",
		field:   func(s *Settings) any { return &s.Auth.OIDC.Audience },
	},
	{
		Path:    "auth.oidc.ca-file",
		Example: "/etc/coordsvc/issuer-ca.crt",
		Doc:     "The authorities, in PEM, that the issuer's own certificate is checked with. Without it those of the system are used.",
		field:   func(s *Settings) any { return &s.Auth.OIDC.CAFile },
	},
	{
		Path:    "auth.oidc.clock-skew",
		Default: "1m",
		Doc:     "How much the clocks of the issuer and of this service may differ. A JWT stays good for that long after it has expired.",
		Limit:   between(0, 10*time.Minute),
		field:   func(s *Settings) any { return &s.Auth.OIDC.ClockSkew },
	},
	{
		Path:    "auth.policy-file",
		Example: "/etc/coordsvc/policy.yaml",
		Doc: "YAML file that says which caller may look up which keys. Without it every caller may look up every key. " +
			"docs/security.md describes it.",
		field: func(s *Settings) any { return &s.Auth.PolicyFile },
	},

	{
		Path:    "limits.max-calls-in-flight",
		Default: "2000",
		Doc: "Calls of all callers together, of both protocols, that are answered at a time. " +
			"What comes on top is refused with OVERLOADED, before its body is read.",
		Limit: from(1, 1_000_000),
		field: func(s *Settings) any { return &s.Limits.MaxCallsInFlight },
	},
	{
		Path:    "limits.max-calls-memory",
		Default: "0B",
		Doc: "Memory that the calls that are being answered may take together, estimated: four bytes for each byte of a request, and 512 for each key; 0B chooses by the memory that the process may have. " +
			"A call that does not fit is refused with OVERLOADED, before its body is read; a quarter is kept for small calls. " +
			"Chosen is half of GOMEMLIMIT, or of nine tenths of the container's memory; " +
			"1GiB where neither limits it, and never less than the largest call needs.",
		Limit: sizes(0, 1<<40),
		field: func(s *Settings) any { return &s.Limits.MaxCallsMemory },
	},
	{
		Path:    "limits.max-message-bytes",
		Default: "8MiB",
		Doc: "Size of a request at most, on both ports: a gRPC message, a REST body. " +
			"8MiB has room for 10,000 keys of 800 bytes each.",
		Limit: sizes(64<<10, 1<<30),
		field: func(s *Settings) any { return &s.Limits.MaxMessageBytes },
	},
	{
		Path:    "limits.max-connection-age",
		Default: "5m",
		Doc: "How long a caller's connection is used. Then the caller is asked to make another one, which loses no call: " +
			"so callers find instances that are new.",
		Limit: between(time.Second, 24*time.Hour),
		field: func(s *Settings) any { return &s.Limits.MaxConnectionAge },
	},
	{
		Path:    "limits.max-waiting-keys",
		Default: "1000000",
		Doc: "Keys of all callers together that may wait for Kafka. " +
			"What comes on top is refused with OVERLOADED, which keeps memory bounded while Kafka stalls.",
		Limit: from(1, 100_000_000),
		field: func(s *Settings) any { return &s.Limits.MaxWaitingKeys },
	},

	{
		Path:    "log.level",
		Default: "info",
		Doc:     "The least severe message that is logged. Keys and group ids appear at debug only.",
		Limit:   oneOf("debug", "info", "warn", "error"),
		field:   func(s *Settings) any { return &s.Log.Level },
	},
	{
		Path:    "log.format",
		Default: "text",
		Doc:     "Lines for people (text) or one JSON object a line (json). Logs go to standard error.",
		Limit:   oneOf("text", "json"),
		field:   func(s *Settings) any { return &s.Log.Format },
	},

	{
		Path:    "tracing.endpoint",
		Example: "http://otel-collector.example:4318",
		Doc: "Where OpenTelemetry spans are sent, as the base URL of a collector that takes OTLP over HTTP. Without it nothing is traced. " +
			"https:// is TLS with the authorities of the system. A slow or missing collector never delays a call: spans are dropped. " +
			"OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_CERTIFICATE and OTEL_RESOURCE_ATTRIBUTES are heeded.",
		Limit: collectorURL(),
		field: func(s *Settings) any { return &s.Tracing.Endpoint },
	},
	{
		Path:    "tracing.sample-ratio",
		Default: "0.01",
		Doc: "What share of the calls is traced, from 0 (none) to 1 (all). " +
			"A call that comes with a W3C traceparent header is traced if that says so, whatever is set here.",
		Limit: share(),
		field: func(s *Settings) any { return &s.Tracing.SampleRatio },
	},

	{
		Path:    "shutdown.drain-delay",
		Default: "5s",
		Doc: "How long to go on serving as not ready after the signal to stop, so that balancers see it and send new calls elsewhere. " +
			"A second signal stops at once.",
		Limit: between(0, 10*time.Minute),
		field: func(s *Settings) any { return &s.Shutdown.DrainDelay },
	},
	{
		Path:    "shutdown.drain-timeout",
		Default: "35s",
		Doc: "How long calls in flight may take to end after that; then they are cut off. " +
			"Make it longer than lookup.max-timeout, and the supervisor's grace period longer than the delay and this together " +
			"(terminationGracePeriodSeconds in Kubernetes is 30 unless changed).",
		Limit: between(100*time.Millisecond, time.Hour),
		field: func(s *Settings) any { return &s.Shutdown.DrainTimeout },
	},
}
