package processfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Write returns documents as YAML that Read reads as the same documents, with the fields in the order of the
// reference.
func Write(docs []Document) ([]byte, error) {
	var w writer
	for i, d := range docs {
		if i > 0 {
			w.WriteString("---\n")
		}
		w.printf("namespace: %s\n", scalarText(d.Namespace))
		if d.Revision != 0 {
			w.printf("revision: %d\n", d.Revision)
		}
		w.printf("processes:\n")
		for _, p := range d.Processes {
			data, err := json.Marshal(p.Spec)
			if err != nil {
				return nil, fmt.Errorf("cannot write process %s: %w", p.Name, err)
			}
			tree, err := ordered(json.NewDecoder(bytes.NewReader(data)))
			if err != nil {
				return nil, fmt.Errorf("cannot write process %s: %w", p.Name, err)
			}
			for _, c := range p.Comments {
				w.comment("  ", c)
			}
			w.printf("  %s:", scalarText(p.Name))
			w.value("  ", tree)
		}
	}
	return w.Bytes(), nil
}

// comment writes a text as lines of comments. Control characters could end a comment for some readers of YAML.
func (w *writer) comment(indent, text string) {
	for line := range strings.Lines(text) {
		w.printf("%s# %s\n", indent, strings.Map(func(r rune) rune {
			if !strconv.IsPrint(r) {
				return ' '
			}
			return r
		}, strings.TrimRight(line, "\n")))
	}
}

// member is one name of a mapping with its value.
type member struct {
	key   string
	value any // string, json.Number, bool, nil, []any or []member
}

// ordered reads a JSON value and keeps the order of names.
func ordered(d *json.Decoder) (any, error) {
	d.UseNumber()
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		all := []any{}
		for d.More() {
			item, err := ordered(d)
			if err != nil {
				return nil, err
			}
			all = append(all, item)
		}
		_, err = d.Token()
		return all, err
	case json.Delim('{'):
		all := []member{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := ordered(d)
			if err != nil {
				return nil, err
			}
			all = append(all, member{key.(string), value}) //nolint:forcetypeassert // JSON has no other keys
		}
		_, err = d.Token()
		return all, err
	}
	return token, nil
}

// writer makes YAML in block style, with lists of single values in one line.
type writer struct{ bytes.Buffer }

// printf writes a text; a buffer takes it without an error.
func (w *writer) printf(format string, args ...any) { _, _ = fmt.Fprintf(&w.Buffer, format, args...) }

// value writes a value behind "name:", and the end of the line. indent is that of the name.
func (w *writer) value(indent string, value any) {
	switch v := value.(type) {
	case []member:
		if len(v) == 0 {
			w.WriteString(" {}\n")
			return
		}
		w.WriteByte('\n')
		for _, m := range v {
			w.printf("%s  %s:", indent, scalarText(m.key))
			w.value(indent+"  ", m.value)
		}
	case []any:
		w.list(indent, v)
	case string:
		if block(v) {
			w.WriteString(" |\n")
			for line := range strings.Lines(v) {
				w.WriteString(strings.TrimRight(indent+"  "+line, " ")) // an empty line has no indent
			}
			return
		}
		w.printf(" %s\n", scalarText(v))
	default:
		w.printf(" %v\n", v)
	}
}

func (w *writer) list(indent string, items []any) {
	if !slices.ContainsFunc(items, func(item any) bool { _, ok := item.([]member); return ok }) {
		var texts []string
		for _, item := range items {
			if s, ok := item.(string); ok {
				item = scalarText(s)
			}
			texts = append(texts, fmt.Sprint(item))
		}
		w.printf(" [%s]\n", strings.Join(texts, ", "))
		return
	}
	w.WriteByte('\n')
	for _, item := range items {
		prefix := indent + "  - "
		for _, m := range item.([]member) { //nolint:forcetypeassert // no list of a file is mixed
			w.printf("%s%s:", prefix, scalarText(m.key))
			w.value(indent+"    ", m.value)
			prefix = indent + "    "
		}
	}
}

// block reports whether a text is written as lines of its own.
func block(text string) bool {
	return strings.HasSuffix(text, "\n") && strings.TrimSpace(text) != "" && !strings.HasSuffix(text, "\n\n") &&
		text[0] != ' ' && text[0] != '\n' && !strings.Contains(text, " \n") &&
		!strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) })
}

// plain is the form of texts that need no quotes, in a line or in a list: words, paths, durations, sizes and
// percentages. What YAML reads as something else is excepted by word.
var plain = regexp.MustCompile(
	`^(([A-Za-z/_]|\./)[A-Za-z0-9 /._%+=@-]*|([0-9]+(\.[0-9]+)?(ms|s|m|h|d|[KMGT]iB|%))+)$`)

// words are read as truth values or as nothing by some readers of YAML.
func words() []string {
	return []string{"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf", ".nan", ".inf"}
}

// scalarText is a string as YAML.
func scalarText(text string) string {
	if plain.MatchString(text) && !strings.HasSuffix(text, " ") &&
		!slices.Contains(words(), strings.ToLower(text)) {
		return text
	}
	return strconv.Quote(text)
}
