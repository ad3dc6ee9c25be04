package processes

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"drover/client"
	"drover/internal/cli/term"
	"drover/internal/spelling"
)

// specExample is a spec with every field that one spec can have.
//
//go:embed spec.yaml
var specExample string

// maxSpec is the largest file with a spec, in bytes.
const maxSpec = 1 << 20

// readSpec reads a spec. It rejects a misspelt name, because the field would silently have its default.
func readSpec(in io.Reader, file string) (*client.Spec, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, term.Usagef("--file: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxSpec+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read %s: %w", file, err)
	case len(data) > maxSpec:
		return nil, term.Usagef("%s is larger than %d bytes", file, maxSpec)
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, term.Usagef("%s is not valid YAML: %w", file, err)
	}
	if faults := specFaults(tree); len(faults) > 0 {
		return nil, term.Usagef("%s is not a valid spec:\n  %s", file, strings.Join(faults, "\n  "))
	}
	if data, err = yaml.YAMLToJSON(data); err != nil {
		return nil, term.Usagef("%s is not valid YAML: %w", file, err)
	}
	var spec client.Spec
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&spec); err != nil { // the contents of an alias
		return nil, term.Usagef("%s is not a valid spec: %s", file, strings.TrimPrefix(err.Error(), "json: "))
	}
	return &spec, nil
}

// specFaults lists unknown names and values of a wrong kind, with their lines.
func specFaults(tree *ast.File) []string {
	var r specReader
	for _, doc := range tree.Docs {
		if doc.Body != nil {
			r.value("", doc.Body, reflect.TypeFor[client.Spec]())
		}
	}
	return r.faults
}

// specReader compares a tree of YAML with the fields of a spec.
type specReader struct{ faults []string }

func (r *specReader) fault(node ast.Node, format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf("line %d: %s", node.GetToken().Position.Line, fmt.Sprintf(format, args...)))
}

// value checks the value of a field; the path is empty for the whole file.
func (r *specReader) value(path string, node ast.Node, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch n := node.(type) {
	case *ast.AnchorNode:
		r.value(path, n.Value, t)
		return
	case *ast.TagNode:
		r.value(path, n.Value, t)
		return
	case *ast.AliasNode, *ast.NullNode:
		return
	case *ast.MappingValueNode: // a mapping with one entry
		node = &ast.MappingNode{BaseNode: n.BaseNode, Start: n.Start, Values: []*ast.MappingValueNode{n}}
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		return
	}
	name := path
	if name == "" {
		name = "the file"
	}
	switch t.Kind() {
	case reflect.Struct:
		if m, ok := node.(*ast.MappingNode); ok {
			r.mapping(path, m, t)
			return
		}
		r.fault(node, "%s: expected names with values", name)
	case reflect.Slice:
		list, ok := node.(*ast.SequenceNode)
		if !ok {
			r.fault(node, "%s: expected a list", name)
			return
		}
		for i, item := range list.Values {
			r.value(fmt.Sprintf("%s[%d]", path, i), item, t.Elem())
		}
	default:
		if expected := mismatch(node, t.Kind()); expected != "" {
			r.fault(node, "%s is %.80s: expected %s", name, strings.TrimSpace(node.String()), expected)
		}
	}
}

// mismatch returns the expected form of a single value, or nothing if the value fits.
func mismatch(node ast.Node, kind reflect.Kind) string {
	_, whole := node.(*ast.IntegerNode)
	_, broken := node.(*ast.FloatNode)
	_, truth := node.(*ast.BoolNode)
	_, text := node.(*ast.StringNode)
	_, block := node.(*ast.LiteralNode)
	switch kind {
	case reflect.Bool:
		if !truth {
			return "true or false"
		}
	case reflect.Float32, reflect.Float64:
		if !whole && !broken {
			return "a number"
		}
	case reflect.Int, reflect.Int64:
		if d, err := time.ParseDuration(strings.TrimSpace(node.String())); err == nil && d%time.Second == 0 && !whole {
			return fmt.Sprintf("a whole number; %s is %d seconds", strings.TrimSpace(node.String()), d/time.Second)
		}
		if !whole {
			return "a whole number"
		}
	default:
		if !text && !block {
			return "a string; put the value in quotes"
		}
	}
	return ""
}

// mapping checks the names of a mapping and their values.
func (r *specReader) mapping(path string, m *ast.MappingNode, t reflect.Type) {
	fields := specFields(t)
	for _, entry := range m.Values {
		if _, merged := entry.Key.(*ast.MergeKeyNode); merged {
			continue
		}
		key := entry.Key.GetToken().Value
		at := strings.TrimPrefix(path+"."+key, ".")
		if field, ok := fields[key]; ok {
			r.value(at, entry.Value, field)
			continue
		}
		hint := ""
		if near := nearSpecNames(path, key); len(near) > 0 {
			hint = "; did you mean " + term.OrList(near) + "?"
		}
		r.fault(entry.Key, "unknown field %s%s", at, hint)
	}
}

// specFields are the fields of a part of a spec, by their names.
func specFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = f.Type
	}
	return fields
}

// nearSpecNames are suggestions for a misspelt name: names of the same part first, otherwise similar names of other
// parts.
func nearSpecNames(path, key string) []string {
	var here, elsewhere []string
	eachSpecName("", reflect.TypeFor[client.Spec](), func(name string) {
		parent, last := "", name
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			parent, last = name[:i], name[i+1:]
		}
		switch {
		case parent == path:
			here = append(here, last)
		case strings.EqualFold(last, key):
			elsewhere = append(elsewhere, name)
		}
	})
	if near := spelling.Nearest(key, here); len(near) > 0 {
		return near
	}
	return elsewhere
}

// eachSpecName calls do with the name of each field, in the order in which a spec has them.
func eachSpecName(path string, t reflect.Type, do func(name string)) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for f := range t.Fields() {
		last, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		name := strings.TrimPrefix(path+"."+last, ".")
		do(name)
		eachSpecName(name, f.Type, do)
	}
}
