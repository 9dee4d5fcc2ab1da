package config

import (
	"encoding/json"
	"strconv"
	"strings"
)

// JSONSchema is the text of docs/coordsvc.schema.json: what a settings file may
// hold, for editors and for checks before a deployment. (Draft 2020-12.)
func JSONSchema() string { return jsonSchema(table) }

func jsonSchema(table []*Setting) string {
	root := object{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "Settings of coordsvc",
		"$comment":             "Made from the table in internal/config. To change it: go test ./internal/config -update",
		"type":                 "object",
		"additionalProperties": false,
		"properties":           object{},
	}
	for _, s := range withOldNames(table) {
		path := strings.Split(s.Path, ".")
		at := root
		for _, name := range path[:len(path)-1] {
			at = at.group(name)
		}
		property := s.schema()
		if find(table, s.Path) == nil { // an old name
			property["deprecated"] = true
			delete(property, "default")
		}
		at["properties"].(object)[path[len(path)-1]] = property
	}
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: the schema cannot be written: " + err.Error())
	}
	return string(text) + "\n"
}

type object map[string]any

// group is the object under a name, made if need be. A group without a value counts
// as not set.
func (o object) group(name string) object {
	properties := o["properties"].(object)
	if g, ok := properties[name].(object); ok {
		return g
	}
	g := object{"type": []string{"object", "null"}, "additionalProperties": false, "properties": object{}}
	properties[name] = g
	return g
}

// durationPattern is what time.ParseDuration takes, without a sign.
const durationPattern = `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`

// sizePattern is what parseSize takes.
const sizePattern = `^[0-9]+ *(B|KiB|MiB|GiB)$`

func (s *Setting) schema() object {
	o := object{
		"description":   strings.Join(strings.Fields(s.Doc), " "),
		"x-environment": s.Env(),
		"x-flag":        "--" + s.Flag(),
	}
	if s.Secret {
		o["writeOnly"] = true
	}
	kind := "string"
	switch s.Type() {
	case "boolean":
		kind = "boolean"
		o.setDefault(s.Default, func(text string) (any, error) { return strconv.ParseBool(text) })
	case "integer":
		kind = "integer"
		o.numbers(s, func(text string) (any, error) { return strconv.Atoi(text) })
	case "number":
		kind = "number"
		o.numbers(s, func(text string) (any, error) { return strconv.ParseFloat(text, 64) })
	case "list":
		o["items"] = object{"type": "string"}
		o["type"] = []string{"array", "string", "null"}
		o.setDefault(s.Default, func(text string) (any, error) { return text, nil })
		return o
	case "duration":
		o["pattern"] = durationPattern
		o.setDefault(s.Default, func(text string) (any, error) { return text, nil })
	case "size":
		o["pattern"] = sizePattern
		o.setDefault(s.Default, func(text string) (any, error) { return text, nil })
	default:
		o.setDefault(s.Default, func(text string) (any, error) { return text, nil })
	}
	o["type"] = []string{kind, "null"}
	if s.Limit.OneOf != nil {
		values := make([]any, 0, len(s.Limit.OneOf)+1)
		for _, v := range s.Limit.OneOf {
			values = append(values, v)
		}
		o["enum"] = append(values, nil)
	}
	return o
}

func (o object) numbers(s *Setting, parse func(string) (any, error)) {
	o.setDefault(s.Default, parse)
	for name, text := range map[string]string{"minimum": s.Limit.Min, "maximum": s.Limit.Max} {
		if v, err := parse(text); err == nil {
			o[name] = v
		}
	}
}

func (o object) setDefault(text string, parse func(string) (any, error)) {
	if text == "" {
		return
	}
	if v, err := parse(text); err == nil {
		o["default"] = v
	}
}
