package config

import "time"

// Settings are the values in force, grouped as in the YAML file. What each one
// means, its limits and its default stand in the table, not here.
type Settings struct {
	Kafka    Kafka
	Pool     Pool
	Lookup   Lookup
	GRPC     Listener
	HTTP     Listener
	Admin    Admin
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

// Admin is the port for probes and operators.
type Admin struct {
	Listener

	Pprof bool
}

// Limits bound what all callers together may ask of the service.
type Limits struct {
	MaxWaitingKeys int
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
