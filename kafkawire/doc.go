// Package kafkawire turns the few Kafka messages that coordsvc needs into bytes
// and back: ApiVersions, FindCoordinator, Metadata, SaslHandshake and
// SaslAuthenticate, each in every version that Kafka 0.8.2 to 4.4 speaks up to
// the limits that [Supported] gives. Requests and responses go both ways, so
// that test brokers can be written with the same code.
//
// It follows the [protocol guide] and the message schemas that Apache Kafka
// generates its own codec from (clients/src/main/resources/common/message), and
// these proposals: KIP-35 and KIP-511 (ApiVersions), KIP-482 (flexible versions
// and tagged fields), KIP-699 (FindCoordinator in batches), KIP-932 (share
// partitions), KIP-152 and KIP-368 (SASL in Kafka frames, sessions that end),
// KIP-1242 (the client says whom it means to reach).
//
// The package does no I/O, reads no clock, starts no goroutine and keeps no
// state. Encoding into a buffer with room allocates nothing; decoding a batch
// answer allocates a number of times that does not grow with its rows, and not at
// all for a client that lends the strings which it has already, see
// [FindCoordinatorResponse.DecodeSharing].
//
// What arrives is not trusted: a decoder never reads past its slice, never
// allocates by a count that the bytes left cannot hold, and says in its
// [DecodeError] which field struck at which offset. What leaves is checked
// first: an encoder that refuses returns the caller's buffer as it was, because
// a broker drops the whole connection, with everybody's requests in flight, for
// one request that it cannot parse.
//
// [protocol guide]: https://kafka.apache.org/protocol
package kafkawire

// How a message is laid out
//
// A frame is an int32 size, a header and a body. Both headers come in two
// versions: the second ends in tagged fields and goes with the flexible versions
// of a message, in which lengths are uvarints of n+1 and every struct ends in
// tagged fields. See header.go; ApiVersions is the exception, as always.
//
// To add a version of a message:
// 1. Raise its range (and flexible, if it becomes so) in the table of api.go
// 2. In <message>_request.go and <message>_response.go
//   2.1. Amend the layout in the doc comment
//   2.2. Add the field to the struct; say from which version on, and its default
//   2.3. Refuse in check() what older versions cannot carry and must not lose
//   2.4. Write it in Encode() and read it in Decode(), at its place
// 3. In the tests: differential_test.go (both sides of the comparison with
//    kmsg), golden_test.go where known bytes exist
//
// To add an API:
// 1. Add an APIKey<name> constant and a row in the table of api.go
// 2. Write <name>_request.go and <name>_response.go, each with a [Request] or
//    [Response] whose doc comment names versions, layout, headers and source
// 3. In the tests: a row and a sample in messages_test.go bring it under the
//    tests of bad input, a line each in fuzz_test.go under the fuzzer; then as above
//
// To add an error code: a row at the end of the table in error_code.go, and in
// testdata/error_codes.tsv; a constant only where code acts on it.
