// Package plainyaml reads YAML files that people write, of keys and values only.
// What it refuses is what such a file does not hold and a parser chokes on.
package plainyaml

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// MaxSize is far beyond any file that a person writes. It bounds what a wrong path
// (/dev/zero, a disk image) costs, and how deep the YAML parser, which calls
// itself for each level, can get.
const MaxSize = 64 << 10

// maxBrackets bounds the time of the YAML parser, which grows with the square of
// the brackets that are open: 65,000 of them take half a minute.
const maxBrackets = 1000

// SyntaxError says where the text is no YAML, and why.
type SyntaxError struct {
	Line   int
	Reason string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Parse returns the tree of the text. The library has a history of panics on
// input that is no YAML at all; such input is a mistake like any other.
// Duplicate keys are the caller's to find.
func Parse(text []byte) (tree *ast.File, mistake *SyntaxError) {
	defer func() {
		if recover() != nil {
			tree, mistake = nil, &SyntaxError{1, "the file is not YAML that can be read"}
		}
	}()
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if len(text) > MaxSize {
		return nil, &SyntaxError{1, fmt.Sprintf("the file is larger than %d KiB", MaxSize>>10)}
	}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return nil, &SyntaxError{1, "the file is not UTF-8 text"}
	}
	if bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) > maxBrackets {
		return nil, &SyntaxError{1, "the file holds more brackets than can be read; write lists as lines that begin with a dash"}
	}
	tree, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return tree, nil
	}
	var syntax yaml.Error
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		return nil, &SyntaxError{1, "not valid YAML"}
	}
	return nil, &SyntaxError{syntax.GetToken().Position.Line, "not valid YAML: " + syntax.GetMessage()}
}

// Line is the line that a node begins in, or 1 where the node does not know. An empty
// document has no body to ask: its line is that of the dashes before it.
func Line(node ast.Node) int {
	if doc, ok := node.(*ast.DocumentNode); ok && doc.Body == nil {
		if doc.Start == nil || doc.Start.Position == nil {
			return 1
		}
		return doc.Start.Position.Line
	}
	if node == nil || node.GetToken() == nil || node.GetToken().Position == nil {
		return 1
	}
	return node.GetToken().Position.Line
}

// Text returns a plain value as it is written, so that 010 and 1e3 reach whoever
// reads them as they are and not as what YAML makes of them.
func Text(node ast.Node) (string, bool) {
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

// KeyText is Text of a key.
func KeyText(key ast.MapKeyNode) (string, bool) {
	if explicit, ok := key.(*ast.MappingKeyNode); ok {
		return Text(explicit.Value)
	}
	return Text(key)
}

// WithoutComment makes a nil of what holds nothing but comments.
func WithoutComment(node ast.Node) ast.Node {
	switch node.(type) {
	case *ast.CommentNode, *ast.CommentGroupNode:
		return nil
	default:
		return node
	}
}

// Pairs are the keys and values of a mapping; ok is false for what is none.
func Pairs(node ast.Node) (pairs []*ast.MappingValueNode, ok bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	default:
		return nil, false
	}
}
