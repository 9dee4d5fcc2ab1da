package server

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The reasons that this package gives stand in docs/errors.md.
func TestReasonsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/errors.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	reason := regexp.MustCompile(`"([A-Z]{3,}(?:_[A-Z]+)+|CANCELLED|STOPPING|UNAUTHENTICATED)"`)
	found := 0
	for _, file := range files {
		if matched, _ := filepath.Match("*_test.go", file); matched {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range reason.FindAllSubmatch(source, -1) {
			found++
			require.Contains(t, string(text), string(m[1]), "%s gives a reason that docs/errors.md lacks", file)
		}
	}
	require.Greater(t, found, 20)
}
