package config

import (
	"encoding/json"
	"strings"
)

// PackagedFile is the text of deploy/packages/coordsvc.yaml, the settings file that
// packages install: every setting with its description, all behind a #.
func PackagedFile() string {
	var b strings.Builder
	b.WriteString(packagedHead)
	var groups []string // that stand open
	for s := range All() {
		path := strings.Split(s.Path, ".")
		b.WriteString("\n")
		if len(groups) == 0 || path[0] != groups[0] {
			b.WriteString("# " + sectionTitle(path[0]) + ".\n")
		}
		groups = OpenGroups(&b, groups, path[:len(path)-1])
		s.writePackaged(&b, strings.Repeat("  ", len(groups)), path[len(path)-1])
	}
	return b.String()
}

// OpenGroups writes the keys of the groups that the next setting of a YAML file is
// in and the last one was not, and returns those that stand open then.
func OpenGroups(b *strings.Builder, open, wanted []string) []string {
	same := 0
	for same < min(len(open), len(wanted)) && open[same] == wanted[same] {
		same++
	}
	for depth := same; depth < len(wanted); depth++ {
		b.WriteString(strings.Repeat("  ", depth) + wanted[depth] + ":\n")
	}
	return wanted
}

func (s *Setting) writePackaged(b *strings.Builder, indent, name string) {
	doc := s.Doc
	if s.Required {
		doc += " It must be set."
	}
	for _, line := range wrap(doc, 98-len(indent)) {
		b.WriteString(indent + "# " + line + "\n")
	}
	value := s.Default
	if value == "" {
		value = s.Example
	}
	switch s.Type() {
	case "text", "list":
		quoted, err := json.Marshal(value) // which YAML reads as it is
		if err != nil {
			panic("config: setting " + s.Path + " has a value that is no JSON: " + err.Error())
		}
		value = string(quoted)
	}
	b.WriteString(indent + "#" + name + ": " + value + "\n")
}

// wrap breaks the text at spaces into lines of at most that many bytes, longer
// words apart.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

const packagedHead = `# Settings of the service coordsvc. Set kafka.brokers; everything else has the default that
# stands behind the #, or none, and then an example stands there.
#
# Everybody on this machine can read this file: put passwords and private keys into files of
# their own (see LoadCredential= in coordsvc.service) and name those here.
#
# To check it: coordsvc config --config /etc/coordsvc/coordsvc.yaml
# Then:        systemctl restart coordsvc
`
