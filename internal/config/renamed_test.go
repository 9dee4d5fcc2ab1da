package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// renamed is a table with settings that had other names. No real one has yet.
var renamed = []*Setting{
	{Path: "pool.max-idle-time", Formerly: "pool.idle", Default: "3m", Doc: "How long.", Limit: between(time.Second, time.Hour),
		field: func(s *Settings) any { return &s.Pool.MaxIdleTime }},
	{Path: "test.password", Formerly: "test.pass", Doc: "A secret.", Secret: true,
		field: func(s *Settings) any { return &s.Log.Format }},
}

func TestOldNamesWork(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte("test:\n  pass: hunter2\npool:\n  idle: 5m\n"), 0o600))
	for name, c := range map[string]struct {
		sources Sources
		want    time.Duration
		warned  string
	}{
		"file":                                 {Sources{File: file}, 5 * time.Minute, "pool.idle (file " + file + ":4) is called pool.max-idle-time now: the old name will go"},
		"environment":                          {Sources{Environ: []string{"COORDSVC_POOL_IDLE=6m"}}, 6 * time.Minute, "pool.idle (environment COORDSVC_POOL_IDLE) is called pool.max-idle-time now: the old name will go"},
		"flag":                                 {Sources{Flags: parseFlags(t, renamed, "--pool-idle=7m")}, 7 * time.Minute, "pool.idle (flag --pool-idle) is called pool.max-idle-time now: the old name will go"},
		"the flag beats the file, one warning": {Sources{File: file, Flags: parseFlags(t, renamed, "--pool-idle=7m")}, 7 * time.Minute, "pool.idle (flag --pool-idle) is called pool.max-idle-time now: the old name will go"},
		"the new name":                         {Sources{Flags: parseFlags(t, renamed, "--pool-max-idle-time=8m")}, 8 * time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			loaded, err := load(renamed, c.sources)
			require.NoError(t, err)
			require.Equal(t, c.want, loaded.Pool.MaxIdleTime)
			warnings := strings.Join(loaded.Warnings, "\n")
			require.NotContains(t, warnings, "hunter2")
			require.Equal(t, boolToInt(c.warned != ""), strings.Count(warnings, "pool.idle"))
			require.Contains(t, warnings, c.warned)
			require.Len(t, loaded.Entries(), len(renamed), "they are shown under their names of today")
		})
	}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestOldNamesAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		environ []string
		args    []string
		want    string
	}{
		"both": {[]string{"COORDSVC_POOL_IDLE=6m"}, []string{"--pool-max-idle-time=6m"},
			"pool.idle (environment COORDSVC_POOL_IDLE): is the old name of pool.max-idle-time, which is given too (flag --pool-max-idle-time): take the old one out"},
		"out of range": {[]string{"COORDSVC_POOL_IDLE=6d"}, nil,
			`pool.max-idle-time (environment COORDSVC_POOL_IDLE): "6d" is not a duration; write for example 500ms, 5s, 3m or 1h30m`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(renamed, Sources{Environ: c.environ, Flags: parseFlags(t, renamed, c.args...)})
			require.EqualError(t, err, c.want)
		})
	}
}

func TestOldNamesAreDocumented(t *testing.T) {
	var text strings.Builder
	renamed[0].writeMarkdown(&text)
	require.Contains(t, text.String(), "- Formerly: `pool.idle`, `COORDSVC_POOL_IDLE`, `--pool-idle`; still read")

	var schema struct {
		Properties map[string]struct{ Properties map[string]map[string]any }
	}
	require.NoError(t, json.Unmarshal([]byte(jsonSchema(renamed)), &schema))
	pool := schema.Properties["pool"].Properties
	require.Equal(t, true, pool["idle"]["deprecated"])
	require.Equal(t, "Renamed: use pool.max-idle-time.", pool["idle"]["description"])
	require.Equal(t, pool["max-idle-time"]["pattern"], pool["idle"]["pattern"])
	require.NotContains(t, pool["idle"], "default")
	require.NotContains(t, pool["max-idle-time"], "deprecated")
}

// Old names must not be names of today, nor of each other.
func TestOldNamesAreFree(t *testing.T) {
	names := map[string]bool{}
	for _, s := range withOldNames(table) {
		require.False(t, names[s.Path], s.Path)
		names[s.Path] = true
		require.NotEmpty(t, s.Section())
	}
}
