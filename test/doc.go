// Package test asks coordsvc as its users do: the program is built and started, and
// the same questions go to it over REST, over gRPC and through the command line,
// on an in-process cluster (go test ./...) and on real Apache Kafka (make
// test-kafka).
package test
