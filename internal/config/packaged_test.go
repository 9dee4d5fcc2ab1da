package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPackagedFileDocumentation(t *testing.T) {
	const path = "../../deploy/packages/coordsvc.yaml"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(PackagedFile()), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, PackagedFile() == string(text), "%s is not what the table says: run go test ./internal/config -update", path)

	t.Run("as it is installed it sets nothing", func(t *testing.T) {
		loaded, err := Load(Sources{File: path, Require: []string{"kafka.brokers"}})
		require.ErrorContains(t, err, "kafka.brokers: must be set")
		for _, entry := range loaded.Entries() {
			require.Equal(t, SourceDefault, entry.Origin.Source, entry.Path)
		}
	})

	// A setting begins with a # that no space follows.
	setting := regexp.MustCompile(`(?m)^( *)#([a-z])`)
	require.Len(t, setting.FindAllString(PackagedFile(), -1), len(table))

	for s := range All() {
		t.Run(s.Path, func(t *testing.T) {
			name := s.Path[strings.LastIndexByte(s.Path, '.')+1:]
			given := 0
			for _, line := range regexp.MustCompile(`(?m)^ *#`+name+`: .*$`).FindAllStringIndex(PackagedFile(), -1) {
				text := PackagedFile()[:line[0]] + setting.ReplaceAllString(PackagedFile()[line[0]:line[1]], "$1$2") + PackagedFile()[line[1]:]
				loaded, err := Load(Sources{File: writeFile(t, text)})
				if loaded.Origin(s.Path).Source != SourceFile {
					continue // the same name in another group
				}
				given++
				// Some are refused alone, as the key of a certificate without the certificate.
				if s.Default != "" {
					require.NoError(t, err)
					require.Equal(t, Defaults(), loaded.Settings, "what stands behind the # is the default")
				}
			}
			require.Equal(t, 1, given, "the setting stands in the file, in its group, with a value that is valid")
		})
	}
}
