package processfile

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/spec"
	"drover/internal/spelling"
)

// decoder fills Go values from nodes and collects every fault.
type decoder struct {
	faults []Fault
	// names are all fields that a file may have, by path, for suggestions.
	names []string
	// lines gets the line of each value, by path.
	lines map[string]int
}

func (d *decoder) fault(n *node, path, format string, args ...any) {
	d.faults = append(d.faults, Fault{Line: n.line, Path: path, Text: fmt.Sprintf(format, args...)})
}

// add adds faults of checks, except of fields whose value could not be read, of what is in them, and of parts that lack
// such a field.
func (d *decoder) add(faults []Fault) {
	unread, inside := map[string]bool{}, map[string]bool{}
	for _, f := range d.faults {
		unread[f.Path] = f.Path != ""
		inside[f.Path[:max(0, strings.LastIndexByte(f.Path, '.'))]] = true
	}
	for _, f := range faults {
		entry := f.Path[:strings.LastIndexByte(f.Path, ']')+1] // the innermost entry of a list
		around := f.Path[:max(0, strings.LastIndexByte(f.Path, '.'))]
		if !unread[f.Path] && !unread[entry] && !unread[around] && (!f.lacks || !inside[f.Path]) {
			d.faults = append(d.faults, f)
		}
	}
}

// value decodes a node that is not null. field is the path below the process, for suggestions.
func (d *decoder) value(path, field string, n *node, v reflect.Value) {
	if n.kind == null {
		return // an empty value is the default
	}
	if d.lines != nil {
		d.lines[path] = n.line
	}
	whole := v
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if h, ok := reflect.TypeAssert[*v1.Hosts](v.Addr()); ok {
		d.hosts(path, field, n, h)
		return
	}
	if r, ok := reflect.TypeAssert[*v1.Reload](v.Addr()); ok && n.kind == mapping {
		if !d.reload(path, field, n, r) {
			whole.SetZero() // no other check tells the same again
		}
		return
	}
	if special(v) {
		if err := unmarshal(n, v.Addr().Interface()); err != nil {
			d.fault(n, path, "%s", strings.TrimPrefix(err.Error(), "json: "))
			whole.SetZero() // no other check tells the same again
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(path, field, n, v)
	case reflect.Map:
		d.texts(path, n, v)
	case reflect.Slice:
		if n.kind != list {
			d.fault(n, path, "is %s: expected a list", n.kind)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.list), len(n.list)))
		for i, item := range n.list {
			at := fmt.Sprintf("%s[%d]", path, i)
			if item.kind == null {
				d.fault(item, at, "is empty: remove the entry, or give it a value")
				continue
			}
			d.value(at, field, item, v.Index(i))
		}
	default:
		if expected := set(n, v); expected != "" {
			d.fault(n, path, "is %s: expected %s", show(n), expected)
		}
	}
}

// hosts decodes a list of names, or a mapping with an expression.
func (d *decoder) hosts(path, field string, n *node, h *v1.Hosts) {
	switch n.kind {
	case list:
		d.value(path, field, n, reflect.ValueOf(&h.Names).Elem())
	case mapping:
		by := struct {
			Select string `json:"select"`
		}{}
		before := len(d.faults)
		d.structure(path, field, n, reflect.ValueOf(&by).Elem())
		if h.Select = by.Select; by.Select == "" && len(d.faults) == before {
			d.fault(n, join(path, "select"), "is empty: expected an expression such as role=web,zone!=b")
		}
		if h.IsZero() {
			h.Names = []string{""} // no other check tells the same again
		}
	default:
		d.fault(n, path, "is %s: expected a list of hosts, or select with an expression", n.kind)
		h.Names = []string{""}
	}
}

// reload decodes a mapping with a signal, and reports whether it is right.
func (d *decoder) reload(path, field string, n *node, r *v1.Reload) bool {
	by := struct {
		Signal string `json:"signal"`
	}{}
	before := len(d.faults)
	if d.structure(path, field, n, reflect.ValueOf(&by).Elem()); len(d.faults) > before {
		return false
	}
	name, err := spec.SignalName(by.Signal)
	if r.Signal = name; err != nil {
		d.fault(n, path, "%v", err)
	}
	return err == nil
}

// special reports whether a type reads its own text.
func special(v reflect.Value) bool {
	p := v.Addr().Interface()
	if _, ok := p.(json.Unmarshaler); ok {
		return true
	}
	_, ok := p.(encoding.TextUnmarshaler)
	return ok
}

func unmarshal(n *node, p any) error {
	if u, ok := p.(encoding.TextUnmarshaler); ok {
		if n.kind != text && n.kind != literal {
			return fmt.Errorf("is %s: expected a single value", n.kind)
		}
		return u.UnmarshalText([]byte(n.text))
	}
	data, err := json.Marshal(n.plain())
	if err != nil {
		return err
	}
	return json.Unmarshal(data, p)
}

// plain is a node as encoding/json has it, with each scalar as a string.
func (n *node) plain() any {
	switch n.kind {
	case list:
		all := make([]any, len(n.list))
		for i, item := range n.list {
			all[i] = item.plain()
		}
		return all
	case mapping:
		all := map[string]any{}
		for key, item := range n.fields {
			all[key] = item.plain()
		}
		return all
	case null:
		return nil
	default:
		return n.text
	}
}

// set sets a string, a number or a truth value. It returns the expected form if the node has another one.
func set(n *node, v reflect.Value) (expected string) {
	switch v.Kind() {
	case reflect.String:
		if n.kind == text {
			v.SetString(n.text)
			return ""
		}
		if n.kind == literal {
			return "a string: put the value in quotes"
		}
		return "a string"
	case reflect.Bool:
		if n.kind == literal && (n.text == "true" || n.text == "false") {
			v.SetBool(n.text == "true")
			return ""
		}
		return "true or false"
	case reflect.Float64:
		if f, err := strconv.ParseFloat(n.text, 64); err == nil && n.kind == literal {
			v.SetFloat(f)
			return ""
		}
		return "a number"
	default:
		if i, err := strconv.ParseInt(n.text, 10, v.Type().Bits()); err == nil && n.kind == literal {
			v.SetInt(i)
			return ""
		}
		return "a whole number"
	}
}

// show is a value for a message.
func show(n *node) string {
	if n.kind == text || n.kind == literal {
		return strconv.Quote(clip(n.text))
	}
	return n.kind.String()
}

func clip(s string) string {
	const most = 60
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// texts decodes a map of texts. Environment variables may be written without quotes.
func (d *decoder) texts(path string, n *node, v reflect.Value) {
	if n.kind != mapping {
		d.fault(n, path, "is %s: expected names with values", show(n))
		return
	}
	_, anyScalar := reflect.TypeAssert[v1.Variables](v)
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.keys)))
	for _, key := range n.keys {
		item := n.fields[key]
		at := join(path, key)
		switch {
		case item.kind == text, item.kind == literal && anyScalar:
			v.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(item.text).Convert(v.Type().Elem()))
		case item.kind == null:
			d.fault(item, at, `is nothing: expected a string, or "" for an empty one`)
		case item.kind == literal:
			d.fault(item, at, "is %s: expected a string: put the value in quotes", show(item))
		default:
			d.fault(item, at, "is %s: expected a string", show(item))
		}
	}
}

// structure decodes a mapping with known names.
func (d *decoder) structure(path, field string, n *node, v reflect.Value) {
	if _, command := v.Type().FieldByName("Run"); command && n.kind == text {
		d.fault(n, path, "is %s: expected names with values, as in run: COMMAND", show(n))
		return
	}
	if n.kind != mapping {
		d.fault(n, path, "is %s: expected names with values", show(n))
		return
	}
	fields := map[string]int{}
	var here []string
	for i := range v.NumField() {
		name := tag(v.Type().Field(i))
		if name == "" {
			continue
		}
		fields[name] = i
		here = append(here, name)
	}
	for _, key := range n.keys {
		at := join(path, key)
		i, ok := fields[key]
		if !ok {
			at := &node{line: n.lines[key]}
			d.fault(at, join(path, key), "unknown field%s", d.suggest(field, key, here))
			continue
		}
		d.value(at, join(field, key), n.fields[key], v.Field(i))
	}
}

// tag is the name of a field; it is empty for a field that no file has.
func tag(f reflect.StructField) string {
	if f.Tag.Get("file") == "-" {
		return ""
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// suggest proposes the fields that a name may mean: of the same part, else of the whole process.
func (d *decoder) suggest(field, key string, here []string) string {
	if near := spelling.Nearest(key, here); len(near) > 0 {
		return ", did you mean " + process.OrList(near) + "?"
	}
	var elsewhere []string
	for _, name := range d.names {
		if last := name[strings.LastIndexByte(name, '.')+1:]; strings.EqualFold(last, key) {
			elsewhere = append(elsewhere, name)
		}
	}
	if len(elsewhere) > 0 {
		return ", did you mean " + process.OrList(elsewhere) + "?"
	}
	if field == "" {
		return ": drover explain lists the fields"
	}
	return ": expected " + strings.Join(here, ", ")
}
