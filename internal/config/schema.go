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
	types := []string{"string", "null"}
	parse := func(text string) (any, error) { return text, nil }
	switch s.Type() {
	case "boolean":
		types[0] = "boolean"
		parse = func(text string) (any, error) { return strconv.ParseBool(text) }
	case "integer":
		types[0] = "integer"
		parse = func(text string) (any, error) { return strconv.Atoi(text) }
		o.limits(s, parse)
	case "number":
		types[0] = "number"
		parse = func(text string) (any, error) { return strconv.ParseFloat(text, 64) }
		o.limits(s, parse)
	case "list":
		types = []string{"array", "string", "null"}
		o["items"] = object{"type": "string"}
	case "duration":
		o["pattern"] = durationPattern
	case "size":
		o["pattern"] = sizePattern
	}
	o["type"] = types
	o.set("default", s.Default, parse)
	if s.Limit.OneOf != nil {
		values := make([]any, 0, len(s.Limit.OneOf)+1)
		for _, v := range s.Limit.OneOf {
			values = append(values, v)
		}
		o["enum"] = append(values, nil)
	}
	return o
}

func (o object) limits(s *Setting, parse func(string) (any, error)) {
	o.set("minimum", s.Limit.Min, parse)
	o.set("maximum", s.Limit.Max, parse)
}

// set leaves a property out that has no text, or none of its type.
func (o object) set(name, text string, parse func(string) (any, error)) {
	if text == "" {
		return
	}
	if v, err := parse(text); err == nil {
		o[name] = v
	}
}
