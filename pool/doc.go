// Package pool lends ready connections to Kafka brokers.
//
// A [Cluster] knows the brokers: the bootstrap addresses it was given and those
// that Metadata names. Each has its own puddle pool of connections. A connection
// is ready when it was dialled, the API versions were negotiated and it has
// authenticated; the caller of [Cluster.Acquire] gets it as a [Lease], exchanges
// requests on it, and gives it back.
//
// How the files hang together:
//
//	cluster.go    the view of the cluster; Acquire and Close
//	queue.go      who waits for a connection, and which broker is next
//	turnover.go   connections come and go: dialled, given back, retired, lost
//	broker.go     one broker: its puddle pool, its health, its dial backoff
//	pulse.go      when a broker was last heard, and whether it owes an answer
//	retire.go     why a connection is no longer used; the counters
//	lease.go      a connection lent to a caller
//	conn.go       one connection
//	exchange.go   requests are written and answers read on it, pipelined
//	wait.go       how long an answer is waited for, and what it means that none comes
//	frame.go      size-prefixed frames, and what is no Kafka at all
//	peek_*.go     whether an idle connection is still open
//	establish.go  the steps that make a connection ready
//	tls.go        the TLS handshake, and what its failures mean
//	sasl.go       authentication; scram.go its one involved mechanism
//	session.go    authenticating anew before a session ends
//	negotiate.go  ApiVersions: what to ask, what to fall back to, what is remembered
//	tend.go       the background: warm connections, pings, idle and lifetime limits
//	discover.go   Metadata and what follows from it
//	status.go     what operators see
//
// Dials belong to the pool, waits belong to the caller: a caller that leaves never
// cancels a dial that others wait for, and a connection that comes free is given to
// the first in the queue whether its own dial is done or not.
//
// The package knows nothing of gRPC.
package pool
