package processfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"unicode/utf8"

	v1 "drover/api/v1"
)

// ReadJSON reads a v1.File. The error and the documents are those of Read; its faults have no lines.
func ReadJSON(data []byte) ([]Document, error) {
	n, faults := jsonTree(data)
	r := &reader{decoder: decoder{faults: faults, names: fieldNames()}}
	var docs []Document
	if len(faults) == 0 {
		docs = r.parts("", n)
	}
	r.add(checkEach(docs))
	if r.faults = append(r.faults, order(docs)...); len(r.faults) > 0 {
		return outlines(docs), lineless(r.faults)
	}
	return docs, nil
}

// ReadSpecJSON reads a v1.Spec without hosts. The error is Faults; its paths begin below the spec.
func ReadSpecJSON(data []byte) (*v1.Spec, error) {
	n, faults := jsonTree(data)
	d := decoder{faults: faults, names: fieldNames(), lines: map[string]int{}}
	f := Named{lines: d.lines}
	if len(faults) == 0 {
		if n.kind == null {
			return nil, nil
		}
		d.value("", "", n, reflect.ValueOf(&f.Spec).Elem())
	}
	if n != nil {
		d.add(checkSpec(f))
	}
	if len(d.faults) > 0 {
		return nil, lineless(d.faults)
	}
	return &f.Spec, nil
}

func lineless(faults []Fault) Faults {
	for i := range faults {
		faults[i].Line = 0
	}
	return faults
}

// parts reads the documents of a v1.File.
func (r *reader) parts(file string, n *node) []Document {
	more := n.fields["more"]
	if more == nil {
		return []Document{r.document(file, n)}
	}
	first := *n
	first.keys = slices.DeleteFunc(slices.Clone(n.keys), func(key string) bool { return key == "more" })
	docs := []Document{r.document(file, &first)}
	if more.kind != list && more.kind != null {
		r.fault(more, "more", "is %s: expected a list", show(more))
	}
	for _, processes := range more.list {
		part := first
		part.fields = maps.Clone(n.fields)
		part.fields["processes"] = processes
		docs = append(docs, r.document(file, &part))
	}
	r.faults = distinct(r.faults) // each part has the same fields beside its processes
	return docs
}

// distinct returns faults without those that are there already.
func distinct(faults []Fault) (all []Fault) {
	told := map[Fault]bool{}
	for _, f := range faults {
		if !told[f] {
			all = append(all, f)
		}
		told[f] = true
	}
	return all
}

// jsonTree reads JSON as the nodes that the same YAML has.
func jsonTree(data []byte) (*node, []Fault) {
	if !utf8.Valid(data) {
		return nil, foreignBytes(data)
	}
	t := jsonReader{json.NewDecoder(bytes.NewReader(data)), nil, maxNodes}
	t.UseNumber()
	n, err := t.value("", 0)
	if err == nil {
		if _, err = t.Token(); errors.Is(err, io.EOF) {
			return n, t.faults
		}
		err = errors.New("text follows the value")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		err = errors.New("expected a value, found none")
	}
	return nil, []Fault{{Text: fmt.Sprintf("not valid JSON: %v", err)}}
}

// maxDepth bounds the recursion.
const maxDepth = 64

type jsonReader struct {
	*json.Decoder
	faults []Fault
	left   int
}

func (t *jsonReader) value(path string, depth int) (*node, error) {
	token, err := t.Token()
	if err != nil {
		return nil, err
	}
	if t.left--; t.left < 0 || depth > maxDepth {
		return nil, fmt.Errorf("more than %d values, or more than %d levels", maxNodes, maxDepth)
	}
	n := &node{}
	switch token := token.(type) {
	case string:
		n.kind, n.text = text, token
	case json.Number:
		n.kind, n.text = literal, token.String()
	case bool:
		n.kind, n.text = literal, fmt.Sprint(token)
	case json.Delim:
		if token == '[' {
			err = t.list(n, path, depth)
		} else {
			err = t.object(n, path, depth)
		}
	}
	return n, err
}

func (t *jsonReader) list(n *node, path string, depth int) error {
	n.kind = list
	for t.More() {
		item, err := t.value(fmt.Sprintf("%s[%d]", path, len(n.list)), depth+1)
		if err != nil {
			return err
		}
		n.list = append(n.list, item)
	}
	_, err := t.Token()
	return err
}

func (t *jsonReader) object(n *node, path string, depth int) error {
	n.kind, n.fields, n.lines = mapping, map[string]*node{}, map[string]int{}
	for t.More() {
		token, err := t.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string) // JSON has no other keys
		at := join(path, key)
		value, err := t.value(at, depth+1)
		switch {
		case err != nil:
			return err
		case n.fields[key] != nil:
			t.faults = append(t.faults, Fault{Path: at, Text: "given twice"})
			continue
		}
		n.keys = append(n.keys, key)
		n.fields[key] = value
	}
	_, err := t.Token()
	return err
}
