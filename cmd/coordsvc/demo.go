package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/twmb/franz-go/pkg/kfake"
	"google.golang.org/protobuf/types/known/durationpb"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/config"
)

type demoCmd struct {
	settingsFlags
}

// Help is shown by kong under the usage.
func (demoCmd) Help() string {
	return `The cluster lives in this process and ends with it; settings of kafka.* do not count. Only this machine can reach it, and the service, unless an address is given. Where a usual port is taken, a free one is used and named.

Examples:

    coordsvc demo
    coordsvc demo --http-address 127.0.0.1:18080 --log-level info`
}

// demoKeys are group ids that spread over the three brokers.
var demoKeys = []string{"orders", "payments", "shipping", "invoices", "search-index"}

// Run starts the cluster and the service, shows what they do, and waits for Ctrl-C.
func (c *demoCmd) Run(inv *invocation) error {
	loaded, err := c.load(inv)
	if err != nil {
		return err
	}
	moved := demoSettings(loaded)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		return failf(exitFailed, "the built-in cluster does not start: %s", err)
	}
	defer cluster.Close()
	loaded.Kafka.Brokers = cluster.ListenAddrs()

	logger, err := newLogger(inv.err, loaded.Log)
	if err != nil {
		return err
	}
	open, err := openService(loaded, logger)
	if err != nil {
		return err
	}
	defer open.close()

	// The server runs while the lookup is made, so that Ctrl-C works at any time.
	ctx, cancel := context.WithCancel(inv.ctx)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- open.Run(ctx) }()
	err = c.show(ctx, inv, loaded, open, moved)
	if err != nil {
		cancel()
	}
	runErr := <-stopped
	if inv.ctx.Err() != nil {
		return runErr // stopped by the person, whatever the lookup said
	}
	return errors.Join(err, runErr)
}

// demoSettings chooses what a person at one machine wants where nothing was
// given: ports for this machine only, free ones where the usual are taken, no
// logs between the lines to copy, no delay at Ctrl-C. It returns what to say of
// the ports.
func demoSettings(loaded *config.Loaded) []string {
	var moved []string
	given := func(path string) bool { return loaded.Origin(path).Source != config.SourceDefault }
	if !given("log.level") {
		loaded.Log.Level = "warn"
	}
	if !given("shutdown.drain-delay") {
		loaded.Shutdown.DrainDelay = 0
	}
	for _, listener := range []struct {
		path, name string
		address    *string
	}{
		{"grpc.address", "gRPC", &loaded.GRPC.Address},
		{"http.address", "REST", &loaded.HTTP.Address},
		{"admin.address", "admin", &loaded.Admin.Address},
	} {
		if given(listener.path) {
			continue
		}
		usual := "127.0.0.1" + *listener.address
		*listener.address = usual
		if taken(usual) {
			*listener.address = "127.0.0.1:0"
			moved = append(moved, listener.name+" is not at the usual "+usual+", which is taken")
		}
	}
	return moved
}

func taken(address string) bool {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return true
	}
	_ = listener.Close()
	return false
}

// show makes one lookup and prints what to try.
func (c *demoCmd) show(ctx context.Context, inv *invocation, loaded *config.Loaded, open *openedService, moved []string) error {
	answer, err := open.instance.FindCoordinators(ctx, &coordsvcv1.FindCoordinatorsRequest{
		Keys: demoKeys[:min(len(demoKeys), loaded.Lookup.MaxKeys)], Timeout: durationpb.New(10 * time.Second),
	})
	if err != nil {
		return lookupFailure(err)
	}
	out := inv.out
	fmt.Fprintf(out, "A cluster of three brokers runs at %s.\ncoordsvc serves gRPC at %s, REST at %s, health at %s.\n",
		strings.Join(loaded.Kafka.Brokers, ", "), open.GRPCAddr(), open.HTTPAddr(), open.AdminAddr())
	for _, line := range moved {
		fmt.Fprintln(out, line+".")
	}
	fmt.Fprint(out, "\nWho coordinates these groups?\n\n")
	table := &tablePrinter{w: out, style: styleFor(out, inv.environ)}
	table.results(answer.GetResults())
	table.end(int(answer.GetFailed()))

	fmt.Fprint(out, "\nTry, in another terminal:\n\n")
	for _, line := range demoLines(ownCommand(inv.program), dialable(open.GRPCAddr()), dialable(open.HTTPAddr()), dialable(open.AdminAddr()), loaded.Kafka.Brokers[0]) {
		fmt.Fprintln(out, "  "+line)
	}
	fmt.Fprint(out, "\nCtrl-C ends it.\n")
	return nil
}

// demoLines are commands to copy. Each works in a POSIX shell as it stands.
func demoLines(own, grpcAddress, httpAddress, adminAddress, broker string) []string {
	return []string{
		fmt.Sprintf("curl 'http://%s/v1/coordinators/GROUP/orders'", httpAddress),
		fmt.Sprintf(`curl 'http://%s/v1/coordinators:find' -H 'Content-Type: application/json' -d '{"keyType":"TRANSACTION","keys":["billing-1","billing-2"]}'`, httpAddress),
		fmt.Sprintf("curl 'http://%s/v1/brokers'", httpAddress),
		fmt.Sprintf(`grpcurl -plaintext -emit-defaults -d '{"keys":["orders","payments"]}' %s coordsvc.v1.CoordinatorService/FindCoordinators`, shellWord(grpcAddress)),
		fmt.Sprintf("curl 'http://%s/readyz'", adminAddress),
		fmt.Sprintf("%s lookup --kafka-brokers %s orders payments", own, broker),
	}
}

// dialable is where this machine reaches a port that it listens on.
func dialable(listening net.Addr) string {
	address, err := localAddress(listening.String())
	if err != nil {
		return listening.String()
	}
	return address
}

// ownCommand is how to call this program again. What `go run` builds is gone
// soon, so it is named as it was called.
func ownCommand(program string) string {
	if strings.HasPrefix(program, filepath.Clean(os.TempDir())) && strings.Contains(program, "go-build") {
		return "go run ./cmd/coordsvc"
	}
	return shellWord(program)
}

// shellWord writes text so that a shell reads it as one word: a path with a space, or
// an IPv6 address, whose brackets are a pattern.
func shellWord(text string) string {
	special := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-+./:@%,", r)
	}
	if text != "" && !strings.ContainsFunc(text, special) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
