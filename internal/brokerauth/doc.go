// Package brokerauth makes what connections to brokers are secured and authenticated
// with, as the settings kafka.tls.* and kafka.sasl.* say.
//
// What stands in files is read when the service starts, and each mistake then names
// the setting and the file. It is read again whenever a connection needs it, so that
// certificates, passwords and tokens are replaced by replacing a file. Where a file
// cannot be used any more, what it held before is, and that is logged once.
package brokerauth
