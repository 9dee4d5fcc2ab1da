package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFileSize is far beyond any settings file. It bounds what a wrong path
// (/dev/zero, a disk image) costs, and how deep the YAML parser, which calls
// itself for each level, can get.
const maxFileSize = 64 << 10

// maxBrackets bounds the time of the YAML parser, which grows with the square of
// the brackets that are open: 65,000 of them take half a minute.
const maxBrackets = 1000

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
	text, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFileSize {
		return nil, fmt.Errorf("%s is larger than %d KiB, which no settings file is", path, maxFileSize>>10)
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
	tree, err := parseYAML(text)
	if err != nil {
		r.mistake("", err.line, "%s", err.reason)
		return nil, r.mistakes
	}
	if len(tree.Docs) > 1 {
		r.mistake("", lineOf(tree.Docs[1]), "a second YAML document begins here; a settings file has one")
		return nil, r.mistakes
	}
	for _, doc := range tree.Docs {
		r.section("", doc.Body)
	}
	return r.values, r.mistakes
}

type syntaxError struct {
	line   int
	reason string
}

// parseYAML returns the tree of the text. The library has a history of panics on
// input that is no YAML at all; such input is a mistake like any other.
func parseYAML(text []byte) (tree *ast.File, mistake *syntaxError) {
	defer func() {
		if recover() != nil {
			tree, mistake = nil, &syntaxError{1, "the file is not YAML that can be read"}
		}
	}()
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return nil, &syntaxError{1, "the file is not UTF-8 text"}
	}
	if bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) > maxBrackets {
		return nil, &syntaxError{1, "the file holds more brackets than any settings file"}
	}
	// Duplicate keys are found here, with the name of the setting.
	tree, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return tree, nil
	}
	var syntax yaml.Error
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		return nil, &syntaxError{1, "not valid YAML"}
	}
	return nil, &syntaxError{syntax.GetToken().Position.Line, "not valid YAML: " + syntax.GetMessage()}
}

// section reads a mapping: the whole file (path "") or what stands under a section.
func (r *fileReader) section(path string, node ast.Node) {
	node = withoutComment(node)
	var pairs []*ast.MappingValueNode
	switch n := node.(type) {
	case nil, *ast.NullNode:
		return // nothing is set under it
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		if path == "" {
			r.mistake("", lineOf(node), "the file holds no settings; write for example kafka: and under it, indented, brokers: kafka-1.example:9092")
			return
		}
		r.mistake(path, lineOf(node), "is a group of settings, not a value")
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
	line := lineOf(pair.Key)
	key, ok := keyText(pair.Key)
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
		r.value(s, line, withoutComment(pair.Value))
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
			text, ok := scalarText(withoutComment(entry))
			if !ok {
				r.mistake(s.Path, lineOf(entry), "an entry of the list is not a plain value")
				return
			}
			items = append(items, text)
		}
		r.give(s, line, raw{items: items})
	default:
		text, ok := scalarText(node)
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
	r.mistake(path, line, "there is no such setting%s", didYouMean(nearest(path, names)))
}

func (r *fileReader) mistake(setting string, line int, format string, args ...any) {
	r.mistakes = append(r.mistakes, &Error{Setting: setting, Origin: r.origin(line), Reason: fmt.Sprintf(format, args...)})
}

func (r *fileReader) origin(line int) Origin {
	return Origin{SourceFile, fmt.Sprintf("%s:%d", r.file, line)}
}

func keyText(key ast.MapKeyNode) (string, bool) {
	if explicit, ok := key.(*ast.MappingKeyNode); ok {
		return scalarText(explicit.Value)
	}
	return scalarText(key)
}

// scalarText returns a plain value as it is written, so that 010 and 1e3 reach
// the setting as they are and not as what YAML makes of them.
func scalarText(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	default:
		return "", false
	}
}

// withoutComment makes a nil of what holds nothing but comments.
func withoutComment(node ast.Node) ast.Node {
	switch node.(type) {
	case *ast.CommentNode, *ast.CommentGroupNode:
		return nil
	default:
		return node
	}
}

func lineOf(node ast.Node) int {
	if node == nil || node.GetToken() == nil || node.GetToken().Position == nil {
		return 1
	}
	return node.GetToken().Position.Line
}
