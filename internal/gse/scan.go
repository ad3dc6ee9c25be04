package gse

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// A body may have thousands of requests, each with a spec. encoding/json passes over every byte of them several times
// and uses reflection for each field; a scanner passes over them once. The scanner also reads like the filters,
// signers and recorders in front of drover, which encoding/json does not. Names match exactly, and the last of
// repeated members replaces the earlier ones completely. A value of the wrong type does not prevent the scanner from
// reading the others.

// scanner reads JSON from left to right. After an error it treats the rest as read.
type scanner struct {
	data  []byte
	at    int
	depth int
	// under is the prefix of field names in errors.
	under string
	// broken says that the data is not JSON. offset is the position of the error.
	broken bool
	offset int
	// wrong is the first value of the wrong type.
	wrong *wrongType
	// entries counts the entries of all lists so far.
	entries int
}

// maxEntries is how many entries all lists of a body may have together: requests, hosts, agents, processes, files. An
// entry takes more memory than its text.
const maxEntries = 100_000

// wrongType is a value of the wrong type; the field is empty for the body itself.
type wrongType struct{ field, kind string }

// deepest is the deepest nesting of values, the same as in encoding/json.
const deepest = 10_000

// scan calls read for the one value in data. An error about a value of the wrong type has its path.
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

// Check returns nil if text is one JSON value, and else a *Misread with the position of the error.
func Check(text []byte) error {
	return scan(text, func(s *scanner) { s.value() })
}

// syntax describes the error that makes the data invalid JSON.
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

// next skips a byte if it is the next token.
func (s *scanner) next(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// object reads an object, or null. It calls member with the name of each member; member reads the value, and may
// overwrite an earlier value with that name. field is the name of the object in errors.
func (s *scanner) object(field string, member func(name []byte)) {
	if s.peek() != '{' {
		s.other(field)
		return
	}
	type misread struct {
		name  []byte
		value *wrongType
	}
	var misreads []misread // of the members that count so far
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

// below calls read with a prefix for the names of fields in errors.
func (s *scanner) below(prefix string, read func()) {
	outer := s.under
	s.under += prefix + "."
	read()
	s.under = outer
}

// array is object for an array; it calls element for each element.
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

// list reads the contents of two brackets.
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

// other reads a value of an unexpected type.
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
		_ = v.UnmarshalJSON(text) // UnmarshalJSON never fails
	}
}

// value reads any value, and returns its text.
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

// text skips a string.
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

// escape skips an escape except its last byte.
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

// number skips a number.
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

// skip skips a byte if it is exactly the next byte.
func (s *scanner) skip(c byte) bool {
	if s.at >= len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	return true
}

// digits skips digits, at least one.
func (s *scanner) digits() {
	from := s.at
	for s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' {
		s.at++
	}
	if s.at == from {
		s.fail()
	}
}
