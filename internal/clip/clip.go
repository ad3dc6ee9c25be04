// Package clip shortens texts to a number of bytes. It never cuts inside a character.
package clip

import "strings"

// Head returns the first bytes of a text, at most so many. A text that fits is returned unchanged; otherwise bytes that
// are not valid UTF-8 are left out.
func Head(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// Tail returns the last bytes of a text, at most so many, by the rules of Head.
func Tail(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-most:], "")
}

// Marked returns the Head of a text, followed by a mark if it is not the whole text.
func Marked(text string, most int, mark string) string {
	if len(text) <= most {
		return text
	}
	return Head(text, most) + mark
}
