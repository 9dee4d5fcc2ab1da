// Package server is the outside of coordsvc: three listeners, the interceptors
// that every call passes, the REST gateway, the admin port, start and stop. What
// a call does is not its business: that is the service it is given.
//
// The way of a call:
//
//	gRPC   listener -> TLS -> grpc.Server ----------------------------+
//	                                                                  +-> chain -> service
//	REST   listener -> TLS -> strict front -> gateway mux -> inProcess +
//
// Both protocols run the same chain (chain.go), so that a limit, a log line or,
// later, a check of who is calling cannot be missed by one of them. REST calls
// never go over a socket (inprocess.go).
//
// REST is strict where grpc-gateway is lenient: the front (rest.go) resolves the
// path and checks method, query names, headers and body before the gateway sees
// the request. A name that is not understood is an error, never ignored: a typo
// in a name must not change the question.
//
// Limits are the limiter's (limits.go), of calls (inflight.go) and of memory (memory.go),
// on both ports: the front asks it before it reads a body (body.go), and gRPC requests
// are read under it (receive.go), not by grpc-go. Long gRPC answers are encoded by hand
// (codec.go).
//
// Who may call is decided by the gate (gate.go), in the chain's auth step
// (authstep.go), and for both protocols before the body of a request is read:
// strangers cost no more than the head of what they send.
//
// To add an RPC: add its method to inProcess, its REST form to the table in
// routes.go (a test compares the table with the OpenAPI document), and nothing
// else. To add an interceptor: give it a name and a place in chainOrder.
package server
