package config

import (
	"fmt"
	"strings"
)

// Markdown is the text of docs/configuration.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(docsHead)
	for _, section := range Sections {
		fmt.Fprintf(&b, "\n## %s (`%s`)\n", section.Title, section.Name)
		for s := range All() {
			if s.Section() == section.Name {
				s.writeMarkdown(&b)
			}
		}
	}
	b.WriteString(docsExample)
	return b.String()
}

func (s *Setting) writeMarkdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n", s.Path, s.Doc)
	value := "none"
	if s.Required {
		value = "none, it must be given"
	}
	if s.Default != "" {
		value = "`" + s.Default + "`"
	}
	fmt.Fprintf(b, "- Flag: `--%s`\n- Environment: `%s`\n- Type: %s\n- Default: %s\n", s.Flag(), s.Env(), s.typeAndLimit(), value)
	if s.Example != "" {
		fmt.Fprintf(b, "- Example: `%s`\n", s.Example)
	}
	if old := s.old(); old != nil {
		fmt.Fprintf(b, "- Formerly: `%s`, `%s`, `--%s`; still read, with a warning, but not beside the new name\n", old.Path, old.Env(), old.Flag())
	}
	if s.Secret {
		b.WriteString("- Secret: it is never printed\n")
	}
}

func (s *Setting) typeAndLimit() string {
	if limit := s.Limit.String(); limit != "" {
		return s.Type() + ", " + limit
	}
	return s.Type()
}

const docsHead = `<!-- Made from the table in internal/config. To change it: go test ./internal/config -update -->

# Settings

Every setting has one name in three spellings: a path in the YAML file, an
environment variable and a flag.

| where | example |
|---|---|
| file | ` + "`kafka:` and under it, indented, `dial-timeout: 5s`" + ` |
| environment | ` + "`COORDSVC_KAFKA_DIAL_TIMEOUT=5s`" + ` |
| flag | ` + "`--kafka-dial-timeout=5s`" + ` |

A flag beats the environment, the environment beats the file, the file beats the
default. The file is named by ` + "`--config`" + ` or ` + "`COORDSVC_CONFIG`" + `.
` + "`coordsvc config`" + ` prints the settings in force and where each came from.

- Durations have a unit: ` + "`500ms`, `5s`, `3m`, `1h30m`" + `.
- Lists are separated by commas in a flag or a variable; in the file they may also
  be YAML lists. A flag for a list may be given more than once.
- An empty environment variable, and a key of the file without a value, count as not
  set. An empty flag is a value.
- A flag of true and false stands alone for true; for false write ` + "`--kafka-discover-brokers=false`" + `.
- An unknown key or variable, a key that is set twice, a value of the wrong kind or
  out of range: each is an error that names the setting and the place where it was
  set. All errors are reported at once, before anything listens. A value that another
  one beats is checked too.
- Variables that Kubernetes sets for a Service named coordsvc
  (` + "`COORDSVC_SERVICE_HOST`, `COORDSVC_PORT=tcp://…`" + ` and the like) are not settings and are left alone.
- The file is read with plain keys and values only: no anchors, merges or tags. Editors
  and checks can use its JSON schema, [coordsvc.schema.json](coordsvc.schema.json).
`

const docsExample = `
## A whole file

` + "```yaml" + `
kafka:
  brokers:
    - kafka-1.example:9092
    - kafka-2.example:9092
lookup:
  max-timeout: 10s
log:
  format: json
` + "```" + `
`
