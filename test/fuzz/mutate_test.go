package fuzz_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// junk are values that no field expects.
func junk() []string {
	return []string{
		`null`, `[]`, `{}`, `""`, `" "`, `-1`, `0`, `1`, `2`, `7`, `0.5`, `1.0`, `"1"`, `1e308`, `1e400`,
		`99999999999999999999999`, `true`, `false`, `"x"`, `"\u0000"`, `"\ud800"`,
		`"'; DROP TABLE items;--"`, `"../../../etc/passwd"`, `"a:b/c*"`, `"进程"`, `[null]`, `[{}]`, `["0:127.0.0.1"]`,
		`{"a":{"a":[1]}}`, `"` + strings.Repeat("y", 300) + `"`,
		`2147483648`, `-9223372036854775808`, `3600`, `86400`, `"0:127.0.0.1"`, `"127.0.0.1"`, `"::ffff:127.0.0.1"`,
		`"999.1.1.1"`,
	}
}

// mutation changes a body at random. One that is inert changes nothing that a server may see.
type mutation struct {
	name   string
	inert  bool
	change func(r *rand.Rand, root *node)
}

func mutations() []mutation {
	return []mutation{
		{name: "set", change: func(r *rand.Rand, root *node) {
			if list := root.all()[1:]; len(list) > 0 {
				*pick(r, list) = *parse(pick(r, junk()))
			}
		}},
		{name: "delete", change: func(r *rand.Rand, root *node) {
			if o := object(r, root); o != nil {
				i := r.IntN(len(o.members))
				o.members = slices.Delete(o.members, i, i+1)
			}
		}},
		{name: "repeat after", change: func(r *rand.Rand, root *node) {
			if o := object(r, root); o != nil {
				o.members = append(o.members, member{pick(r, o.members).name, parse(pick(r, junk()))})
			}
		}},
		{name: "repeat before", inert: true, change: func(r *rand.Rand, root *node) {
			if o := object(r, root); o != nil {
				o.members = slices.Insert(o.members, 0, member{pick(r, o.members).name, parse(pick(r, junk()))})
			}
		}},
		{name: "retype", change: func(r *rand.Rand, root *node) {
			list := root.all()[1:]
			if len(list) == 0 {
				return
			}
			n := pick(r, list)
			switch old := *n; r.IntN(3) {
			case 0:
				*n = node{kind: '[', list: []*node{&old}}
			case 1:
				*n = node{kind: '{', members: []member{{"a", &old}}}
			default:
				if old.kind != 0 {
					n.text, n.kind = quoted(old.String()), 0
				} else if text, err := strconv.Unquote(old.text); err == nil && json.Valid([]byte(text)) {
					n.text = text
				} else {
					n.text = quoted(old.text)
				}
			}
		}},
		{name: "extra", inert: true, change: func(r *rand.Rand, root *node) {
			if o := object(r, root); o != nil {
				o.members = slices.Insert(o.members, r.IntN(len(o.members)+1),
					member{"extra" + strconv.Itoa(r.IntN(9)), parse(pick(r, junk()))})
			}
		}},
		{name: "lookalike", inert: true, change: func(r *rand.Rand, root *node) {
			if o := object(r, root); o != nil {
				name := lookalike(r, pick(r, o.members).name)
				o.members = slices.Insert(o.members, r.IntN(len(o.members)+1), member{name, parse(pick(r, junk()))})
			}
		}},
		{name: "other case", change: func(r *rand.Rand, root *node) {
			if o := object(r, root); o != nil {
				m := &o.members[r.IntN(len(o.members))]
				m.name = lookalike(r, m.name)
			}
		}},
	}
}

// lookalike is another name that a careless reader takes for this one.
func lookalike(r *rand.Rand, name string) string {
	//nolint:staticcheck // the names are ASCII
	forms := []string{
		strings.ToUpper(name), strings.Title(name), strings.Replace(name, "s", "ſ", 1),
		strings.Replace(name, "k", "\u212a", 1),
	}
	for range 4 {
		if form := pick(r, forms); form != name {
			return form
		}
	}
	return name + "_"
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// object picks an object that is not empty; labels are the caller's own, where every member counts.
func object(r *rand.Rand, root *node) *node {
	var list []*node
	var walk func(n *node)
	walk = func(n *node) {
		if len(n.members) > 0 {
			list = append(list, n)
		}
		for _, m := range n.members {
			if m.name != "labels" {
				walk(m.value)
			}
		}
		for _, v := range n.list {
			walk(v)
		}
	}
	if walk(root); len(list) == 0 {
		return nil
	}
	return pick(r, list)
}

// garble changes bytes of a text.
func garble(r *rand.Rand, text string) string {
	b := []byte(text)
	for range 1 + r.IntN(3) {
		if len(b) == 0 {
			break
		}
		switch i := r.IntN(len(b)); r.IntN(4) {
		case 0:
			b[i] = byte(r.IntN(256))
		case 1:
			b = slices.Delete(b, i, i+1)
		case 2:
			b = slices.Insert(b, i, pick(r, []byte("{}[]\",:\\0e-\x00\xff")))
		default:
			b = b[:i]
		}
	}
	return string(b)
}

// long reports whether a body asks for a check or a command that takes longer than a run may wait for its end, which is
// what such a body deserves. It reads as a server does: the last of a name counts, letter by letter.
func long(text string) bool {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return strings.Count(text, "sleep 20") != strings.Count(text, "sleep 20 >/dev/null 2>&1 & echo")
	}
	return longIn(v)
}

func longIn(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, longIn)
	case map[string]any:
		for name, value := range v {
			switch name {
			case "start_check_secs", "stop_check_secs", "op_timeout", "start_check_begin_time", "start_check_end_time",
				"cycle_time", "crontab_rule":
				if seconds, err := strconv.ParseFloat(strings.TrimSpace(text(value)), 64); err == nil && seconds > 5 &&
					seconds <= 3600 {
					return true
				}
			}
			if longIn(value) {
				return true
			}
		}
	}
	return false
}

func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return quoted(v)
}
