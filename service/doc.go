// Package service is what coordsvc does: the lookup engine (Finder), the error
// contract, and the RPCs that translate between the two and protobuf.
//
// The way of a lookup through it: CoordinatorService checks the request and
// translates it; Finder.Find puts the keys into the open batch of their type
// (queue.go); a flight takes a chunk of the batch to a broker (flight.go, exchange.go),
// to a second one where that takes long (slow.go), and matches the answer (outcome.go),
// which is handed out or asked for again (retry.go); each caller gets its rows, in its
// order (result.go).
//
// The Finder has plain types and knows neither gRPC nor protobuf. Those are
// spoken in coordinator_service.go and statuses.go alone.
package service
