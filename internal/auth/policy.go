package auth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/plainyaml"
)

// policy says which caller may look up which keys. What no rule allows is denied.
//
//	rules:
//	  - callers: ["token:payments", "cert:spiffe://prod.example/payments/*"]
//	    key-types: [GROUP, TRANSACTION]  # left out: every type
//	    prefixes: ["payments-"]          # "" is every key
type policy struct{ rules []rule }

type rule struct {
	callers  []pattern
	keyTypes []coordsvcv1.KeyType // nil: every type
	prefixes []string
}

// allowed are the prefixes that the caller may look up keys of this type with.
func (p *policy) allowed(caller Caller, keyType coordsvcv1.KeyType) []string {
	if keyType == coordsvcv1.KeyType_KEY_TYPE_UNSPECIFIED {
		keyType = coordsvcv1.KeyType_GROUP
	}
	var prefixes []string
	for _, r := range p.rules {
		if (r.keyTypes == nil || slices.Contains(r.keyTypes, keyType)) && r.isFor(caller) {
			prefixes = append(prefixes, r.prefixes...)
		}
	}
	return prefixes
}

func (r rule) isFor(caller Caller) bool {
	return slices.ContainsFunc(r.callers, func(p pattern) bool { return slices.ContainsFunc(caller.Names, p.matches) })
}

// authorize returns the indexes of the keys that the caller may not look up.
func (p *policy) authorize(caller Caller, keyType coordsvcv1.KeyType, keys []string) (denied []int) {
	prefixes := p.allowed(caller, keyType)
	if slices.Contains(prefixes, "") {
		return nil
	}
	for i, key := range keys {
		if !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			denied = append(denied, i)
		}
	}
	return denied
}

// parsePolicy reads a policy file. Its errors name the line.
func parsePolicy(content []byte) (*policy, error) {
	tree, mistake := plainyaml.Parse(content)
	if mistake != nil {
		return nil, mistake
	}
	reader := &policyReader{policy: &policy{}}
	for i, doc := range tree.Docs {
		if i > 0 {
			return nil, mistakeAt(doc, "a second YAML document begins here; a policy file has one")
		}
		if err := reader.mapping(doc.Body, map[string]func(ast.Node) error{"rules": reader.rules}); err != nil {
			return nil, err
		}
	}
	if len(reader.policy.rules) == 0 {
		return nil, fmt.Errorf("holds no rule, which would deny every key to everybody: write rules: and under it - callers: …")
	}
	return reader.policy, nil
}

// policyReader walks the tree of a policy file.
type policyReader struct{ policy *policy }

func mistakeAt(node ast.Node, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", plainyaml.Line(node), fmt.Sprintf(format, args...))
}

// mapping hands what stands under each key to its function.
func (r *policyReader) mapping(node ast.Node, fields map[string]func(ast.Node) error) error {
	node = plainyaml.WithoutComment(node)
	if node == nil {
		return nil
	}
	pairs, ok := plainyaml.Pairs(node)
	if !ok {
		return mistakeAt(node, "%s is expected here, followed by a colon", oneOf(fields))
	}
	seen := map[string]bool{}
	for _, pair := range pairs {
		name, _ := plainyaml.KeyText(pair.Key)
		read, known := fields[name]
		switch {
		case !known:
			return mistakeAt(pair.Key, "%s is not known here: there is %s", clip(name), oneOf(fields))
		case seen[name]:
			return mistakeAt(pair.Key, "%s is given twice", name)
		}
		seen[name] = true
		if err := read(plainyaml.WithoutComment(pair.Value)); err != nil {
			return err
		}
	}
	return nil
}

func oneOf(fields map[string]func(ast.Node) error) string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (r *policyReader) rules(node ast.Node) error {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		return mistakeAt(node, "rules is a list: each rule begins with a dash")
	}
	for _, entry := range list.Values {
		if err := r.rule(entry); err != nil {
			return err
		}
	}
	return nil
}

func (r *policyReader) rule(node ast.Node) error {
	var made rule
	var typeNames []string
	err := r.mapping(node, map[string]func(ast.Node) error{
		"callers": texts("callers", func(text string) error {
			caller, err := parseCaller(text)
			made.callers = append(made.callers, caller)
			return err
		}),
		"key-types": texts("key-types", func(text string) error {
			typeNames = append(typeNames, text)
			value, ok := coordsvcv1.KeyType_value[strings.ToUpper(text)]
			if !ok || value == 0 {
				return fmt.Errorf("%s is no key type: there is GROUP, TRANSACTION, SHARE", clip(text))
			}
			made.keyTypes = append(made.keyTypes, coordsvcv1.KeyType(value))
			return nil
		}),
		"prefixes": texts("prefixes", func(text string) error {
			made.prefixes = append(made.prefixes, text)
			return nil
		}),
	})
	switch {
	case err != nil:
		return err
	case len(made.callers) == 0:
		return mistakeAt(node, `a rule has callers, for example ["token:payments"]`)
	case len(made.prefixes) == 0:
		return mistakeAt(node, `a rule has prefixes, for example ["payments-"], or [""] for every key`)
	}
	r.policy.rules = append(r.policy.rules, made)
	return nil
}

// texts reads a list of plain values that must not be empty.
func texts(name string, take func(string) error) func(ast.Node) error {
	return func(node ast.Node) error {
		list, ok := node.(*ast.SequenceNode)
		if !ok || len(list.Values) == 0 {
			return mistakeAt(node, "%s is a list with at least one entry", name)
		}
		for _, entry := range list.Values {
			text, ok := plainyaml.Text(plainyaml.WithoutComment(entry))
			if !ok {
				return mistakeAt(entry, "an entry of %s is a plain text, without anchors and tags", name)
			}
			if err := take(text); err != nil {
				return mistakeAt(entry, "%s", err)
			}
		}
		return nil
	}
}

// callerKinds are what names of callers begin with.
var callerKinds = []string{"token:", "jwt:", "cert:"}

// parseCaller reads the name of a caller. Those of certificates are as in auth.allowed-subjects.
func parseCaller(text string) (pattern, error) {
	if text == "*" { // every caller
		return pattern(text), nil
	}
	if name, ok := strings.CutPrefix(text, "cert:"); ok && name != "" && name != "*" {
		names, err := parseSubjects([]string{name})
		if err != nil {
			return "", err
		}
		return "cert:" + names[0], nil
	}
	name, _ := strings.CutSuffix(text, "*")
	if !slices.ContainsFunc(callerKinds, func(kind string) bool { return strings.HasPrefix(name, kind) }) {
		return "", fmt.Errorf("%s does not begin with token:, jwt: or cert:; \"*\" is every caller", clip(text))
	}
	return pattern(text), nil
}
