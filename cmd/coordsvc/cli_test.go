package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outcome is what a person sees of a command.
type outcome struct {
	code     int
	out, err string
}

// coordsvc runs a command to its end.
func coordsvc(t *testing.T, args ...string) outcome {
	t.Helper()
	return call{args: args}.run(t)
}

type call struct {
	args  []string
	stdin string
	env   []string
}

func (c call) run(t *testing.T) outcome {
	t.Helper()
	var out, stderr bytes.Buffer
	code := run(t.Context(), append([]string{"coordsvc"}, c.args...), streams{strings.NewReader(c.stdin), &out, &stderr}, c.env)
	return outcome{code, out.String(), stderr.String()}
}

// requireFile compares with a file in testdata.
func requireFile(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run go test ./cmd/coordsvc -update and look at the difference")
}

func TestHelp(t *testing.T) {
	t.Setenv("COLUMNS", "100")
	for _, command := range []string{"", "serve", "demo", "lookup", "brokers", "healthcheck", "config", "version", "completion", "man"} {
		t.Run(command, func(t *testing.T) {
			got := coordsvc(t, strings.Fields(command+" --help")...)
			require.Zero(t, got.code)
			require.Empty(t, got.err)
			require.Contains(t, got.out, "Examples:\n\n    coordsvc "+command)
			requireFile(t, filepath.Join("help", "coordsvc "+command+".txt"), got.out)
		})
	}
}

func TestWrongUsage(t *testing.T) {
	brokers := "--kafka-brokers=127.0.0.1:1"
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, `coordsvc: expected one of "serve", "demo", "lookup", "brokers", "healthcheck", ... (see coordsvc --help)`},
		{[]string{"lokup"}, `coordsvc: unexpected argument lokup, did you mean "lookup"? (see coordsvc --help)`},
		{[]string{"lookup", "--kafka-broker=a:1", "k"}, `coordsvc: unknown flag --kafka-broker, did you mean "--kafka-brokers"? (see coordsvc lookup --help)`},
		{[]string{"serve", "--log-levels=info"}, `coordsvc: unknown flag --log-levels, did you mean "--log-level"? (see coordsvc serve --help)`},
		{[]string{"serve", "extra"}, `coordsvc: unexpected argument extra (see coordsvc serve --help)`},
		{[]string{"serve"}, "coordsvc: kafka.brokers: must be set: give --kafka-brokers or COORDSVC_KAFKA_BROKERS or the file's kafka.brokers, for example kafka-1.example:9092,kafka-2.example:9092"},
		{[]string{"lookup", "k"}, "coordsvc: kafka.brokers: must be set: give --kafka-brokers or COORDSVC_KAFKA_BROKERS or the file's kafka.brokers, for example kafka-1.example:9092,kafka-2.example:9092"},
		{[]string{"lookup", brokers}, "coordsvc: no key is given; name keys, or - to read them from standard input"},
		{[]string{"lookup", brokers, "-"}, "coordsvc: standard input has no key; give one key a line"},
		{[]string{"lookup", brokers, "-", "-"}, `coordsvc: "-" is given twice; standard input can be read once`},
		{[]string{"lookup", brokers, "-t", "grp", "k"}, `coordsvc: --type: "grp" is no key type; give group, transaction or share (see coordsvc lookup --help)`},
		{[]string{"lookup", brokers, "-o", "xml", "k"}, `coordsvc: --output must be one of "table","json" but got "xml" (see coordsvc lookup --help)`},
		{[]string{"lookup", brokers, "--timeout=0s", "k"}, "coordsvc: --timeout is 0s; it must be greater than zero"},
		{[]string{"lookup", brokers, "--timeout=5", "k"}, `coordsvc: --timeout: expected duration but got "5"; write a unit, as in 5s (see coordsvc lookup --help)`},
		{[]string{"lookup", "--kafka-brokers", "kafka-1", "k"}, `coordsvc: kafka.brokers (flag --kafka-brokers): "kafka-1" has no port; a broker is given as host:port, here for example kafka-1:9092`},
		{[]string{"serve", "--kafka-brokers=a", "--grpc-address=1"}, `coordsvc: 2 settings are wrong:
  kafka.brokers (flag --kafka-brokers): "a" has no port; a broker is given as host:port, here for example a:9092
  grpc.address (flag --grpc-address): "1" has no colon; write :1 to listen on every address, or 127.0.0.1:1 for this machine only`},
		{[]string{"healthcheck", "--timeout=-1s"}, "coordsvc: --timeout is -1s; it must be greater than zero"},
		{[]string{"healthcheck", "--admin-address=:0"}, "coordsvc: admin.address is :0: a port that is chosen at start cannot be known here; give --admin-address"},
		{[]string{"completion", "csh"}, `coordsvc: <shell> must be one of "bash","zsh","fish" but got "csh" (see coordsvc completion --help)`},
		{[]string{"lookup", "k", "--bootstrap-server", "a:1"}, `coordsvc: unknown flag --bootstrap-server: it is --kafka-brokers here (see coordsvc lookup --help)`},
		{[]string{"lookup", brokers, "--timeout=", "k"}, `coordsvc: --timeout: expected duration but got ""; write a number and its unit, as in 5s (see coordsvc lookup --help)`},
		{[]string{"lookup", brokers, "--timeout=5x", "k"}, `coordsvc: --timeout: expected duration but got "5x"; write a number and its unit, as in 5s (see coordsvc lookup --help)`},
		{[]string{"serve", "--kafka-brokers"}, `coordsvc: --kafka-brokers needs a value (see coordsvc serve --help)`},
		{[]string{"serve", "--kafka-brokers", "--log-level", "debug"}, `coordsvc: --kafka-brokers needs a value, and --log-level comes next (see coordsvc serve --help)`},
		{[]string{"lookup", "k", "--timeout"}, `coordsvc: --timeout needs a value (see coordsvc lookup --help)`},
		{[]string{"lookup", brokers, "k", "-o"}, `coordsvc: --output needs a value (see coordsvc lookup --help)`},
		{[]string{"config", brokers, "--config="}, `coordsvc: --config: names no file (see coordsvc config --help)`},
		{[]string{"serve", brokers, "--http-docs", "false"}, `coordsvc: "false" after --http-docs is not its value; write --http-docs=false (see coordsvc serve --help)`},
		{[]string{"lookup", brokers, "--kafka-discover-brokers", "False", "orders"}, `coordsvc: "False" after --kafka-discover-brokers is not its value; write --kafka-discover-brokers=false, or -- before it if it is an argument (see coordsvc lookup --help)`},
		{[]string{"version", "--config=x"}, `coordsvc: unknown flag --config (see coordsvc version --help)`},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			got := coordsvc(t, tc.args...)
			require.Equal(t, outcome{exitUsage, "", tc.want + "\n"}, got)
		})
	}
}

func TestVersion(t *testing.T) {
	got := coordsvc(t, "version")
	require.Zero(t, got.code)
	first, rest, _ := strings.Cut(got.out, "\n")
	require.Regexp(t, `^coordsvc \S+ \(commit .+, go1\.\d+.*, \w+/\w+\)$`, first)
	require.Equal(t, `
KAFKA API         KEY  VERSIONS
Metadata          3    0-12
FindCoordinator   10   0-6
SaslHandshake     17   0-1
ApiVersions       18   0-5
SaslAuthenticate  36   0-2
`, rest)
	require.Equal(t, outcome{exitOK, first + "\n", ""}, coordsvc(t, "--version"))
	require.Equal(t, outcome{exitOK, first + "\n", ""}, coordsvc(t, "serve", "--version"))
}

func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "coordsvc.yaml")
	require.NoError(t, os.WriteFile(file, []byte("kafka:\n  brokers:\n    - kafka-1.example:9092\n    - '[2001:db8::1]:9092'\n  client-id: \"a: #b\\\\\"\n"), 0o600))
	c := call{
		args: []string{"config", "--config", file, "--log-format=json", "--kafka-discover-brokers=false"},
		env:  []string{"COORDSVC_POOL_MAX_IDLE_TIME=90s", "COORDSVC_LOG_LEVEL=", "HOME=/root"},
	}
	t.Run("table", func(t *testing.T) {
		got := c.run(t)
		require.Zero(t, got.code, got.err)
		requireFile(t, "config.txt", strings.ReplaceAll(got.out, file, "FILE"))
	})
	t.Run("json", func(t *testing.T) {
		c := c
		c.args = append([]string{}, append(c.args, "-o", "json")...)
		got := c.run(t)
		require.Zero(t, got.code, got.err)
		requireFile(t, "config.json", strings.ReplaceAll(got.out, file, "FILE"))
	})
	t.Run("the yaml is a settings file with the same values", func(t *testing.T) {
		values := func(table string) []string {
			var values []string
			for line := range strings.Lines(table) {
				values = append(values, strings.Join(strings.Fields(line)[:2], " "))
			}
			return values
		}
		yaml := call{args: append(append([]string{}, c.args...), "-o", "yaml"), env: c.env}.run(t)
		require.Zero(t, yaml.code, yaml.err)
		written := filepath.Join(t.TempDir(), "written.yaml")
		require.NoError(t, os.WriteFile(written, []byte(yaml.out), 0o600))
		again := coordsvc(t, "config", "--config", written)
		require.Zero(t, again.code, again.err)
		require.Equal(t, values(c.run(t).out), values(again.out))
	})
	t.Run("shown beside what is wrong", func(t *testing.T) {
		got := coordsvc(t, "config", "--log-level=loud", "--kafka-brokers=a:1")
		require.Equal(t, exitUsage, got.code)
		require.Regexp(t, `(?m)^kafka.brokers +a:1 `, got.out)
		require.Equal(t, "coordsvc: log.level (flag --log-level): \"loud\" is not one of debug, info, warn, error\n", got.err)
	})
}

func TestErrorsWithoutACodeAreFailures(t *testing.T) {
	var stderr bytes.Buffer
	inv := &invocation{ctx: context.Background(), streams: streams{err: &stderr}}
	require.Equal(t, exitFailed, inv.fail(os.ErrClosed))
	require.Equal(t, "coordsvc: file already closed\n", stderr.String())
	require.Equal(t, exitInterrupted, inv.fail(errInterrupted))
}

func TestHelpAsACommand(t *testing.T) {
	for _, words := range [][]string{nil, {"lookup"}} {
		want := coordsvc(t, append(slices.Clone(words), "--help")...)
		require.Equal(t, exitOK, want.code)
		require.Equal(t, want, coordsvc(t, append([]string{"help"}, words...)...))
	}
}
