package main

import "testing"

func TestKindOfWork(t *testing.T) {
	for _, c := range []struct {
		want  string
		stack []string
	}{
		{collecting, []string{"runtime.memclrNoHeapPointers", "runtime.gcDrain", "runtime.gcBgMarkWorker"}},
		{scheduling, []string{"internal/runtime/syscall/linux.Syscall6", "internal/runtime/syscall/linux.EpollWait", "runtime.netpoll", "runtime.mcall"}},
		{sockets, []string{"internal/runtime/syscall/linux.Syscall6", "syscall.write", "github.com/coordsvc/coordsvc/pool.(*conn).flush"}},
		{allocating, []string{"runtime.memclrNoHeapPointers", "runtime.mallocgc", "github.com/coordsvc/coordsvc/service.toProto"}},
		{"service: the Finder, checks, translation", []string{"runtime.mapassign_faststr", "github.com/coordsvc/coordsvc/service.(*queue).ask", "github.com/coordsvc/coordsvc/internal/server.call"}},
		{"gRPC and HTTP/2", []string{"golang.org/x/net/http2/hpack.(*Decoder).Write", "google.golang.org/grpc/internal/transport.(*http2Server).HandleStreams"}},
		{elsewhere, []string{"main.main"}},
	} {
		if got := kindOf(c.stack); got != c.want {
			t.Errorf("%v: %q, want %q", c.stack, got, c.want)
		}
	}
}

func TestSmallSharesAreLeftOut(t *testing.T) {
	if got, want := sentence([]share{{"gRPC", 0.6}, {"pool", 0.38}, {"other", 0.02}}), "60 % gRPC; 38 % pool"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
