package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/config"
	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/service"
)

// lookupSettings are the flags of the commands that ask Kafka with no service between.
type lookupSettings struct {
	settingsFlags

	Timeout *time.Duration `placeholder:"TIME" help:"How long to wait for an answer. Default: lookup.default-timeout."`
}

type lookupCmd struct {
	lookupSettings

	Type   keyType `short:"t" default:"group" choices:"group,transaction,share" placeholder:"TYPE" help:"What the keys name: group, transaction or share. Default: group."`
	Output string  `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table, or json as REST answers it. Default: table."`

	Keys []string `arg:"" optional:"" name:"key" help:"The keys. - reads more from standard input, one a line."`
}

// Help is shown by kong under the usage.
func (lookupCmd) Help() string {
	return `A group is any consumer, share or streams group. A share key is a share partition: groupId:topicId:partition. From standard input the bytes of a line are the key; blank lines are skipped, and so are a carriage return at the end of a line and a byte order mark. A key that begins with a dash goes after --. What may pass, such as a broker that is down, is tried again until --timeout. More keys than lookup.max-keys (10000 unless changed) are asked in parts of so many, one after the other, each with that time.

Examples:

    coordsvc lookup --kafka-brokers kafka-1.example:9092 orders payments
    coordsvc lookup --kafka-brokers kafka-1.example:9092 -t transaction -o json billing-tx-1
    coordsvc lookup --kafka-brokers kafka-1.example:9092 - < groups.txt
    coordsvc lookup --kafka-brokers kafka-1.example:9092 -- -odd-group

Exit codes: 0 every key found; 1 some key failed; 2 wrong usage; 3 the cluster cannot be reached.`
}

// keyType is the flag -t.
type keyType struct {
	wire kafkawire.KeyType
	api  coordsvcv1.KeyType
}

// UnmarshalText takes the names of the API in any case.
func (t *keyType) UnmarshalText(text []byte) error {
	switch strings.ToLower(string(text)) {
	case "group":
		*t = keyType{kafkawire.KeyTypeGroup, coordsvcv1.KeyType_GROUP}
	case "transaction":
		*t = keyType{kafkawire.KeyTypeTransaction, coordsvcv1.KeyType_TRANSACTION}
	case "share":
		*t = keyType{kafkawire.KeyTypeShare, coordsvcv1.KeyType_SHARE}
	default:
		return fmt.Errorf("%q is no key type; give group, transaction or share", text)
	}
	return nil
}

// errInterrupted ends a command that Ctrl-C stopped; there is nothing to say.
var errInterrupted = &failure{code: exitInterrupted}

// Run looks up the keys.
func (c *lookupCmd) Run(inv *invocation) error {
	loaded, err := c.loadFitted(inv)
	if err != nil {
		return err
	}
	keys, err := collectKeys(inv.ctx, c.Keys, inv.in)
	if err != nil {
		return err
	}
	if err := checkKeys(c.Type.wire, keys); err != nil {
		return err
	}
	instance, closeInstance, err := c.connect(inv, loaded)
	if err != nil {
		return err
	}
	defer closeInstance()

	out := bufio.NewWriter(inv.out)
	run := bulkLookup{
		service:  instance,
		keyType:  c.Type.api,
		timeout:  loaded.Lookup.DefaultTimeout,
		maxKeys:  loaded.Lookup.MaxKeys,
		printer:  newPrinter(c.Output, out, styleFor(inv.out, inv.environ)),
		flush:    out.Flush,
		progress: newProgress(inv.err, isTerminal(inv.err), len(keys)),
	}
	failed, err := run.do(inv.ctx, keys)
	if err != nil {
		return err
	}
	for _, id := range coordinatorIDs(keys) {
		fmt.Fprintln(inv.err, "hint: "+coordinatorIDHint(id))
	}
	if failed > 0 {
		return &failure{code: exitFailed} // the table or the JSON has said which
	}
	return nil
}

// dialsWithinTimeout is how many steps of connecting that end in silence there is time
// for. A broker of Kafka 0.9.0 answers the third question only, and there must be time
// to say of one that is silent to the third, too, what it was.
const dialsWithinTimeout = 4

// loadFitted reads the settings, puts --timeout into them, and fits the others to it:
// there is no service to protect here, and no second caller, so it may be longer than
// lookup.max-timeout, and no wait within it need end before it.
func (c *lookupSettings) loadFitted(inv *invocation) (*config.Loaded, error) {
	loaded, err := c.load(inv, requiredToServe...)
	if err != nil {
		return nil, err
	}
	printWarnings(inv, loaded)
	if c.Timeout != nil {
		if *c.Timeout <= 0 {
			return nil, failf(exitUsage, "--timeout is %s; it must be greater than zero", *c.Timeout)
		}
		loaded.Lookup.DefaultTimeout = *c.Timeout
	}
	timeout := loaded.Lookup.DefaultTimeout
	loaded.Lookup.MaxTimeout = max(loaded.Lookup.MaxTimeout, timeout)
	loaded.Pool.AcquireTimeout = max(loaded.Pool.AcquireTimeout, timeout)
	if loaded.Origin("kafka.dial-timeout").Source == config.SourceDefault {
		loaded.Kafka.DialTimeout = min(loaded.Kafka.DialTimeout, timeout/dialsWithinTimeout)
	}
	return loaded, nil
}

// connect starts an instance without ports, which must be closed.
func (c *lookupSettings) connect(inv *invocation, loaded *config.Loaded) (i *instance, closeInstance func(), err error) {
	logger, err := c.logger(inv, loaded)
	if err != nil {
		return nil, nil, err
	}
	i, err = newInstance(&loaded.Settings, nil, logger)
	if err != nil {
		return nil, nil, named(err, loaded)
	}
	i.start()
	return i, func() { i.close(logger) }, nil
}

// logger is silent unless --log-level asks for more: what goes wrong is in the
// answer, and the level in a settings file is meant for the service.
func (c *lookupSettings) logger(inv *invocation, loaded *config.Loaded) (*slog.Logger, error) {
	if loaded.Origin("log.level").Source != config.SourceFlag {
		return slog.New(slog.DiscardHandler), nil
	}
	return newLogger(inv.err, loaded.Log)
}

// finder is the part of the service that looks up.
type finder interface {
	FindCoordinators(context.Context, *coordsvcv1.FindCoordinatorsRequest) (*coordsvcv1.FindCoordinatorsResponse, error)
}

// bulkLookup looks up any number of keys, in calls of maxKeys, and prints each
// answer as it comes.
type bulkLookup struct {
	service  finder
	keyType  coordsvcv1.KeyType
	timeout  time.Duration
	maxKeys  int
	printer  printer
	flush    func() error
	progress *progress
}

// do returns how many keys failed. The error is that of the first call, if that
// failed as a whole. When a later one does, its keys have failed, and the others go on:
// what is printed has one result for each key in any case.
func (b *bulkLookup) do(ctx context.Context, keys []askedKey) (int, error) {
	failed := 0
	for done := 0; done < len(keys); {
		part := texts(keys[done:min(done+b.maxKeys, len(keys))])
		stop := b.progress.waiting(done, failed)
		response, err := b.service.FindCoordinators(ctx, &coordsvcv1.FindCoordinatorsRequest{
			KeyType: b.keyType, Keys: part, Timeout: durationpb.New(b.timeout),
		})
		stop()
		switch {
		case ctx.Err() != nil:
			return failed, errInterrupted
		case err != nil && done == 0:
			return failed, lookupFailure(err)
		case err != nil:
			response = allFailed(part, err)
		}
		b.printer.results(response.GetResults())
		if err := b.flush(); err != nil {
			return failed, outputFailure(err)
		}
		failed += int(response.GetFailed())
		done += len(part)
	}
	b.printer.end(failed)
	if err := b.flush(); err != nil {
		return failed, outputFailure(err)
	}
	return failed, nil
}

func outputFailure(err error) error {
	return failf(exitFailed, "writing the answer: %s", err)
}

func texts(keys []askedKey) []string {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = k.key
	}
	return list
}

// lookupFailure translates the status of a call that failed as a whole.
func lookupFailure(err error) error {
	code := exitFailed
	switch service.Reason(errorInfo(err).GetReason()) {
	case service.ReasonBrokerUnreachable, service.ReasonTLSFailed, service.ReasonSASLFailed,
		service.ReasonNotAKafkaBroker, service.ReasonDeadlineExceeded:
		code = exitUnreachable
	default:
		if status.Code(err) == codes.InvalidArgument {
			code = exitUsage
		}
	}
	message := displayText(status.Convert(err).Message())
	if code == exitUnreachable {
		return failf(code, "%s: %s", errorInfo(err).GetReason(), message) // docs/operations.md has a section of that name
	}
	return failf(code, "%s", message)
}

// allFailed is the answer of a call that failed as a whole, as one result a key.
func allFailed(keys []string, err error) *coordsvcv1.FindCoordinatorsResponse {
	info := errorInfo(err)
	lookupError := &coordsvcv1.LookupError{
		Reason:    info.GetReason(),
		Message:   status.Convert(err).Message(),
		Retriable: info.GetMetadata()["retriable"] == "true",
	}
	response := &coordsvcv1.FindCoordinatorsResponse{Failed: uint32(len(keys))}
	for _, key := range keys {
		response.Results = append(response.Results, &coordsvcv1.CoordinatorResult{
			Key: key, Outcome: &coordsvcv1.CoordinatorResult_Error{Error: lookupError},
		})
	}
	return response
}

func errorInfo(err error) *errdetails.ErrorInfo {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}

func newPrinter(format string, w io.Writer, s style) printer {
	if format == "json" {
		return &jsonPrinter{w: w}
	}
	return &tablePrinter{w: w, style: s}
}
