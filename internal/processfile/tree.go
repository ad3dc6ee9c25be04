package processfile

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// node is a value of a file with its place. Anchors, aliases and merge keys are resolved.
type node struct {
	line int
	kind kind
	// text is a scalar as it is written, without quotes.
	text string
	list []*node
	// keys has the names of a map in order; lines are theirs.
	keys   []string
	lines  map[string]int
	fields map[string]*node
}

type kind int

const (
	null    kind = iota
	literal      // a number, true or false, without quotes
	text
	list
	mapping
)

func (k kind) String() string {
	return [...]string{"nothing", "a value without quotes", "a string", "a list", "names with values"}[k]
}

// maxNodes bounds what aliases may unfold to.
const maxNodes = 1 << 20

// unfolder makes nodes of a syntax tree.
type unfolder struct {
	faults  []Fault
	anchors map[string]ast.Node
	left    int
}

// documents reads the documents of a text.
func documents(data []byte) (docs []*node, faults []Fault) {
	tree, faults := parse(data)
	if faults != nil {
		return nil, faults
	}
	u := &unfolder{anchors: map[string]ast.Node{}, left: maxNodes}
	for _, d := range tree.Docs {
		if d.Body != nil {
			docs = append(docs, u.unfold("", d.Body))
		}
	}
	return docs, u.faults
}

func (u *unfolder) fault(n ast.Node, path, format string, args ...any) {
	u.faults = append(u.faults, Fault{Line: n.GetToken().Position.Line, Path: path, Text: fmt.Sprintf(format, args...)})
}

func (u *unfolder) unfold(path string, from ast.Node) *node {
	n := &node{line: from.GetToken().Position.Line}
	if u.left--; u.left < 0 {
		if u.left == -1 {
			u.fault(from, path, "the aliases of the file unfold to more than %d values", maxNodes)
		}
		return n
	}
	switch from := from.(type) {
	case *ast.AnchorNode:
		u.anchors[from.Name.GetToken().Value] = from.Value
		return u.unfold(path, from.Value)
	case *ast.AliasNode:
		name := from.Value.GetToken().Value
		target := u.anchors[name]
		if target == nil {
			u.fault(from, path, "unknown alias *%s: put a pattern in quotes", name)
			n.kind, n.text = text, "*"+name // no other check tells the same again
			return n
		}
		delete(u.anchors, name) // an alias within its own anchor has no end
		defer func() { u.anchors[name] = target }()
		return u.unfold(path, target)
	case *ast.TagNode:
		return u.unfold(path, from.Value)
	case *ast.MappingValueNode:
		u.mapping(path, n, []*ast.MappingValueNode{from})
	case *ast.MappingNode:
		u.mapping(path, n, from.Values)
	case *ast.SequenceNode:
		n.kind = list
		for i, item := range from.Values {
			n.list = append(n.list, u.unfold(fmt.Sprintf("%s[%d]", path, i), item))
		}
	case *ast.NullNode:
	case *ast.LiteralNode:
		n.kind, n.text = text, from.Value.Value
	case *ast.StringNode:
		n.kind, n.text = text, from.Value
	default:
		n.kind, n.text = literal, from.GetToken().Value
	}
	return n
}

func (u *unfolder) mapping(path string, n *node, entries []*ast.MappingValueNode) {
	n.kind, n.fields, n.lines = mapping, map[string]*node{}, map[string]int{}
	var merged []*node
	for _, e := range entries {
		if _, ok := e.Key.(*ast.MergeKeyNode); ok {
			merged = append(merged, u.unfold(path, e.Value))
			continue
		}
		key := e.Key.GetToken().Value
		at := join(path, key)
		if first, ok := n.lines[key]; ok {
			u.fault(e.Key, at, "given twice, first in line %d", first)
			continue
		}
		n.keys = append(n.keys, key)
		n.lines[key] = e.Key.GetToken().Position.Line
		n.fields[key] = u.unfold(at, e.Value)
	}
	for _, m := range merged {
		for _, key := range m.keys {
			if n.fields[key] == nil {
				n.keys, n.fields[key], n.lines[key] = append(n.keys, key), m.fields[key], m.lines[key]
			}
		}
	}
}

func join(path, key string) string { return strings.Trim(path+"."+key, ".") }
