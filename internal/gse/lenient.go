package gse

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"drover/internal/clip"
)

// Callers send numbers as strings, strings as numbers, and null for anything. The types below accept all of that. They
// never fail, because one unreadable value must not spoil a request with a thousand others. They mark the value as
// bad; the code that knows the field's name and its keys reports it.

type presence uint8

const (
	absent presence = iota // missing or null
	given
	bad
)

// shownBytes bounds how much of an unreadable value the sender sees.
const shownBytes = 40

// lenient is a value of a request, or the reason why there is none.
type lenient[T any] struct {
	value T
	state presence
	raw   string
}

// read parses the text of a scalar. The empty string counts as absent.
func (v *lenient[T]) read(data []byte, parse func(text string) (T, bool)) {
	*v = lenient[T]{}
	text, state := scalarText(data)
	if state == given {
		if text = strings.TrimSpace(text); text == "" {
			return
		}
		value, ok := parse(text)
		if ok {
			v.value, v.state = value, given
			return
		}
		state = bad
	}
	v.state, v.raw = state, shown(data)
}

// fault says that the field is unreadable; nil if it is readable or absent.
func (v lenient[T]) fault(field string) error {
	if v.state != bad {
		return nil
	}
	switch any(v.value).(type) {
	case string:
		return misreadf("%s is not a string: %s", field, v.raw)
	case int64:
		return misreadf("%s is not an integer: %s", field, v.raw)
	default:
		return misreadf("%s is not a number: %s", field, v.raw)
	}
}

// required is fault for a required field.
func (v lenient[T]) required(field string) error {
	if v.state == absent {
		return missing(field)
	}
	return v.fault(field)
}

// Int reads an integer: a number, a number with an integral fraction part, or either in a string. The empty string
// counts as absent.
type Int struct{ lenient[int64] }

// UnmarshalJSON always returns nil.
func (v *Int) UnmarshalJSON(data []byte) error {
	v.read(data, parseInt)
	return nil
}

// Float reads a finite number, or one in a string. The empty string counts as absent.
type Float struct{ lenient[float64] }

// UnmarshalJSON always returns nil.
func (v *Float) UnmarshalJSON(data []byte) error {
	v.read(data, parseFloat)
	return nil
}

// Str reads a string, or the text of a number or a boolean.
type Str struct{ lenient[string] }

// UnmarshalJSON always returns nil.
func (v *Str) UnmarshalJSON(data []byte) error {
	*v = Str{}
	v.value, v.state = scalarText(data)
	if v.state == bad {
		v.raw = shown(data)
	}
	return nil
}

// Text returns the string, or "" when it is absent or cannot be read.
func (v Str) Text() string { return v.value }

// scalarText returns the text of a JSON scalar; state is absent for null and bad for an object or an array.
func scalarText(data []byte) (text string, state presence) {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0 || bytes.Equal(data, []byte("null")):
		return "", absent
	case data[0] == '{' || data[0] == '[':
		return "", bad
	case data[0] == '"':
		if text, ok := plainText(data); ok {
			return text, given
		}
		if err := json.Unmarshal(data, &text); err != nil {
			return "", bad
		}
		return text, given
	default:
		return string(data), given
	}
}

// plainText returns the text of a JSON string with ASCII only and without escapes, as most strings are: such a text
// needs no decoding.
func plainText(data []byte) (string, bool) {
	if len(data) < 2 || data[len(data)-1] != '"' {
		return "", false
	}
	inner := data[1 : len(data)-1]
	for _, c := range inner {
		if c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return "", false
		}
	}
	return string(inner), true
}

func parseInt(text string) (int64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	// A float holds integers exactly only up to 2^53; above that, a fraction would be lost.
	f, ok := parseFloat(text)
	return int64(f), ok && f == math.Trunc(f) && math.Abs(f) < 1<<53
}

// parseFloat accepts only JSON's grammar of numbers, which has no infinity, hexadecimal or underscore.
func parseFloat(text string) (float64, bool) {
	if text == "" || (text[0] != '-' && (text[0] < '0' || text[0] > '9')) || !json.Valid([]byte(text)) {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

func shown(data []byte) string {
	if len(data) <= shownBytes {
		return string(data)
	}
	return clip.Head(string(data[:shownBytes+1]), shownBytes) + "…"
}
