package plainyaml

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLineOfDocuments(t *testing.T) {
	for text, want := range map[string]int{
		"0\n---":          2, // nothing follows the dashes
		"a: 1\n---\nb: 2": 3,
	} {
		tree, err := Parse([]byte(text))
		require.Nil(t, err)
		require.Len(t, tree.Docs, 2, "%q", text)
		require.Equal(t, want, Line(tree.Docs[1]), "%q", text)
	}
	require.Equal(t, 1, Line(nil))
}
