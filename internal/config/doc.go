// Package config holds every setting of coordsvc in one table, and reads them.
//
// A setting is a YAML path, an environment variable and a flag of one name:
//
//	kafka.dial-timeout    COORDSVC_KAFKA_DIAL_TIMEOUT    --kafka-dial-timeout
//
// A flag beats the environment, the environment beats the file (--config or
// COORDSVC_CONFIG), the file beats the default. Load reads all of them and
// reports every mistake at once, each with the setting's name and the place
// where it was made, so that nothing listens on half-understood settings.
//
// What is not given: an environment variable that is empty, and a YAML key with
// no value, count as not set. That is what `${X:-}` in Compose files and a
// commented-out value under a key leave behind. An empty flag (--x=) is a value.
//
// To add a setting: a field in Settings (settings.go) and a row in the table
// (table.go). Flags, environment, YAML, help, `coordsvc config` and
// docs/configuration.md follow; `go test ./internal/config -update` rewrites the
// last. To rename one, give the row its old path as Formerly. A rule between two settings goes into rules.go.
package config
