package fuzz_test

import (
	"bytes"
	"encoding/json"
	"strings"
)

// node is a JSON value that can hold what a map cannot: the same name twice, in an order.
type node struct {
	text    string // of a scalar
	list    []*node
	members []member
	kind    byte // '{', '[' or 0
}

type member struct {
	name  string
	value *node
}

// parse reads JSON that is known to be such. A scalar stays as it is spelt.
func parse(text string) *node {
	if text[0] != '{' && text[0] != '[' {
		return &node{text: text}
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return read(d)
}

func read(d *json.Decoder) *node {
	token, err := d.Token()
	if err != nil {
		panic(err)
	}
	n := &node{}
	switch v := token.(type) {
	case json.Delim:
		n.kind = byte(v)
		for d.More() {
			if n.kind == '[' {
				n.list = append(n.list, read(d))
				continue
			}
			name, err := d.Token()
			if err != nil {
				panic(err)
			}
			n.members = append(n.members, member{name.(string), read(d)})
		}
		if _, err := d.Token(); err != nil {
			panic(err)
		}
	default:
		n.text = quoted(v)
	}
	return n
}

func quoted(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (n *node) write(b *bytes.Buffer) {
	switch n.kind {
	case '{':
		b.WriteByte('{')
		for i, m := range n.members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quoted(m.name) + ":")
			m.value.write(b)
		}
		b.WriteByte('}')
	case '[':
		b.WriteByte('[')
		for i, v := range n.list {
			if i > 0 {
				b.WriteByte(',')
			}
			v.write(b)
		}
		b.WriteByte(']')
	default:
		b.WriteString(n.text)
	}
}

func (n *node) String() string {
	var b bytes.Buffer
	n.write(&b)
	return b.String()
}

// all returns the value and those in it.
func (n *node) all() []*node {
	list := []*node{n}
	for _, m := range n.members {
		list = append(list, m.value.all()...)
	}
	for _, v := range n.list {
		list = append(list, v.all()...)
	}
	return list
}
