package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/config"
)

// Whether the shells understand the scripts is tested where the packages are.
func TestCompletion(t *testing.T) {
	commands := []string{"serve", "demo", "lookup", "brokers", "healthcheck", "config", "version", "completion", "man"}
	for shell, flag := range map[string]string{"bash": "--%", "zsh": "--%", "fish": " -l %"} {
		t.Run(shell, func(t *testing.T) {
			got := coordsvc(t, "completion", shell)
			require.Zero(t, got.code)
			require.Empty(t, got.err)
			for _, command := range commands {
				require.Regexp(t, `\b`+command+`\b`, got.out)
			}
			for _, name := range []string{"help", "version", "config", "output", "ready", "type"} {
				require.Contains(t, got.out, strings.Replace(flag, "%", name, 1))
			}
			for s := range config.All() {
				require.Regexp(t, regexp.QuoteMeta(strings.Replace(flag, "%", s.Flag(), 1))+`\b`, got.out)
				if s.Limit.OneOf != nil {
					require.Contains(t, got.out, strings.Join(s.Limit.OneOf, " "), s.Path)
				}
			}
			require.Contains(t, got.out, "group transaction share")
			require.Contains(t, got.out, "table json yaml")
			require.Contains(t, got.out, "bash zsh fish")
		})
	}
}

func TestMan(t *testing.T) {
	got := coordsvc(t, "man")
	require.Zero(t, got.code)
	require.Empty(t, got.err)
	plain := strings.NewReplacer(`\-`, "-", `\(aq`, "'", `\(dq`, `"`).Replace(got.out)
	for _, command := range []string{"serve", "demo", "lookup", "brokers", "healthcheck", "config", "version", "completion", "man"} {
		require.Contains(t, plain, `.SS "coordsvc `+command+`"`)
	}
	for s := range config.All() {
		require.Contains(t, plain, "\n.B \"--"+s.Flag()+"\"\n"+s.Doc+"\n.br\n"+s.Env()+", "+s.Path+". Type: "+s.Type())
	}
	require.Contains(t, plain, "\n.B \"-t, --type=TYPE\"\n")
	for line := range strings.Lines(got.out) {
		require.NotContains(t, strings.TrimPrefix(line, "'"), "'", "roff would take the quote for its own")
		require.NotEqual(t, "\n", line, "roff sets an empty line as a gap")
	}

	require.Equal(t, `\&.i\(aqs \ee`, roff(`.i's \e`))
}
