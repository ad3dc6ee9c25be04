package selector

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of an expression.
const (
	// MaxText is the longest expression in bytes.
	MaxText      = 2048
	mostTerms    = 64
	mostOfOneSet = 256
)

// Selector is a parsed expression. It selects what satisfies every term. The zero value has no term and selects
// nothing.
type Selector struct{ terms []term }

type operator uint8

const (
	in operator = iota + 1
	notIn
	exists
	absent
)

// term is one condition. values is empty for exists and absent.
type term struct {
	key    string
	op     operator
	values []string
}

// Error is a fault of an expression.
type Error struct {
	// At is the place of the fault: the number of its character, from 1.
	At   int
	Text string
}

// Error returns the text with the place.
func (e *Error) Error() string { return fmt.Sprintf("character %d: %s", e.At, e.Text) }

// Lookup returns the value of a label or fact, and whether there is one.
type Lookup func(key string) (value string, found bool)

// Matches reports whether the labels and facts satisfy every term. KEY!=VALUE and "KEY notin (…)" are also true without
// the label.
func (s Selector) Matches(lookup Lookup) bool {
	for i := range s.terms {
		if !s.terms[i].matches(lookup) {
			return false
		}
	}
	return len(s.terms) > 0
}

func (t *term) matches(lookup Lookup) bool {
	value, found := lookup(t.key)
	switch t.op {
	case in:
		return found && slices.Contains(t.values, value)
	case notIn:
		return !found || !slices.Contains(t.values, value)
	case exists:
		return found
	default:
		return !found
	}
}

// IsZero reports whether the selector has no term.
func (s Selector) IsZero() bool { return len(s.terms) == 0 }

// Keys returns the keys of the terms, in their order.
func (s Selector) Keys() (keys []string) {
	for _, t := range s.terms {
		keys = append(keys, t.key)
	}
	return keys
}

// String returns the expression in its shortest form.
func (s Selector) String() string {
	parts := make([]string, 0, len(s.terms))
	for _, t := range s.terms {
		parts = append(parts, t.String())
	}
	return strings.Join(parts, ",")
}

func (t *term) String() string {
	switch {
	case t.op == exists:
		return t.key
	case t.op == absent:
		return "!" + t.key
	case t.op == in && len(t.values) == 1:
		return t.key + "=" + t.values[0]
	case t.op == notIn && len(t.values) == 1:
		return t.key + "!=" + t.values[0]
	case t.op == in:
		return t.key + " in (" + strings.Join(t.values, ",") + ")"
	default:
		return t.key + " notin (" + strings.Join(t.values, ",") + ")"
	}
}

// Parse reads an expression: terms with commas, each of the form KEY=VALUE, KEY==VALUE, KEY!=VALUE, KEY in (VALUE,…),
// KEY notin (VALUE,…), KEY or !KEY. It rejects an empty expression and an empty value, because a script makes them of
// an empty variable. Every error is an *Error.
func Parse(text string) (Selector, error) {
	if len(text) > MaxText {
		return Selector{}, &Error{1, fmt.Sprintf("the selector is %d bytes long: expected at most %d", len(text), MaxText)}
	}
	if strings.TrimSpace(text) == "" {
		return Selector{}, &Error{1, "the selector is empty: expected terms such as role=web,zone!=b"}
	}
	p := parser{text: text}
	p.next()
	var s Selector
	for {
		t, err := p.term()
		if err != nil {
			return Selector{}, err
		}
		if s.terms = append(s.terms, t); len(s.terms) > mostTerms {
			return Selector{}, p.fault("the selector has more than %d terms", mostTerms)
		}
		switch p.token {
		case "":
			return s, nil
		case ",":
			p.next()
		default:
			return Selector{}, p.fault("unexpected %.80q: expected a comma or the end", p.token)
		}
	}
}

// IsKey reports whether a text is the key of one label or fact, such as role, os or fact.rack.
func IsKey(text string) bool {
	s, err := Parse(text)
	return err == nil && s.String() == text && s.Keys()[0] == text
}

// ParseGranting reads the expression of a right, in which only labels count that people and join tokens have set.
// One term at least must be KEY=VALUE or KEY in (…), because a host without any label satisfies every other term. It
// rejects a key alone, which looks like the name of a host, and the names of facts.
func ParseGranting(text string) (Selector, error) {
	s, err := Parse(text)
	if err != nil {
		return Selector{}, err
	}
	positive := false
	for i := range s.terms {
		t := &s.terms[i]
		switch {
		case Reserved(t.key):
			return Selector{}, fmt.Errorf("%s is a fact of the host, and facts grant no rights: expected a label", t.key)
		case t.op == exists:
			return Selector{}, fmt.Errorf("%s has no value: expected KEY=VALUE, KEY!=VALUE, "+
				"KEY in (VALUE,…), KEY notin (VALUE,…) or !KEY; names of hosts stand before \"label:\"", t.key)
		}
		positive = positive || t.op == in
	}
	if !positive {
		return Selector{}, errors.New("a host without any label satisfies every term: expected KEY=VALUE or KEY in (VALUE,…) " +
			"beside it")
	}
	return s, nil
}

// parser reads an expression token by token.
type parser struct {
	text string
	// token is the present token, empty at the end; at is its place in bytes, and end the place after it.
	token   string
	at, end int
}

const special = ",()=!<>"

// next moves to the next token: a special character, an operator of two characters, or a word.
func (p *parser) next() {
	rest := strings.TrimLeftFunc(p.text[p.end:], unicode.IsSpace)
	p.at = len(p.text) - len(rest)
	length := strings.IndexFunc(rest, func(c rune) bool {
		return unicode.IsSpace(c) || strings.ContainsRune(special, c)
	})
	switch {
	case strings.HasPrefix(rest, "==") || strings.HasPrefix(rest, "!="):
		length = 2
	case length == 0:
		length = 1
	case length < 0:
		length = len(rest)
	}
	p.token, p.end = rest[:length], p.at+length
}

// isWord reports whether the present token is a key, a value or a keyword.
func (p *parser) isWord() bool { return p.token != "" && !strings.Contains(special, p.token[:1]) }

func (p *parser) fault(format string, args ...any) error {
	return &Error{utf8.RuneCountInString(p.text[:p.at]) + 1, fmt.Sprintf(format, args...)}
}

// missing is the fault of a token that is not the expected one.
func (p *parser) missing(expected string) error {
	if p.token == "" {
		return p.fault("the selector ends: expected %s", expected)
	}
	return p.fault("unexpected %.80q: expected %s", p.token, expected)
}

func (p *parser) term() (term, error) {
	t := term{op: exists}
	if p.token == "!" {
		t.op = absent
		p.next()
	}
	if !p.isWord() {
		return t, p.missing("a key")
	}
	if err := checkSyntax(p.token); err != nil {
		return t, p.fault("%v", err)
	}
	t.key = p.token
	p.next()
	if t.op == absent || p.token == "," || p.token == "" {
		return t, nil
	}
	switch p.token {
	case "=", "==":
		return p.single(t, in)
	case "!=":
		return p.single(t, notIn)
	case "in":
		return p.set(t, in)
	case "notin":
		return p.set(t, notIn)
	}
	return t, p.missing("=, !=, in, notin, a comma or the end after " + t.key)
}

// single reads the value behind = or !=.
func (p *parser) single(t term, op operator) (term, error) {
	t.op = op
	p.next()
	value, err := p.value(t.key)
	t.values = []string{value}
	return t, err
}

// set reads the values in parentheses behind in or notin.
func (p *parser) set(t term, op operator) (term, error) {
	t.op = op
	p.next()
	if p.token != "(" {
		return t, p.missing("values in parentheses, such as (a,b)")
	}
	for {
		p.next()
		value, err := p.value(t.key)
		if err != nil {
			return t, err
		}
		if !slices.Contains(t.values, value) {
			t.values = append(t.values, value)
		}
		if len(t.values) > mostOfOneSet {
			return t, p.fault("%s has more than %d values", t.key, mostOfOneSet)
		}
		switch p.token {
		case ")":
			p.next()
			return t, nil
		case ",":
		default:
			return t, p.missing("a comma or ) after the value " + value)
		}
	}
}

// value reads a value of a key.
func (p *parser) value(key string) (string, error) {
	value := p.token
	if !p.isWord() {
		return "", p.missing("a value of " + key)
	}
	check := CheckValue
	if Reserved(key) {
		check = CheckText
	}
	if err := check(key, value); err != nil {
		return "", p.fault("%v", err)
	}
	p.next()
	return value, nil
}

// printable reports whether a text is UTF-8 without control characters.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool {
		return unicode.IsControl(c) || unicode.Is(unicode.Cf, c)
	})
}
