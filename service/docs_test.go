package service

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the generated documents")

func TestDocs(t *testing.T) {
	const path = "../docs/errors.md"
	want := ErrorDocs()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(have), "docs/errors.md is not what the error contract says: run make generate")
}
