// Package kafkatest has the brokers that tests run against, from the quick to
// the true:
//
//   - [Stub], a scripted broker in this process. Behaves well unless told
//     otherwise, counts what it is asked, and can be late, wrong, silent or gone.
//     On a real socket, or on a [Network] in memory for simulated time.
//   - [Fake], franz-go's fake cluster: Kafka's semantics without Kafka.
//   - [Start] and [Launch], real Apache Kafka of any release from 0.8.2 on, from
//     Maven Central; needs Java and Maven. Tests that use it begin with
//     [RequireReal] or [EachRelease].
//
// [RawFind] is the reference that answers are compared with: hand-made bytes, one
// key a request.
package kafkatest
