package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// version is set when a release is built: -ldflags "-X main.version=v1.2.3".
// Other builds know it from the module, or not at all.
var version string

// build says what this binary was built from.
type build struct {
	version  string // never empty
	commit   string // "" where the source was no checkout
	modified bool   // the checkout had changes that are in no commit
}

func thisBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return build{version: cmp.Or(version, "(unknown)")}
	}
	b := build{version: cmp.Or(version, info.Main.Version, "(devel)")}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.commit = setting.Value
		case "vcs.modified":
			b.modified = setting.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	commit := cmp.Or(b.commit, "unknown")
	if b.modified {
		commit += " with changes"
	}
	return fmt.Sprintf("coordsvc %s (commit %s, %s, %s/%s)", b.version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

type versionFlag bool

// BeforeReset prints the version before kong misses a command.
func (versionFlag) BeforeReset(app *kong.Kong) error { //nolint:unparam // kong wants the error
	fmt.Fprintln(app.Stdout, thisBuild())
	app.Exit(exitOK)
	return nil
}

type versionCmd struct{}

// Help is shown by kong under the usage.
func (versionCmd) Help() string {
	return `Examples:

    coordsvc version
    coordsvc --version`
}

// Run prints the version and the protocol.
func (*versionCmd) Run(inv *invocation) error {
	fmt.Fprintln(inv.out, thisBuild())
	return printProtocol(inv.out)
}

// printProtocol shows the versions of each Kafka API that this binary can speak.
// What is spoken with a broker is negotiated on each connection.
func printProtocol(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nKAFKA API\tKEY\tVERSIONS")
	for _, key := range []kafkawire.APIKey{
		kafkawire.APIKeyMetadata,
		kafkawire.APIKeyFindCoordinator,
		kafkawire.APIKeySaslHandshake,
		kafkawire.APIKeyAPIVersions,
		kafkawire.APIKeySaslAuthenticate,
	} {
		fmt.Fprintf(table, "%s\t%d\t%s\n", key, int16(key), kafkawire.Supported(key))
	}
	return table.Flush()
}
