package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/coordsvc/coordsvc/internal/plainyaml"
)

// fromFile reads the settings file, if one is named.
func fromFile(table []*Setting, sources Sources) ([]located, []error) {
	path, namedBy := sources.File, Origin{SourceFlag, "--config"}
	if path == "" {
		path, namedBy = lookupEnv(sources.Environ, ConfigEnv), Origin{SourceEnv, ConfigEnv}
	}
	if path == "" {
		return nil, nil
	}
	text, err := readFile(path)
	if err != nil {
		return nil, []error{&Error{Origin: namedBy, Reason: "cannot read the settings file: " + err.Error()}}
	}
	return parseFile(table, path, text)
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, plainyaml.MaxSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > plainyaml.MaxSize {
		return nil, fmt.Errorf("%s is larger than %d KiB, which no settings file is", path, plainyaml.MaxSize>>10)
	}
	return text, nil
}

// fileReader walks the tree of one YAML file.
type fileReader struct {
	table    []*Setting
	file     string
	values   []located
	mistakes []error
}

// parseFile reads YAML text. The path is shown in errors.
func parseFile(table []*Setting, path string, text []byte) ([]located, []error) {
	r := &fileReader{table: table, file: filepath.Clean(path)}
	tree, err := plainyaml.Parse(text)
	if err != nil {
		r.mistake("", err.Line, "%s", err.Reason)
		return nil, r.mistakes
	}
	if len(tree.Docs) > 1 {
		r.mistake("", plainyaml.Line(tree.Docs[1]), "a second YAML document begins here; a settings file has one")
		return nil, r.mistakes
	}
	for _, doc := range tree.Docs {
		r.section("", doc.Body)
	}
	return r.values, r.mistakes
}

// section reads a mapping: the whole file (path "") or what stands under a section.
func (r *fileReader) section(path string, node ast.Node) {
	node = plainyaml.WithoutComment(node)
	switch node.(type) {
	case nil, *ast.NullNode:
		return // nothing is set under it
	}
	switch node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		r.mistake(path, plainyaml.Line(node), "is a plain group of settings; anchors, merges and tags are not read here")
		return
	}
	pairs, ok := plainyaml.Pairs(node)
	if !ok {
		if path == "" {
			r.mistake("", plainyaml.Line(node), "the file holds no settings; write for example kafka: and under it, indented, brokers: kafka-1.example:9092")
			return
		}
		text := "is a group of settings, not a value"
		if find(r.table, path+".enabled") != nil {
			text += "; what switches it on is " + path + ".enabled"
		}
		r.mistake(path, plainyaml.Line(node), "%s", text)
		return
	}
	seen := make(map[string]int, len(pairs))
	for _, pair := range pairs {
		r.pair(path, pair, seen)
	}
}

// pair reads one key and what stands under it. seen has the lines of the keys
// before it.
func (r *fileReader) pair(parent string, pair *ast.MappingValueNode, seen map[string]int) {
	line := plainyaml.Line(pair.Key)
	key, ok := plainyaml.KeyText(pair.Key)
	if !ok {
		r.mistake("", line, "a key must be a plain name; anchors, merges and tags are not read here")
		return
	}
	path := key
	if parent != "" {
		path = parent + "." + key
	}
	if first, again := seen[key]; again {
		r.mistake(path, line, "is set twice; the first time in line %d", first)
		return
	}
	seen[key] = line
	switch s := find(r.table, path); {
	case strings.Contains(key, "."):
		r.dotted(path, key, line)
	case s != nil:
		r.value(s, line, plainyaml.WithoutComment(pair.Value))
	case isSection(r.table, path):
		r.section(path, pair.Value)
	default:
		r.unknown(path, parent, line)
	}
}

// value reads what is given for a setting.
func (r *fileReader) value(s *Setting, line int, node ast.Node) {
	switch n := node.(type) {
	case nil, *ast.NullNode:
		return // as if the key were not there
	case *ast.SequenceNode:
		items := make([]string, 0, len(n.Values))
		for _, entry := range n.Values {
			text, ok := plainyaml.Text(plainyaml.WithoutComment(entry))
			if !ok {
				r.mistake(s.Path, plainyaml.Line(entry), "an entry of the list is not a plain value; if it is meant to be one, put it in quotes")
				return
			}
			items = append(items, text)
		}
		r.give(s, line, raw{items: items})
	default:
		text, ok := plainyaml.Text(node)
		if !ok {
			r.mistake(s.Path, line, "is one setting; a plain %s is expected, not a group, an anchor or a tag", s.Type())
			return
		}
		r.give(s, line, raw{text: text})
	}
}

func (r *fileReader) give(s *Setting, line int, value raw) {
	r.values = append(r.values, located{s.Path, value, r.origin(line)})
}

// dotted refuses a path written as one key. Were it read, a setting could be
// given twice without a duplicate key.
func (r *fileReader) dotted(path, key string, line int) {
	section, name, _ := strings.Cut(key, ".")
	r.mistake(path, line, "a key has no dot; write %s: and under it, indented, %s:", section, name)
}

func (r *fileReader) unknown(path, parent string, line int) {
	var names []string
	for _, s := range r.table {
		names = append(names, s.Path)
	}
	if parent == "" {
		for _, s := range Sections {
			names = append(names, s.Name)
		}
	}
	r.mistake(path, line, "there is no such setting%s", didYouMean(path, names))
}

func (r *fileReader) mistake(setting string, line int, format string, args ...any) {
	r.mistakes = append(r.mistakes, &Error{Setting: setting, Origin: r.origin(line), Reason: fmt.Sprintf(format, args...)})
}

func (r *fileReader) origin(line int) Origin {
	return Origin{SourceFile, fmt.Sprintf("%s:%d", r.file, line)}
}
