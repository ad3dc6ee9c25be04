package term

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Forms that name what to print.
const (
	asPath    = "jsonpath="
	asColumns = "custom-columns="
)

// step is one step of a path: a member, an element, or all of them.
type step struct {
	name  string
	index int
	all   bool
}

// path is a part of the JSON of a value. It is a subset of JSONPath: names, [N] and [*].
type path []step

// parsePath reads a path such as $[*].host.id. The $ may be missing, and braces around the path do not count.
func parsePath(text string) (path, error) {
	rest := text
	if inner, ok := strings.CutPrefix(rest, "{"); ok && strings.HasSuffix(inner, "}") {
		rest = strings.TrimSuffix(inner, "}")
	}
	rest = strings.TrimPrefix(rest, "$")
	var p path
	for rest != "" {
		var s step
		var ok bool
		if s, rest, ok = nextStep(rest, len(p) == 0); !ok {
			return nil, fmt.Errorf("%q is not a path: expected names and [N] or [*], such as [*].host.id", text)
		}
		p = append(p, s)
	}
	return p, nil
}

// nextStep reads the first step of a text. The dot before the first name of a path may be missing.
func nextStep(text string, first bool) (s step, rest string, ok bool) {
	if inner, found := strings.CutPrefix(text, "["); found {
		inside, rest, closed := strings.Cut(inner, "]")
		quoted := len(inside) > 1 && strings.ContainsRune(`'"`, rune(inside[0])) && inside[len(inside)-1] == inside[0]
		switch n, err := strconv.Atoi(inside); {
		case !closed:
			return step{}, "", false
		case inside == "*":
			return step{all: true}, rest, true
		case quoted:
			return step{name: inside[1 : len(inside)-1]}, rest, true
		default:
			return step{index: n}, rest, err == nil
		}
	}
	name, found := strings.CutPrefix(text, ".")
	if !found && !first {
		return step{}, "", false
	}
	if end := strings.IndexAny(name, ".["); end >= 0 {
		name, rest = name[:end], name[end:]
	}
	return step{name: name, all: name == "*"}, rest, name != "" && !strings.ContainsAny(name, "{}")
}

// find returns what the path names in a decoded JSON value, in its order.
func (p path) find(v any) []any {
	if len(p) == 0 {
		return []any{v}
	}
	s, rest := p[0], p[1:]
	var found []any
	switch v := v.(type) {
	case map[string]any:
		if s.all {
			for _, name := range sortedNames(v) {
				found = append(found, rest.find(v[name])...)
			}
		} else if one, ok := v[s.name]; ok && s.name != "" {
			found = rest.find(one)
		}
	case []any:
		i := s.index
		if i < 0 {
			i += len(v)
		}
		if s.all {
			for _, one := range v {
				found = append(found, rest.find(one)...)
			}
		} else if s.name == "" && i >= 0 && i < len(v) {
			found = rest.find(v[i])
		}
	}
	return found
}

func sortedNames(v map[string]any) []string {
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// decoded returns a value as its JSON decodes.
func decoded(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("cannot encode output: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var plain any
	if err := d.Decode(&plain); err != nil {
		return nil, fmt.Errorf("cannot encode output: %w", err)
	}
	return plain, nil
}

// plainText is a decoded value on one line: a text without quotes, and other values as JSON.
func plainText(v any) string {
	if text, ok := v.(string); ok {
		return Printable(text)
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // not reached: the value was decoded from JSON
		return ""
	}
	return HarmlessJSON(strings.TrimSpace(b.String()))
}

// printPath prints each part of a value that a path names on a line of its own.
func printPath(w io.Writer, text string, v any) error {
	p, err := parsePath(text)
	if err != nil {
		return err
	}
	if err := p.check(reflect.TypeOf(v)); err != nil {
		return Usagef("-o %s%s: %w", asPath, text, err)
	}
	plain, err := decoded(v)
	if err != nil {
		return err
	}
	var b strings.Builder
	found := p.find(plain)
	for _, one := range found {
		b.WriteString(plainText(one) + "\n")
	}
	if i := slices.IndexFunc(p, func(s step) bool { return s.name == "" && !s.all }); len(found) == 0 && i >= 0 {
		return Usagef("-o %s%s matches nothing: there is no element [%d]", asPath, text, p[i].index)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// ownColumn is a column of -o custom-columns.
type ownColumn struct {
	head string
	path path
}

// parseColumns reads HEAD:PATH,HEAD:PATH.
func parseColumns(text string) ([]ownColumn, error) {
	var all []ownColumn
	for part := range strings.SplitSeq(text, ",") {
		head, at, found := strings.Cut(part, ":")
		if !found || head == "" || at == "" {
			return nil, fmt.Errorf("%q is not a column: expected HEAD:PATH, such as HOST:host.id", part)
		}
		p, err := parsePath(at)
		if err != nil {
			return nil, err
		}
		all = append(all, ownColumn{head, p})
	}
	return all, nil
}

// printColumns prints a list as a table with columns of the caller.
func printColumns[T any](w io.Writer, o Output, text string, items []T) error {
	columns, err := parseColumns(text)
	if err != nil {
		return err
	}
	for _, c := range columns {
		if err := c.path.check(reflect.TypeFor[T]()); err != nil {
			return Usagef("-o %s: the column %s has %w", asColumns+text, c.head, err)
		}
	}
	var t Table
	if !o.NoHeaders {
		heads := make([]string, len(columns))
		for i, c := range columns {
			heads[i] = c.head
		}
		t.Add(heads...)
	}
	for _, item := range items {
		plain, err := decoded(item)
		if err != nil {
			return err
		}
		cells := make([]string, len(columns))
		for i, c := range columns {
			var texts []string
			for _, one := range c.path.find(plain) {
				texts = append(texts, plainText(one))
			}
			cells[i] = strings.Join(texts, ",")
		}
		t.Add(cells...)
	}
	return t.Write(w)
}

// checkForm checks what a form of a list names.
func checkForm(form string) (known bool, err error) {
	if at, ok := strings.CutPrefix(form, asPath); ok {
		_, err = parsePath(at)
		return true, err
	}
	if text, ok := strings.CutPrefix(form, asColumns); ok {
		_, err = parseColumns(text)
		return true, err
	}
	return false, nil
}
