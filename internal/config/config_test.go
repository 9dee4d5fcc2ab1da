package config

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/plainyaml"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md from the table")

func TestDefaults(t *testing.T) {
	require.Equal(t, Settings{
		Kafka: Kafka{
			ClientID:        "coordsvc",
			DiscoverBrokers: true,
			DialTimeout:     5 * time.Second,
			RequestTimeout:  10 * time.Second,
			MaxAPIVersions:  3,
		},
		Pool: Pool{
			MaxConnectionsPerBroker: 4,
			MaxIdleTime:             3 * time.Minute,
			MaxLifetime:             time.Hour,
			AcquireTimeout:          2 * time.Second,
			MaxWaiters:              1024,
		},
		Lookup: Lookup{
			MaxKeys:        10_000,
			ChunkKeys:      500,
			PipelineWindow: 32,
			DefaultTimeout: 5 * time.Second,
			MaxTimeout:     30 * time.Second,
		},
		GRPC:     GRPC{Listener: Listener{Address: ":9090"}, Reflection: true},
		HTTP:     HTTP{Listener: Listener{Address: ":8080"}, Docs: true},
		Admin:    Admin{Listener: Listener{Address: ":8081"}},
		TLS:      TLS{ClientAuth: "off"},
		Auth:     Auth{OIDC: OIDC{ClockSkew: time.Minute}},
		Limits:   Limits{MaxCallsInFlight: 2000, MaxMessageBytes: 8 << 20, MaxConnectionAge: 5 * time.Minute, MaxWaitingKeys: 1_000_000},
		Log:      Log{Level: "info", Format: "text"},
		Tracing:  Tracing{SampleRatio: 0.01},
		Shutdown: Shutdown{DrainDelay: 5 * time.Second, DrainTimeout: 35 * time.Second},
	}, Defaults())
}

// The table and the settings must cover each other: a field that no row fills is
// dead, a default that is not written as the service would print it confuses.
func TestTableIsWellFormed(t *testing.T) {
	fields := map[any]string{}
	settings := Defaults()
	sections := map[string]bool{}
	for _, s := range Sections {
		sections[s.Name] = true
	}
	for s := range All() {
		t.Run(s.Path, func(t *testing.T) {
			require.True(t, sections[s.Section()], "the section is not in Sections")
			require.NotEmpty(t, s.Type())
			require.False(t, s.Required && s.Default != "", "what has a default is not required")
			require.Equal(t, s.Default, s.format(&settings), "the default is printed as it is written")
			require.True(t, strings.HasSuffix(s.Doc, "."), "documentation is whole sentences")
			require.False(t, serviceLink.MatchString(s.Env()+"=tcp://10.0.0.1:80"), "Kubernetes may set %s", s.Env())
			require.NotEqual(t, ConfigEnv, s.Env())
			other, taken := fields[s.field(&settings)]
			require.False(t, taken, "shares its field with %s", other)
			fields[s.field(&settings)] = s.Path
			if s.Example != "" {
				require.NoError(t, s.assign(new(Settings), raw{text: s.Example}))
			}
		})
	}
	require.Len(t, fields, 62)
}

func TestNames(t *testing.T) {
	s := find(table, "pool.max-connections-per-broker")
	require.Equal(t, "pool-max-connections-per-broker", s.Flag())
	require.Equal(t, "COORDSVC_POOL_MAX_CONNECTIONS_PER_BROKER", s.Env())
	require.Equal(t, "pool", s.Section())
	require.Equal(t, "Connections to one broker at most.", s.Summary())
}

// parseFlags runs the arguments through kong as a command would.
func parseFlags(t *testing.T, table []*Setting, args ...string) *Flags {
	t.Helper()
	flags := newFlags(table, nil)
	cli := struct {
		Settings any `embed:""`
	}{flags.Fields()}
	app, err := kong.New(&cli)
	require.NoError(t, err)
	_, err = app.Parse(args)
	require.NoError(t, err)
	return flags
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "coordsvc.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestPrecedence(t *testing.T) {
	const path = "kafka.client-id"
	file := writeFile(t, "# a comment\nkafka:\n  client-id: of-the-file\n")
	env := "COORDSVC_KAFKA_CLIENT_ID=of-the-environment"
	for _, tc := range []struct {
		name   string
		file   string
		env    []string
		args   []string
		want   string
		origin string
	}{
		{"nothing", "", nil, nil, "coordsvc", "default"},
		{"file", file, nil, nil, "of-the-file", "file " + file + ":3"},
		{"file named by the environment", "", []string{"COORDSVC_CONFIG=" + file}, nil, "of-the-file", "file " + file + ":3"},
		{"environment over file", file, []string{env}, nil, "of-the-environment", "environment COORDSVC_KAFKA_CLIENT_ID"},
		{"flag over both", file, []string{env}, []string{"--kafka-client-id", "of-the-flag"}, "of-the-flag", "flag --kafka-client-id"},
		{"empty environment is not set", file, []string{"COORDSVC_KAFKA_CLIENT_ID=", "COORDSVC_CONFIG="}, nil, "of-the-file", "file " + file + ":3"},
		{"the flag for the file beats the environment", file, []string{"COORDSVC_CONFIG=/nowhere"}, nil, "of-the-file", "file " + file + ":3"},
		{"the last flag counts", "", nil, []string{"--kafka-client-id=a", "--kafka-client-id=b"}, "b", "flag --kafka-client-id"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			loaded, err := Load(Sources{File: tc.file, Environ: tc.env, Flags: parseFlags(t, table, tc.args...)})
			require.NoError(t, err)
			require.Equal(t, tc.want, loaded.Kafka.ClientID)
			require.Equal(t, tc.origin, loaded.Origin(path).String())
		})
	}
}

func TestEveryTypeFromEverySource(t *testing.T) {
	want := func(t *testing.T, loaded *Loaded, err error) {
		t.Helper()
		require.NoError(t, err)
		require.Equal(t, []string{"a:1", "[::1]:2"}, loaded.Kafka.Brokers)
		require.False(t, loaded.Kafka.DiscoverBrokers)
		require.Equal(t, 90*time.Second, loaded.Pool.MaxIdleTime)
		require.Equal(t, 7, loaded.Lookup.ChunkKeys)
		require.Equal(t, "json", loaded.Log.Format)
	}
	t.Run("flags", func(t *testing.T) {
		loaded, err := Load(Sources{Flags: parseFlags(t, table, "--kafka-brokers=a:1", "--kafka-brokers", "[::1]:2",
			"--kafka-discover-brokers=false", "--pool-max-idle-time=1m30s", "--lookup-chunk-keys", "7", "--log-format=json")})
		want(t, loaded, err)
	})
	t.Run("environment", func(t *testing.T) {
		loaded, err := Load(Sources{Environ: []string{"HOME=/", "COORDSVC_KAFKA_BROKERS=a:1, [::1]:2", "COORDSVC_KAFKA_DISCOVER_BROKERS=false",
			"COORDSVC_POOL_MAX_IDLE_TIME=90s", "COORDSVC_LOOKUP_CHUNK_KEYS=7", "COORDSVC_LOG_FORMAT=json"}})
		want(t, loaded, err)
	})
	for name, text := range map[string]string{
		"file":                "kafka:\n  brokers:\n    - a:1 # first\n    - '[::1]:2'\n  discover-brokers: false\npool:\n  max-idle-time: 90s\nlookup: {chunk-keys: 7}\nlog:\n  format: json\n",
		"file, list by comma": "kafka:\n  brokers: a:1,[::1]:2\n  discover-brokers: \"false\"\npool:\n  max-idle-time: '90s'\nlookup:\n  chunk-keys: '7'\nlog:\n  format: |-\n    json\n",
		"file, Windows":       "\xef\xbb\xbfkafka:\r\n  brokers: [a:1, '[::1]:2']\r\n  discover-brokers: false\r\npool:\r\n  max-idle-time: 90s\r\nlookup:\r\n  chunk-keys: 7\r\nlog:\r\n  format: json\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			loaded, err := Load(Sources{File: writeFile(t, text)})
			want(t, loaded, err)
		})
	}
	t.Run("a boolean flag alone is true", func(t *testing.T) {
		loaded, err := Load(Sources{Environ: []string{"COORDSVC_KAFKA_DISCOVER_BROKERS=false"}, Flags: parseFlags(t, table, "--kafka-discover-brokers")})
		require.NoError(t, err)
		require.True(t, loaded.Kafka.DiscoverBrokers)
	})
}

func TestFilesWithoutSettings(t *testing.T) {
	for _, text := range []string{"", "\n", "# only a comment\n", "---\n", "kafka:\n", "kafka:\n  # brokers: a:1\n", "kafka:\n  brokers:\nlog: ~\n", "{}", "kafka: {}\n"} {
		t.Run(text, func(t *testing.T) {
			loaded, err := Load(Sources{File: writeFile(t, text)})
			require.NoError(t, err)
			require.Equal(t, Defaults(), loaded.Settings)
		})
	}
}

// Every mistake names the setting, the place and what to do.
func TestMistakes(t *testing.T) {
	for _, tc := range []struct {
		name string
		yaml string
		env  []string
		args []string
		want string // FILE stands for the path of the file
	}{
		{name: "unknown key", yaml: "kafka:\n  broker: a:1\n",
			want: "kafka.broker (file FILE:2): there is no such setting; did you mean kafka.brokers?"},
		{name: "unknown key far from all", yaml: "kafka:\n  xyzzy-plugh: 1\n",
			want: "kafka.xyzzy-plugh (file FILE:2): there is no such setting"},
		{name: "unknown section", yaml: "\nkafak:\n  brokers: a:1\n",
			want: "kafak (file FILE:2): there is no such setting; did you mean kafka?"},
		{name: "setting without its section", yaml: "brokers: a:1\n",
			want: "brokers (file FILE:1): there is no such setting; did you mean kafka.brokers?"},
		{name: "key with a dot", yaml: "kafka.brokers: a:1\n",
			want: "kafka.brokers (file FILE:1): a key has no dot; write kafka: and under it, indented, brokers:"},
		{name: "duplicate key", yaml: "log:\n  level: info\n  format: json\n  level: warn\n",
			want: "log.level (file FILE:4): is set twice; the first time in line 2"},
		{name: "duplicate section", yaml: "log:\n  level: info\nkafka:\nlog:\n  format: json\n",
			want: "log (file FILE:4): is set twice; the first time in line 1"},
		{name: "value for a section", yaml: "kafka: a:1\n",
			want: "kafka (file FILE:1): is a group of settings, not a value"},
		{name: "value for a section that can be switched on", yaml: "kafka:\n  tls: true\n",
			want: "kafka.tls (file FILE:2): is a group of settings, not a value; what switches it on is kafka.tls.enabled"},
		{name: "group for a setting", yaml: "log:\n  level:\n    root: info\n",
			want: "log.level (file FILE:2): is one setting; a plain text is expected, not a group, an anchor or a tag"},
		{name: "list for one value", yaml: "log:\n  level: [info]\n",
			want: "log.level (file FILE:2): a list is given where one value is expected"},
		{name: "list of lists", yaml: "kafka:\n  brokers: [[a:1]]\n",
			want: "kafka.brokers (file FILE:2): an entry of the list is not a plain value; if it is meant to be one, put it in quotes"},
		{name: "empty list", yaml: "kafka:\n  brokers: []\n",
			want: "kafka.brokers (file FILE:2): the list is empty"},
		{name: "list at the top", yaml: "- a\n",
			want: "file FILE:1: the file holds no settings; write for example kafka: and under it, indented, brokers: kafka-1.example:9092"},
		{name: "anchor and alias", yaml: "log:\n  level: &l info\n",
			want: "log.level (file FILE:2): is one setting; a plain text is expected, not a group, an anchor or a tag"},
		{name: "anchor of a section", yaml: "kafka: &k\n  client-id: a\n",
			want: "kafka (file FILE:1): is a plain group of settings; anchors, merges and tags are not read here"},
		{name: "two documents", yaml: "log:\n  level: info\n---\nlog:\n  level: warn\n",
			want: "file FILE:4: a second YAML document begins here; a settings file has one"},
		{name: "not UTF-8", yaml: "log:\n  level: \xff\n",
			want: "file FILE:1: the file is not UTF-8 text"},
		{name: "too large", yaml: strings.Repeat("# \n", plainyaml.MaxSize/3+1),
			want: "flag --config: cannot read the settings file: FILE is larger than 64 KiB, which no settings file is"},
		{name: "too many brackets", yaml: strings.Repeat("[", 2000),
			want: "file FILE:1: the file holds more brackets than can be read; write lists as lines that begin with a dash"},

		{name: "unknown variable", env: []string{"COORDSVC_KAFKA_BROKER=a:1"},
			want: "COORDSVC_KAFKA_BROKER: there is no setting with this environment variable; did you mean COORDSVC_KAFKA_BROKERS?"},
		{name: "variable of the file", env: []string{"COORDSVC_CONFG=a"},
			want: "COORDSVC_CONFG: there is no setting with this environment variable; did you mean COORDSVC_CONFIG?"},
		{name: "file missing", env: []string{"COORDSVC_CONFIG=/nowhere/c.yaml"},
			want: "environment COORDSVC_CONFIG: cannot read the settings file: open /nowhere/c.yaml: no such file or directory"},
		{name: "file is a directory", env: []string{"COORDSVC_CONFIG=/"},
			want: "environment COORDSVC_CONFIG: cannot read the settings file: read /: is a directory"},

		{name: "duration without unit", args: []string{"--kafka-dial-timeout=5"},
			want: `kafka.dial-timeout (flag --kafka-dial-timeout): "5" has no unit; write 5s for seconds, or use ms, m or h`},
		{name: "duration of words", yaml: "kafka:\n  dial-timeout: soon\n",
			want: `kafka.dial-timeout (file FILE:2): "soon" is not a duration; write for example 500ms, 5s, 3m or 1h30m`},
		{name: "duration too short", env: []string{"COORDSVC_KAFKA_DIAL_TIMEOUT=0s"},
			want: "kafka.dial-timeout (environment COORDSVC_KAFKA_DIAL_TIMEOUT): 0s is out of range; give 10ms to 5m"},
		{name: "negative duration", args: []string{"--shutdown-drain-delay=-1s"},
			want: "shutdown.drain-delay (flag --shutdown-drain-delay): -1s is out of range; give 0s to 10m"},
		{name: "integer too small", args: []string{"--lookup-chunk-keys=0"},
			want: "lookup.chunk-keys (flag --lookup-chunk-keys): 0 is out of range; give 1 to 10000"},
		{name: "integer of words", args: []string{"--lookup-max-keys=many"},
			want: `lookup.max-keys (flag --lookup-max-keys): "many" is not a whole number`},
		{name: "integer with a fraction", yaml: "lookup:\n  max-keys: 1.5\n",
			want: `lookup.max-keys (file FILE:2): "1.5" is not a whole number`},
		{name: "integer beyond 64 bits", yaml: "lookup:\n  max-keys: 99999999999999999999\n",
			want: "lookup.max-keys (file FILE:2): 99999999999999999999 is out of range"},
		{name: "boolean of words", yaml: "kafka:\n  discover-brokers: yes\n",
			want: `kafka.discover-brokers (file FILE:2): "yes" is neither true nor false`},
		{name: "boolean flag of words", args: []string{"--kafka-discover-brokers=maybe"},
			want: `kafka.discover-brokers (flag --kafka-discover-brokers): "maybe" is neither true nor false`},
		{name: "not one of", args: []string{"--log-level=trace"},
			want: `log.level (flag --log-level): "trace" is not one of debug, info, warn, error`},
		{name: "empty flag", args: []string{"--kafka-client-id="},
			want: "kafka.client-id (flag --kafka-client-id): the value is empty"},
		{name: "unprintable", args: []string{"--kafka-client-id=a\x00b"},
			want: `kafka.client-id (flag --kafka-client-id): "a\x00b" holds a character that cannot be printed`},
		{name: "too long", args: []string{"--kafka-client-id=" + strings.Repeat("x", 256)},
			want: "kafka.client-id (flag --kafka-client-id): the value has 256 bytes; at most 255 are allowed"},
		{name: "empty entry", args: []string{"--kafka-brokers=a:1,,b:2"},
			want: "kafka.brokers (flag --kafka-brokers): entry 2 of the list is empty"},
		{name: "max-timeout below default-timeout", yaml: "lookup:\n  default-timeout: 20s\n", args: []string{"--lookup-max-timeout=10s"},
			want: "lookup.max-timeout (flag --lookup-max-timeout): 10s is less than lookup.default-timeout, which is 20s (file FILE:2)"},
		{name: "waiting keys below one call", args: []string{"--limits-max-waiting-keys=100"},
			want: "limits.max-waiting-keys (flag --limits-max-waiting-keys): 100 is less than lookup.max-keys, which is 10000 (default): the largest call could never be served"},
		{name: "port taken", args: []string{"--http-address=127.0.0.1:9090"},
			want: "http.address (flag --http-address): 127.0.0.1:9090 is taken by grpc.address, which is :9090 (default)"},
		{name: "a mistake that a flag hides", yaml: "log:\n  level: loud\n", args: []string{"--log-level=info"},
			want: `log.level (file FILE:2): "loud" is not one of debug, info, warn, error`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sources := Sources{Environ: tc.env, Flags: parseFlags(t, table, tc.args...), Listens: true}
			if tc.yaml != "" {
				sources.File = writeFile(t, tc.yaml)
			}
			_, err := Load(sources)
			require.EqualError(t, err, strings.ReplaceAll(tc.want, "FILE", sources.File))
			var mistake *Error
			require.ErrorAs(t, err, &mistake)
		})
	}
}

func TestSyntaxErrorsNameTheLine(t *testing.T) {
	for _, text := range []string{"log:\n  level: [info\n", "log:\n\tlevel: info\n", "log:\n  level: \"info\n", "a: b: c\n", "log:\n  level: info\n format: json\n", "@"} {
		t.Run(text, func(t *testing.T) {
			file := writeFile(t, text)
			_, err := Load(Sources{File: file})
			require.ErrorContains(t, err, "file "+file+":")
			require.NotContains(t, err.Error(), "\n", "one sentence, no drawing of the source")
		})
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	file := writeFile(t, "kafka:\n  brokers: kafka-1\n  clientid: x\npool:\n  max-waiters: none\n")
	_, err := Load(Sources{File: file, Environ: []string{"COORDSVC_LOG_LEVEL=loud", "COORDSVC_LOOKUP=1"}, Flags: parseFlags(t, table, "--grpc-address=9090")})
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok)
	require.Len(t, joined.Unwrap(), 6)
	require.Equal(t, []string{
		"kafka.clientid (file " + file + ":3): there is no such setting; did you mean kafka.client-id?",
		"COORDSVC_LOOKUP: there is no setting with this environment variable",
		`kafka.brokers (file ` + file + `:2): "kafka-1" has no port; a broker is given as host:port, here for example kafka-1:9092`,
		`pool.max-waiters (file ` + file + `:5): "none" is not a whole number`,
		`grpc.address (flag --grpc-address): "9090" has no colon; write :9090 to listen on every address, or 127.0.0.1:9090 for this machine only`,
		`log.level (environment COORDSVC_LOG_LEVEL): "loud" is not one of debug, info, warn, error`,
	}, strings.Split(err.Error(), "\n"))
}

func TestRequire(t *testing.T) {
	_, err := Load(Sources{Require: []string{"kafka.brokers"}})
	require.EqualError(t, err, "kafka.brokers: must be set: give --kafka-brokers or COORDSVC_KAFKA_BROKERS or the file's kafka.brokers, "+
		"for example kafka-1.example:9092,kafka-2.example:9092")
	_, err = Load(Sources{Require: []string{"kafka.brokers"}, Environ: []string{"COORDSVC_KAFKA_BROKERS=a:1"}})
	require.NoError(t, err)

	// What was not read may well hold it.
	for text, want := range map[string]string{
		"kafka:\n  brokers: [a:1\n": "not valid YAML",
		"kafka.brokers: a:1\n":      "a key has no dot",
		"kafka: a:1\n":              "is a group of settings",
		"- a:1\n":                   "the file holds no settings",
	} {
		file := filepath.Join(t.TempDir(), "coordsvc.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err = Load(Sources{Require: []string{"kafka.brokers"}, File: file})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "must be set", text)
	}
	_, err = Load(Sources{Require: []string{"kafka.brokers"}, File: filepath.Join(t.TempDir(), "none.yaml")})
	require.ErrorContains(t, err, "cannot read the settings file")
	require.NotContains(t, err.Error(), "must be set")
	file := filepath.Join(t.TempDir(), "coordsvc.yaml")
	require.NoError(t, os.WriteFile(file, []byte("log:\n  levl: info\n"), 0o600))
	_, err = Load(Sources{Require: []string{"kafka.brokers"}, File: file})
	require.ErrorContains(t, err, "kafka.brokers: must be set", "a mistake elsewhere")
}

// Kubernetes sets these in every pod that shares a namespace with a Service whose
// name begins with coordsvc.
func TestServiceLinksAreIgnored(t *testing.T) {
	_, err := Load(Sources{Environ: []string{
		"COORDSVC_SERVICE_HOST=10.0.0.1", "COORDSVC_SERVICE_PORT=9090", "COORDSVC_SERVICE_PORT_GRPC=9090",
		"COORDSVC_PORT=tcp://10.0.0.1:9090", "COORDSVC_PORT_9090_TCP=tcp://10.0.0.1:9090", "COORDSVC_PORT_9090_TCP_PROTO=tcp",
		"COORDSVC_PORT_9090_TCP_PORT=9090", "COORDSVC_PORT_9090_TCP_ADDR=10.0.0.1", "COORDSVC_HEADLESS_SERVICE_HOST=10.0.0.2", "COORDSVC_KAFKA_PORT=tcp://10.0.0.3:9092",
	}})
	require.NoError(t, err)
	for _, variable := range []string{"COORDSVC_PORT=8080", "COORDSVC_HTTP_PORT=8080", "COORDSVC_LOG=x_PORT=tcp://10.0.0.1:80"} {
		_, err := Load(Sources{Environ: []string{variable}})
		require.ErrorContains(t, err, "there is no setting with this environment variable", variable)
	}
}

func TestBrokerAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"kafka-1.example:9092":          "",
		"10.0.0.1:1":                    "",
		"[2001:db8::1]:65535":           "",
		"[fe80::1%eth0]:9092":           "",
		"münchen.example:9092":          "",
		"under_score:9092":              "",
		"kafka-1.example":               "here for example kafka-1.example:9092",
		"kafka-1.example:":              "has no port",
		"2001:db8::1":                   "here for example [2001:db8::1]:9092",
		"[2001:db8::1]":                 "has no port",
		"::1":                           "here for example [::1]:9092",
		":9092":                         "has no host",
		"kafka:0":                       "the port must be a number from 1 to 65535",
		"kafka:65536":                   "the port must be a number from 1 to 65535",
		"kafka:-1":                      "the port must be a number from 1 to 65535",
		"kafka:+1":                      "the port must be a number from 1 to 65535",
		"kafka:kafka":                   "the port must be a number from 1 to 65535",
		"PLAINTEXT://kafka-1:9092":      "begins with PLAINTEXT://; a broker is given as host:port, here kafka-1:9092",
		"kafka://kafka-1/":              "here kafka-1:9092",
		"a b:9092":                      "holds a character that no host name has",
		"a;b:9092":                      "holds a character that no host name has",
		"http:/kafka:9092":              "is not host:port",
		"a:b:c":                         "is not host:port, for example",
		"a:1 b:2":                       "several brokers are separated by commas",
		"a:1;b:2":                       "several brokers are separated by commas",
		"[kafka]:9092x":                 "the port must be a number from 1 to 65535",
		"[nonsense::::1]:9092":          "is not a valid IPv6 address",
		"zookeeper-1:2181/kafka":        "the port must be a number from 1 to 65535",
		"[::1":                          "is not host:port",
		strings.Repeat("x:", 1000):      "is not host:port",
		"kafka:99999999999999999999999": "the port must be a number from 1 to 65535",
	} {
		t.Run(address, func(t *testing.T) {
			err := checkBrokerAddress(address)
			if want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, want)
		})
	}
}

func TestListenAddresses(t *testing.T) {
	for address, want := range map[string]string{
		":8080":            "",
		"127.0.0.1:0":      "",
		"[::1]:8080":       "",
		"localhost:8080":   "",
		"8080":             "write :8080 to listen on every address, or 127.0.0.1:8080 for this machine only",
		"localhost":        "has no port; give host:port, for example localhost:8080",
		"::1":              "for example [::1]:8080",
		":":                "has no port after the colon",
		":http":            "the port must be a number from 0 to 65535",
		":65536":           "the port must be a number from 0 to 65535",
		"":                 "has no port",
		"http://localhost": "the port must be a number",
		"//x:1":            "holds a character that no host name has",
	} {
		t.Run(address, func(t *testing.T) {
			err := checkListenAddress(address)
			if want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, want)
		})
	}
}

func TestClash(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{":1", ":1", true},
		{":1", ":2", false},
		{":0", ":0", false},
		{"127.0.0.1:1", "0.0.0.0:1", true},
		{"127.0.0.1:1", "[::]:1", true},
		{"127.0.0.1:1", "127.0.0.2:1", false},
	} {
		require.Equal(t, tc.want, clash(tc.a, tc.b), "%s and %s", tc.a, tc.b)
		require.Equal(t, tc.want, clash(tc.b, tc.a), "%s and %s", tc.b, tc.a)
	}
}

// secretTable has a secret setting, which the real table has not yet.
func secretTable() ([]*Setting, *string, *int) {
	value, number := new(string), new(int)
	return append(slices.Clone(table),
		&Setting{Path: "test.password", Secret: true, Doc: "A secret.", field: func(*Settings) any { return value }, Limit: oneOf("hunter2", "hunter3")},
		&Setting{Path: "test.pin", Secret: true, Doc: "A secret number.", field: func(*Settings) any { return number }, Limit: from(0, 9999)},
	), value, number
}

func TestSecretsAreNeverShown(t *testing.T) {
	secrets, value, number := secretTable()
	loaded, err := load(secrets, Sources{Environ: []string{"COORDSVC_TEST_PASSWORD=hunter2"}, Flags: parseFlags(t, secrets, "--test-pin=1234")})
	require.NoError(t, err)
	require.Equal(t, "hunter2", *value)
	require.Equal(t, 1234, *number)
	for _, entry := range loaded.Entries() {
		if entry.Section() == "test" {
			require.Equal(t, Redacted, entry.Value)
		}
	}

	file := writeFile(t, "test:\n  password: s3cret\n  pin: s3cret\n")
	_, err = load(secrets, Sources{File: file, Environ: []string{"COORDSVC_TEST_PASSWORD=s3cret"}, Flags: parseFlags(t, secrets, "--test-pin=s3cret")})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3cret")
	require.Contains(t, err.Error(), "test.pin (flag --test-pin): the value is not valid; it is a secret and not shown here")
}

func TestEntries(t *testing.T) {
	loaded, err := Load(Sources{Environ: []string{"COORDSVC_KAFKA_BROKERS=a:1,b:2", "COORDSVC_POOL_MAX_IDLE_TIME=3600s"}})
	require.NoError(t, err)
	entries := loaded.Entries()
	require.Len(t, entries, 62)
	require.Equal(t, "kafka.brokers", entries[0].Path)
	require.Equal(t, "a:1,b:2", entries[0].Value)
	require.Equal(t, SourceEnv, entries[0].Origin.Source)
	require.Equal(t, "1h", entries[24].Value)
	require.Equal(t, "coordsvc", entries[1].Value)
	require.Equal(t, Origin{}, entries[1].Origin)
	require.Panics(t, func() { loaded.Origin("kafka.broker") })
}

func TestFormatDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "10ms": 10 * time.Millisecond, "10s": 10 * time.Second, "1m30s": 90 * time.Second,
		"10m": 10 * time.Minute, "1h": time.Hour, "20h10m": 20*time.Hour + 10*time.Minute, "100h0m10s": 100*time.Hour + 10*time.Second,
	} {
		require.Equal(t, want, formatDuration(d))
	}
}

func TestFlagsOfSomeSections(t *testing.T) {
	flags := NewFlags("admin", "log")
	require.Len(t, flags.settings, 4)
	require.Empty(t, flags.values())
}

// Without one, kong shows the name of a Go type.
func TestEveryFlagNamesItsValue(t *testing.T) {
	for s := range All() {
		require.NotEmpty(t, placeholder(s), s.Path)
	}
	require.Equal(t, "AUDIENCE,...", placeholder(find(table, "auth.oidc.audience")))
}

func TestDocumentation(t *testing.T) {
	const path = "../../docs/configuration.md"
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(Markdown()), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, Markdown() == string(text), "%s is not what the table says: run go test ./internal/config -update", path)

	_, yaml, _ := strings.Cut(docsExample, "```yaml\n")
	yaml, _, _ = strings.Cut(yaml, "```")
	loaded, err := Load(Sources{File: writeFile(t, yaml)})
	require.NoError(t, err, "the example of the documentation")
	require.Len(t, loaded.Kafka.Brokers, 2)
}

// FuzzFile: whatever the file holds, every value and every mistake has a line of
// it, and what is accepted keeps to the limits.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"kafka:\n  brokers: [a:1, 'b:2']\n  discover-brokers: false\n", "log: {level: info}\nlog: 1", "? kafka\n: brokers: x", "a: &b [*b]\n<<: *b",
		"%YAML 1.2\n---\nkafka:\n", "kafka:\n  client-id: !!str 1\n", "kafka:\n  client-id: |\n    x\n    y\n", "- - - a", "{a: {b: [", "\"\\x", "kafka:\r\n\tx: 1",
		"log:\n  level: >-\n\n", "---\n---\n", "!", "&", "*", "[]: 1", "{}: {}", "? [", "kafka: #\n  #\n  brokers: #\n   - #\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > plainyaml.MaxSize {
			return
		}
		values, mistakes := parseFile(table, "f.yaml", []byte(text))
		lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 2
		for _, v := range values {
			require.NotNil(t, find(table, v.path))
			requireLine(t, v.origin, lines)
		}
		for _, err := range mistakes {
			var mistake *Error
			require.True(t, errors.As(err, &mistake))
			requireLine(t, mistake.Origin, lines)
			require.NotEmpty(t, mistake.Reason)
		}
		loaded := &Loaded{table: table, origins: map[string]Origin{}}
		for _, v := range values {
			if s := find(table, v.path); s.assign(&loaded.Settings, v.value) == nil {
				require.NoError(t, s.assign(new(Settings), raw{text: s.format(&loaded.Settings)}), "what is printed can be given again")
			}
		}
	})
}

func requireLine(t *testing.T, origin Origin, lines int) {
	t.Helper()
	require.Equal(t, SourceFile, origin.Source)
	text, ok := strings.CutPrefix(origin.Name, "f.yaml:")
	require.True(t, ok)
	line, err := parseInt(text)
	require.NoError(t, err)
	require.True(t, line >= 1 && line <= lines, "line %d of %d", line, lines)
}

func TestPortsOfOthersDoNotClashWithOnesOwn(t *testing.T) {
	_, err := Load(Sources{Flags: parseFlags(t, table, "--admin-address=127.0.0.1:8080")})
	require.NoError(t, err, "healthcheck asks a port and opens none")
}

func TestJSONSchemaDocumentation(t *testing.T) {
	const path = "../../docs/coordsvc.schema.json"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(JSONSchema()), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, JSONSchema() == string(text), "%s is not what the table says: run go test ./internal/config -update", path)

	var schema struct {
		Properties map[string]struct {
			AdditionalProperties *bool
			Properties           map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(text, &schema))
	require.Len(t, schema.Properties, len(Sections))
	for name, section := range schema.Properties {
		require.NotNil(t, section.AdditionalProperties, name)
		require.False(t, *section.AdditionalProperties, "a misspelt key of %s must be refused", name)
		require.NotEmpty(t, section.Properties, name)
	}
}
