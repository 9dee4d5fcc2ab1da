// Command coordsvc answers which Kafka broker coordinates a consumer group, a
// transactional id or a share partition: as a service, and at the terminal.
//
// Each subcommand has its own file; cli.go puts them together and says what the
// exit codes mean.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	os.Exit(run(ctx, os.Args, streams{os.Stdin, os.Stdout, os.Stderr}, os.Environ()))
}
