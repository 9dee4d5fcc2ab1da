// Package generate makes what the chart holds twice: values.schema.json and README.md
// of values.yaml and the settings table of the service, files/ of what stands elsewhere
// in the repository.
package generate

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/coordsvc/coordsvc/internal/config"
)

var update = flag.Bool("update", false, "write the generated files instead of comparing them")

const (
	chart = "../../coordsvc"
	root  = "../../../.."
)

// TestGenerated compares each generated file of the chart with what it is made of.
func TestGenerated(t *testing.T) {
	values := readValues(t)
	for name, content := range map[string][]byte{
		"values.schema.json":        schemaFile(t, values),
		"README.md":                 readme(t, values),
		"files/limits.yaml":         limits(),
		"files/coordsvc.rules.yaml": read(t, root, "deploy/prometheus/coordsvc.rules.yaml"),
		"files/coordsvc.json":       read(t, root, "deploy/grafana/coordsvc.json"),
	} {
		file := filepath.Join(chart, name)
		if *update {
			require.NoError(t, os.WriteFile(file, content, 0o644))
			continue
		}
		require.Equal(t, string(content), string(read(t, file)), "%s is out of date: run make generate", name)
	}
}

func read(t *testing.T, parts ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(parts...))
	require.NoError(t, err)
	return content
}

// A value of values.yaml.
type value struct {
	path    string // service.grpcPort
	doc     string
	node    *yaml.Node
	members []*value // nil unless other values stand below
}

// readValues is the tree of values.yaml. A map is a group of values if one below has a
// description of its own; otherwise the map itself is the value.
func readValues(t *testing.T) *value {
	t.Helper()
	var doc yaml.Node
	require.NoError(t, yaml.Unmarshal(read(t, chart, "values.yaml"), &doc))
	top := &value{node: doc.Content[0]}
	top.collect(t)
	return top
}

func (v *value) collect(t *testing.T) {
	t.Helper()
	for i := 0; i < len(v.node.Content); i += 2 {
		key, node := v.node.Content[i], v.node.Content[i+1]
		member := &value{path: strings.TrimPrefix(v.path+"."+key.Value, "."), node: node}
		comment, described := strings.CutPrefix(key.HeadComment, "# -- ")
		if !described && v.path == "config" {
			continue // described in the settings table
		}
		require.True(t, described, "values.yaml: %s has no description: write # -- above it", member.path)
		member.doc = strings.ReplaceAll(comment, "\n# ", " ")
		if node.Kind == yaml.MappingNode && len(node.Content) > 0 && strings.HasPrefix(node.Content[0].HeadComment, "# -- ") {
			member.collect(t)
		}
		v.members = append(v.members, member)
	}
}

type object = map[string]any

// schemaFile is values.schema.json.
func schemaFile(t *testing.T, values *value) []byte {
	t.Helper()
	var known map[string]any
	require.NoError(t, yaml.Unmarshal(read(t, "schema.yaml"), &known))
	defs := known["$defs"].(object)
	delete(known, "$defs")
	s := &schema{known: known, defs: defs, used: map[string]bool{}}
	made := s.of(t, values)
	for pattern := range known {
		require.True(t, s.used[pattern], "schema.yaml: %s is no value of values.yaml", pattern)
	}
	made["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	made["$comment"] = "Made of values.yaml, deploy/helm/test/generate/schema.yaml and the settings table. To change it: make generate"
	made["title"] = "Values of the chart coordsvc"
	made["$defs"] = defs
	made["properties"].(object)["global"] = object{"type": "object", "description": "Values of a chart above this one; not used here."}
	text, err := json.MarshalIndent(made, "", "  ")
	require.NoError(t, err)
	return append(text, '\n')
}

type schema struct {
	known, defs map[string]any
	used        map[string]bool
}

func (s *schema) of(t *testing.T, v *value) object {
	t.Helper()
	if v.path == "config" {
		return settings(t, v.doc)
	}
	made := s.shape(t, v)
	if v.doc != "" {
		made["description"] = v.doc
	}
	if v.members != nil {
		made["type"], made["additionalProperties"] = "object", false
		properties := object{}
		var required []string // which null would take away
		for _, m := range v.members {
			name := path.Base(strings.ReplaceAll(m.path, ".", "/"))
			member := s.of(t, m)
			properties[name] = member
			kinds, _ := member["type"].([]any)
			if m.members != nil || (m.node.Kind == yaml.ScalarNode && !slices.Contains(kinds, any("null"))) {
				required = append(required, name)
			}
		}
		made["properties"], made["required"] = properties, required
		return made
	}
	var standard any
	require.NoError(t, v.node.Decode(&standard))
	made["default"] = standard
	return made
}

// shape is what schema.yaml says of a value, or what its default says.
func (s *schema) shape(t *testing.T, v *value) object {
	t.Helper()
	for pattern, what := range s.known {
		if ok, _ := path.Match(strings.ReplaceAll(pattern, ".", "/"), strings.ReplaceAll(v.path, ".", "/")); !ok {
			continue
		}
		s.used[pattern] = true
		if name, ok := what.(string); ok {
			require.Contains(t, s.defs, name, "schema.yaml: %s", pattern)
			return object{"$ref": "#/$defs/" + name}
		}
		return maps.Clone(what.(object))
	}
	switch {
	case v.members != nil:
		return object{}
	case v.node.Tag == "!!bool":
		return object{"type": "boolean"}
	case v.node.Tag == "!!int":
		return object{"type": "integer", "minimum": 0, "maximum": 2147483647}
	case v.node.Tag == "!!str":
		return object{"type": "string"}
	}
	t.Fatalf("schema.yaml must say what %s holds", v.path)
	return nil
}

// settings is the schema of the service's own file, as a value of the chart.
func settings(t *testing.T, doc string) object {
	t.Helper()
	var made object
	require.NoError(t, json.Unmarshal([]byte(config.JSONSchema()), &made))
	for _, meta := range []string{"$schema", "$comment", "title"} {
		delete(made, meta)
	}
	made["description"] = doc
	describe(made)
	return made
}

// describe gives the groups of settings a description, as they have none of their own,
// and drops how else a setting can be given.
func describe(o object) {
	delete(o, "x-environment")
	delete(o, "x-flag")
	members, _ := o["properties"].(object)
	for name, m := range members {
		member := m.(object)
		if _, ok := member["description"]; !ok {
			member["description"] = "The settings under " + name + ", see docs/configuration.md."
		}
		describe(member)
	}
}

// readme is the chart's README.md.
func readme(t *testing.T, values *value) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("<!-- Made of values.yaml and deploy/helm/test/generate/readme.md. To change it: make generate -->\n\n")
	b.Write(read(t, "readme.md"))
	b.WriteString("\n| value | default | what |\n|---|---|---|\n")
	values.writeRows(t, &b)
	return b.Bytes()
}

func (v *value) writeRows(t *testing.T, b *bytes.Buffer) {
	t.Helper()
	for _, m := range v.members {
		standard := ""
		if m.members == nil {
			var decoded any
			require.NoError(t, m.node.Decode(&decoded))
			text, err := json.Marshal(decoded)
			require.NoError(t, err)
			standard = "`" + string(text) + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", m.path, standard, strings.ReplaceAll(m.doc, "|", `\|`))
		m.writeRows(t, b)
	}
}

// limits is what templates check durations and sizes by: a JSON schema cannot compare them.
func limits() []byte {
	var b bytes.Buffer
	b.WriteString("# Made of the settings table. To change it: make generate\n")
	for s := range config.All() {
		if (s.Type() == "duration" || s.Type() == "size") && s.Limit.Max != "" {
			fmt.Fprintf(&b, "%s: {min: %s, max: %s}\n", s.Path, s.Limit.Min, s.Limit.Max)
		}
	}
	return b.Bytes()
}

// TestSchemaDescribesEverything finds values that no editor could explain.
func TestSchemaDescribesEverything(t *testing.T) {
	var made object
	require.NoError(t, json.Unmarshal(read(t, chart, "values.schema.json"), &made))
	var walk func(at string, o object)
	walk = func(at string, o object) {
		members, _ := o["properties"].(object)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			member := members[name].(object)
			require.NotEmpty(t, member["description"], "%s.%s", at, name)
			require.True(t, member["type"] != nil || member["$ref"] != nil, "%s.%s has no type", at, name)
			if member["default"] == nil { // a group, or a free map whose members are Kubernetes's
				walk(at+"."+name, member)
			}
		}
	}
	delete(made["properties"].(object), "global")
	walk("values", made)
}
