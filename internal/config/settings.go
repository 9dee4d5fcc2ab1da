package config

import "time"

// Settings are the values in force, grouped as in the YAML file. What each one
// means, its limits and its default stand in the table, not here.
type Settings struct {
	Kafka    Kafka
	Pool     Pool
	Lookup   Lookup
	GRPC     GRPC
	HTTP     HTTP
	Admin    Admin
	TLS      TLS
	Auth     Auth
	Limits   Limits
	Log      Log
	Tracing  Tracing
	Shutdown Shutdown
}

// Kafka says which cluster to ask, and how to reach it.
type Kafka struct {
	Brokers         []string
	ClientID        string
	DiscoverBrokers bool
	DialTimeout     time.Duration
	RequestTimeout  time.Duration
	MaxAPIVersions  int
	TLS             KafkaTLS
	SASL            KafkaSASL
}

// KafkaTLS says how connections to brokers are secured.
type KafkaTLS struct {
	Enabled            bool
	CAFile             string
	CertFile           string
	KeyFile            string
	ServerName         string
	InsecureSkipVerify bool
}

// KafkaSASL says as whom brokers know the service.
type KafkaSASL struct {
	Mechanism    string // empty: connections do not authenticate
	Username     string
	Password     string
	PasswordFile string
	TokenFile    string
	OAuth        KafkaOAuth
}

// KafkaOAuth says where tokens for the brokers come from.
type KafkaOAuth struct {
	TokenEndpointURL string
	ClientID         string
	ClientSecret     string
	ClientSecretFile string
	Scope            string
	Extensions       []string // name=value
}

// Pool bounds the connections to each broker.
type Pool struct {
	MaxConnectionsPerBroker int
	MaxIdleTime             time.Duration
	MaxLifetime             time.Duration
	AcquireTimeout          time.Duration
	MaxWaiters              int
}

// Lookup bounds one call, and says how it is cut into requests to Kafka.
type Lookup struct {
	MaxKeys        int
	ChunkKeys      int
	PipelineWindow int
	DefaultTimeout time.Duration
	MaxTimeout     time.Duration
}

// Listener is one port that the service listens on.
type Listener struct {
	Address string
}

// GRPC is the gRPC port.
type GRPC struct {
	Listener

	Reflection bool
}

// HTTP is the REST port.
type HTTP struct {
	Listener

	Docs bool
}

// TLS is what the gRPC and the REST port show and demand.
type TLS struct {
	Enabled      bool
	CertFile     string
	KeyFile      string
	ClientAuth   string
	ClientCAFile string
}

// Auth says who may call.
type Auth struct {
	AllowedSubjects []string
	TokenFile       string
	OIDC            OIDC
	PolicyFile      string
}

// OIDC says whose JWTs are accepted.
type OIDC struct {
	Issuer    string
	Audience  []string
	CAFile    string
	ClockSkew time.Duration
}

// Admin is the port for probes and operators.
type Admin struct {
	Listener

	Pprof bool
}

// Limits bound what all callers together may ask of the service.
type Limits struct {
	MaxCallsInFlight int
	MaxCallsMemory   Size // 0: chosen at the start
	MaxMessageBytes  Size
	MaxConnectionAge time.Duration
	MaxWaitingKeys   int
}

// Log says what is logged, and in which form.
type Log struct {
	Level  string
	Format string
}

// Tracing says where spans go, and of how many calls.
type Tracing struct {
	Endpoint    string
	SampleRatio float64
}

// Shutdown gives the times of a graceful stop.
type Shutdown struct {
	DrainDelay   time.Duration
	DrainTimeout time.Duration
}
