// Command bench measures coordsvc beside what could be used in its place, in one
// run, and writes docs/performance.md.
//
//	make bench          everything, with real Apache Kafka (Java, Maven): below 15 minutes on two cores
//	make bench-scaling  1, 2 and 4 instances, for docs/scaling.md
//	make bench-smoke    every benchmark for a moment, on stub brokers: fails if one is broken, never for a time
//
// How it measures:
//
//   - Every server is a process of its own, so its CPU time and memory are its own:
//     the coordsvc binary as it is built for users, and the same service written
//     over kadm, over plain kgo, and over nothing at all (see contenders.go). The
//     callers, and the stub brokers of stub.go, live in this process.
//   - What is compared takes turns, round after round, and who is first changes
//     with the round. A ratio is the median of the ratios of the rounds, so what a
//     noisy neighbour does to one round hits both sides.
//   - Every answer is compared with what the brokers say of that key when asked one
//     by one (see keys.go). A wrong or a missing coordinator ends the run.
//
// It is a module of its own so that its dependencies never reach the product's.
// Linux only: it reads the CPU time of other processes.
package main
