// Package clip shortens texts to a number of bytes. It never cuts inside a character.
package clip

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

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

// Ends joins the begin and the end of an output. If between is not 0, it says how many bytes are left out between them.
// The text is valid UTF-8, without NULs and without newlines at its end.
func Ends(head []byte, between int64, tail []byte) string {
	text := append(bytes.Clone(head), tail...)
	if between > 0 {
		head, tail = wholeRunes(head, tail)
		text = fmt.Appendf(bytes.Clone(head), "\n[... %d bytes left out ...]\n%s", between, tail)
	}
	s := strings.ToValidUTF8(string(bytes.ReplaceAll(text, []byte{0}, nil)), "\uFFFD")
	return strings.TrimRight(s, "\r\n")
}

// wholeRunes removes half a character from the end of head and the start of tail.
func wholeRunes(head, tail []byte) (h, t []byte) {
	for i := 1; i <= min(utf8.UTFMax-1, len(head)); i++ {
		if last := head[len(head)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				head = head[:len(head)-i]
			}
			break
		}
	}
	for i := 0; i < min(utf8.UTFMax-1, len(tail)); i++ {
		if utf8.RuneStart(tail[i]) {
			tail = tail[i:]
			break
		}
	}
	return head, tail
}
