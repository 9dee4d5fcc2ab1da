package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/coordsvc/coordsvc/internal/config"
)

// Exit codes. They are part of the contract with scripts.
const (
	exitOK          = 0
	exitFailed      = 1   // a key was not found, or the command could not do its work
	exitUsage       = 2   // a flag, a setting or a key is wrong; nothing was asked of Kafka
	exitUnreachable = 3   // no broker of the cluster answered
	exitInterrupted = 130 // Ctrl-C, as shells have it
)

// streams are the standard streams of the process.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// invocation is what every command gets: how coordsvc was called, and with what.
type invocation struct {
	streams
	ctx     context.Context //nolint:containedctx // lives exactly as long as the command
	program string
	environ []string
	app     *kong.Application // what commands and flags there are
}

// cli is the command line; kong reads it.
type cli struct {
	ShowVersion versionFlag `name:"version" help:"Print the version."`

	Serve       serveCmd       `cmd:"" help:"Run the service: gRPC, REST, health."`
	Demo        demoCmd        `cmd:"" help:"Run the service on a built-in three-broker cluster, and print what to try."`
	Lookup      lookupCmd      `cmd:"" help:"Ask Kafka which broker coordinates a key, with no service between."`
	Brokers     brokersCmd     `cmd:"" help:"Show the brokers of a cluster, and what was negotiated with each."`
	Healthcheck healthcheckCmd `cmd:"" help:"Ask a running service whether it is live or ready."`
	Config      configCmd      `cmd:"" help:"Print the settings in force, and where each came from."`
	Version     versionCmd     `cmd:"" help:"Print the version, and the Kafka protocol versions spoken."`
	Completion  completionCmd  `cmd:"" help:"Print what makes a shell complete coordsvc's commands and flags."`
	Man         manCmd         `cmd:"" help:"Print the manual page."`
}

const description = `coordsvc answers which Kafka broker coordinates a consumer group, a transactional id or a share partition.`

const generalHelp = `Examples:

    coordsvc demo
    coordsvc lookup --kafka-brokers kafka-1.example:9092 orders payments
    coordsvc serve --kafka-brokers kafka-1.example:9092,kafka-2.example:9092

Exit codes: 0 all well; 1 a key was not found, or the command could not do its work; 2 wrong usage or settings; 3 the cluster cannot be reached; 130 Ctrl-C.`

// Help is shown by kong under the description.
func (cli) Help() string { return generalHelp }

// command is what each subcommand is.
type command interface {
	Run(inv *invocation) error
}

// run is the whole program. args begin with the program's name.
func run(ctx context.Context, args []string, std streams, environ []string) int {
	inv := &invocation{streams: std, ctx: ctx, program: args[0], environ: environ}
	printed := false // by --help or --version, after which there is nothing to do
	c := newCLI()
	app, err := kong.New(c,
		kong.Name("coordsvc"),
		kong.Description(description),
		kong.Writers(std.out, std.err),
		kong.Exit(func(int) { printed = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		panic("coordsvc: the command line is not well-formed: " + err.Error())
	}
	inv.app = app.Model
	for i, arg := range args {
		if !utf8.ValidString(arg) {
			return inv.fail(failf(exitUsage, "argument %d, %q, is not UTF-8: Kafka's ids are UTF-8 text", i, arg))
		}
	}
	words := args[1:]
	if len(words) > 0 && words[0] == "help" {
		words = append(slices.Clone(words[1:]), "--help")
	}
	if err := switchWithWord(app.Model, words); err != nil {
		return inv.fail(err)
	}
	parsed, err := app.Parse(argumentsLast(app.Model, words))
	if printed {
		return exitOK
	}
	if err != nil {
		return inv.fail(usageError(err))
	}
	chosen, ok := parsed.Selected().Target.Addr().Interface().(command)
	if !ok {
		panic("coordsvc: " + parsed.Command() + " is no command")
	}
	if err := chosen.Run(inv); err != nil {
		return inv.fail(err)
	}
	return exitOK
}

func newCLI() *cli {
	demo := newSettingsFlags("pool", "lookup", "grpc", "http", "admin", "limits", "log", "shutdown")
	demo.ignore = []string{"kafka"} // what is set for a real cluster does not fit the built-in one
	return &cli{
		Serve:       serveCmd{settingsFlags: newSettingsFlags()},
		Demo:        demoCmd{settingsFlags: demo},
		Lookup:      lookupCmd{lookupSettings: lookupSettings{settingsFlags: newSettingsFlags("kafka", "lookup", "log")}},
		Brokers:     brokersCmd{lookupSettings: lookupSettings{settingsFlags: newSettingsFlags("kafka", "lookup", "log")}},
		Healthcheck: healthcheckCmd{settingsFlags: newSettingsFlags("admin")},
		Config:      configCmd{settingsFlags: newSettingsFlags()},
	}
}

// failure is an error that decides the exit code. Without a message nothing is
// printed: the command has said it already.
type failure struct {
	code    int
	message string
}

func (f *failure) Error() string { return f.message }

func failf(code int, format string, args ...any) error {
	return &failure{code, fmt.Sprintf(format, args...)}
}

// usageError is an error of kong, with the way to the help.
func usageError(err error) error {
	help := "coordsvc --help"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
		help = parse.Context.Selected().FullPath() + " --help"
	}
	message := err.Error()
	if word, ok := strings.CutPrefix(message, "unknown flag "); ok && ofKafka[word] != "" {
		message += ": " + ofKafka[word]
	}
	if said, why, ok := strings.Cut(message, ": time: "); ok {
		message = said + "; write a number and its unit, as in 5s"
		if strings.HasPrefix(why, "missing unit") {
			message = said + "; write a unit, as in 5s"
		}
	}
	if m := noValue.FindStringSubmatch(message); m != nil {
		message = m[1] + " needs a value"
		if next := m[2]; next != "EOL" && next != "--" { // not typed: the end, or what argumentsLast puts in
			message += ", and " + next + " comes next"
		}
	}
	return failf(exitUsage, "%s (see %s)", message, help)
}

// noValue is how kong says that a flag ends without its value. It names its own tokens.
var noValue = regexp.MustCompile(`^(--\S+): expected \S+ value but got "([^"]*)" \(`)

// ofKafka says what flags of Kafka's own tools are here.
var ofKafka = map[string]string{
	"--bootstrap-server":  "it is --kafka-brokers here",
	"--bootstrap-servers": "it is --kafka-brokers here",
	"--broker-list":       "it is --kafka-brokers here",
	"--command-config":    "--config takes a YAML file of settings",
	"--group":             "the keys are arguments, as in lookup orders",
	"--transactional-id":  "the keys are arguments, as in lookup --type transaction ledger-1",
}

// fail prints the error in one plain sentence and returns the exit code.
func (inv *invocation) fail(err error) int {
	code := exitFailed
	var f *failure
	if errors.As(err, &f) {
		code = f.code
	}
	if message := err.Error(); message != "" {
		fmt.Fprintln(inv.err, "coordsvc: "+message)
	}
	return code
}

// settingsFlags are the flags of a command that has settings.
type settingsFlags struct {
	File settingsFile `name:"config" placeholder:"FILE" help:"YAML file with settings. Every setting is also an environment variable: --log-level is COORDSVC_LOG_LEVEL."`

	Flags any `embed:""` // the struct that kong fills; flags reads it

	flags   *config.Flags
	listens bool     // the command opens the ports
	ignore  []string // sections that are nothing to the command, whoever sets them
}

// settingsFile is the flag --config.
type settingsFile string

// UnmarshalText refuses the empty name, which a script gets of a variable that is not
// set: coordsvc would go on without the file, and say nothing.
func (f *settingsFile) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("names no file")
	}
	*f = settingsFile(text)
	return nil
}

// newSettingsFlags are the flags of some sections, or of all.
func newSettingsFlags(sections ...string) settingsFlags {
	flags := config.NewFlags(sections...)
	return settingsFlags{Flags: flags.Fields(), flags: flags, listens: len(sections) == 0 || slices.Contains(sections, "http")}
}

// load reads the settings. The error lists everything that is wrong with them.
func (f *settingsFlags) load(inv *invocation, require ...string) (*config.Loaded, error) {
	loaded, err := config.Load(config.Sources{File: string(f.File), Environ: inv.environ, Flags: f.flags, Listens: f.listens, Require: require, Ignore: f.ignore})
	if err == nil {
		return loaded, nil
	}
	mistakes := strings.Split(err.Error(), "\n")
	if len(mistakes) == 1 {
		return loaded, failf(exitUsage, "%s", mistakes[0])
	}
	return loaded, failf(exitUsage, "%d settings are wrong:\n  %s", len(mistakes), strings.Join(mistakes, "\n  "))
}

// printWarnings is for commands whose output is not the log.
func printWarnings(inv *invocation, loaded *config.Loaded) {
	for _, warning := range loaded.Warnings {
		fmt.Fprintln(inv.err, "warning: "+displayText(warning))
	}
}
