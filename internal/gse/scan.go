package gse

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// A body may hold thousands of requests, each with a spec. encoding/json goes over every byte of them several times,
// and asks each field by way of reflection; a scanner goes over them once. It reads as whatever filters, signs or
// records in front of us does, which encoding/json does not: names match letter by letter, and of a repeated member the
// last counts, whole. One value of the wrong shape does not keep the others from being read.

// scanner reads JSON from left to right. When that is broken, the rest of it counts as read.
type scanner struct {
	data  []byte
	at    int
	depth int
	// under is what the names of fields in errors begin with.
	under string
	// broken says that the data is no JSON, since what stands at offset.
	broken bool
	offset int
	// wrong is the first value that is of the wrong type.
	wrong *wrongType
	// entries counts those of all lists that are read.
	entries int
}

// maxEntries is how many entries all lists of a body may have together: requests, hosts, agents, processes, files. Each
// takes more memory than its text.
const maxEntries = 100_000

// wrongType is a value of the wrong type; the field is empty for the body itself.
type wrongType struct{ field, kind string }

// deepest is how deep values may be nested, which is what encoding/json allows.
const deepest = 10_000

// scan has read read the one value that data holds. A value of the wrong type is named by its path.
func scan(data []byte, read func(*scanner)) error {
	s := scanner{data: data}
	read(&s)
	if s.peek() != 0 || s.at < len(s.data) {
		s.fail()
	}
	switch {
	case s.broken:
		return s.syntax()
	case s.wrong == nil:
		return nil
	case s.wrong.field == "":
		return misreadf("the body is of the wrong type: %s", s.wrong.kind)
	}
	return misreadf("%s is of the wrong type: %s", s.wrong.field, s.wrong.kind)
}

// Check returns nil if text is one JSON value, and else a *Misread that says where it is not.
func Check(text []byte) error {
	return scan(text, func(s *scanner) { s.value() })
}

// syntax says what keeps the data from being JSON.
func (s *scanner) syntax() error {
	switch {
	case s.entries > maxEntries:
		return misreadf("its lists have more than %d entries", maxEntries)
	case s.depth > deepest:
		return misreadf("it is nested more than %d deep", deepest)
	case s.offset >= len(s.data):
		return misreadf("it ends too early")
	}
	c, _ := utf8.DecodeRune(s.data[s.offset:])
	return misreadf("%q is not expected at byte %d", c, s.offset+1)
}

func (s *scanner) fail() {
	if !s.broken {
		s.broken, s.offset = true, s.at
	}
	s.at = len(s.data)
}

// peek returns the first byte of the next token, 0 at the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// next steps over a byte if it is the next token.
func (s *scanner) next(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// object reads an object, or null. Member is called with the name of each member, as it is spelt, and reads its value,
// over what it may have read before by that name. Field is the name of the value in errors.
func (s *scanner) object(field string, member func(name []byte)) {
	if s.peek() != '{' {
		s.other(field)
		return
	}
	type misread struct {
		name  []byte
		value *wrongType
	}
	var misreads []misread // of those members that count so far
	before := s.wrong
	s.list('}', func() {
		name := s.name()
		if !s.next(':') {
			s.fail()
			return
		}
		s.wrong = nil
		member(name)
		if len(misreads) > 0 {
			misreads = slices.DeleteFunc(misreads, func(m misread) bool { return bytes.Equal(m.name, name) })
		}
		if s.wrong != nil {
			misreads = append(misreads, misread{name, s.wrong})
		}
	})
	s.wrong = before
	if before == nil && len(misreads) > 0 {
		s.wrong = misreads[0].value
	}
}

// below has read read with a prefix before the names of fields in errors.
func (s *scanner) below(prefix string, read func()) {
	outer := s.under
	s.under += prefix + "."
	read()
	s.under = outer
}

// array is object for an array; element reads each element.
func (s *scanner) array(field string, element func()) {
	if s.peek() != '[' {
		s.other(field)
		return
	}
	s.list(']', func() {
		if field != "" {
			s.entries++
		}
		if s.entries > maxEntries {
			s.fail()
			return
		}
		element()
	})
}

// list reads what stands between two brackets.
func (s *scanner) list(end byte, one func()) {
	s.at++
	if s.depth++; s.depth > deepest {
		s.fail()
		return
	}
	defer func() {
		if !s.broken {
			s.depth--
		}
	}()
	if s.next(end) {
		return
	}
	for !s.broken {
		one()
		if s.next(end) {
			return
		}
		if !s.next(',') {
			s.fail()
		}
	}
}

// other reads a value that is not of the type that is expected of the field.
func (s *scanner) other(field string) {
	text := s.value()
	if s.broken || s.wrong != nil {
		return
	}
	kind := ""
	switch text[0] {
	case 'n':
		return
	case '{':
		kind = "object"
	case '[':
		kind = "array"
	case '"':
		kind = "string"
	case 't', 'f':
		kind = "bool"
	default:
		kind = "number"
	}
	s.wrong = &wrongType{strings.TrimSuffix(s.under+field, "."), kind}
}

// name reads the name of a member.
func (s *scanner) name() []byte {
	if s.peek() != '"' {
		s.fail()
		return nil
	}
	text := s.value()
	if s.broken {
		return nil
	}
	if inner := text[1 : len(text)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var name string
	if json.Unmarshal(text, &name) != nil {
		return nil
	}
	return []byte(name)
}

// scalar reads a lenient value.
func (s *scanner) scalar(v json.Unmarshaler) {
	if text := s.value(); !s.broken {
		_ = v.UnmarshalJSON(text) // it never fails
	}
}

// value reads whatever is there, and returns its text.
func (s *scanner) value() []byte {
	first := s.peek()
	from := s.at
	switch first {
	case '{':
		s.object("", func([]byte) { s.value() })
	case '[':
		s.array("", func() { s.value() })
	case '"':
		s.text()
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.number()
	}
	return s.data[from:s.at]
}

func (s *scanner) word(w string) {
	if !bytes.HasPrefix(s.data[s.at:], []byte(w)) {
		s.fail()
		return
	}
	s.at += len(w)
}

// text steps over a string.
func (s *scanner) text() {
	for s.at++; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return
		case c == '\\':
			s.escape()
		case c < ' ':
			s.fail()
		}
	}
	s.fail()
}

// escape steps over all of an escape but its last byte.
func (s *scanner) escape() {
	s.at++
	rest := s.data[min(s.at, len(s.data)):]
	if len(rest) > 0 && bytes.IndexByte([]byte(`"\/bfnrt`), rest[0]) >= 0 {
		return
	}
	if len(rest) < 5 || rest[0] != 'u' {
		s.fail()
		return
	}
	for _, c := range rest[1:5] {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
			s.fail()
			return
		}
	}
	s.at += 4
}

// number steps over a number.
func (s *scanner) number() {
	s.skip('-')
	if !s.skip('0') {
		s.digits()
	}
	if s.skip('.') {
		s.digits()
	}
	if s.skip('e') || s.skip('E') {
		if !s.skip('+') {
			s.skip('-')
		}
		s.digits()
	}
}

// skip steps over a byte if it is the very next.
func (s *scanner) skip(c byte) bool {
	if s.at >= len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	return true
}

// digits steps over digits, of which there must be one.
func (s *scanner) digits() {
	from := s.at
	for s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' {
		s.at++
	}
	if s.at == from {
		s.fail()
	}
}
