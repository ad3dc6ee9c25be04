// Package colour reads the escape sequences in what processes write. Of these, only those of colours (SGR: select
// graphic rendition, ECMA-48 8.3.117) are for people; all others would steer a terminal.
package colour

import (
	"bytes"
	"strings"
)

const (
	escape = 0x1b
	bell   = 0x07
	// mostParameters is how many bytes of parameters an SGR sequence has at most.
	mostParameters = 64
	// mostText is how long a sequence with text may be, such as the title of a window. A longer one ends there.
	mostText = 4 << 10
)

// Strip returns a text without escape sequences. It returns the text itself if it has none.
func Strip(text []byte) []byte {
	if bytes.IndexByte(text, escape) < 0 {
		return text
	}
	out := make([]byte, 0, len(text))
	for _, p := range split(text) {
		out = append(out, p.text...)
	}
	return out
}

// StripString is Strip for a string.
func StripString(text string) string {
	if strings.IndexByte(text, escape) < 0 {
		return text
	}
	return string(Strip([]byte(text)))
}

// Part is a piece of a text. SGR is the parameters of the SGR sequence before it, such as "1;32"; Set tells whether
// there is one: without parameters it resets all colours.
type Part struct {
	SGR  string
	Set  bool
	Text string
}

// Split returns the pieces of a text between its SGR sequences. Other sequences are left out.
func Split(text string) (parts []Part) {
	if strings.IndexByte(text, escape) < 0 {
		return []Part{{Text: text}}
	}
	for _, p := range split([]byte(text)) {
		if n := len(parts); n > 0 && !p.set {
			parts[n-1].Text += string(p.text)
			continue
		}
		parts = append(parts, Part{SGR: string(p.sgr), Set: p.set, Text: string(p.text)})
	}
	return parts
}

type part struct {
	sgr  []byte
	set  bool
	text []byte
}

func split(text []byte) (parts []part) {
	var next part
	for {
		i := bytes.IndexByte(text, escape)
		if i < 0 {
			next.text = text
			return append(parts, next)
		}
		next.text = text[:i]
		parts = append(parts, next)
		n, sgr, set := sequence(text[i:])
		next = part{sgr: sgr, set: set}
		text = text[i+n:]
	}
}

// sequence returns the length of the escape sequence at the begin of a text, and the parameters of an SGR sequence.
func sequence(text []byte) (length int, sgr []byte, set bool) {
	if len(text) < 2 {
		return len(text), nil, false
	}
	switch kind := text[1]; {
	case kind == '[':
		for i := 2; i < len(text); i++ {
			switch c := text[i]; {
			case c >= 0x40 && c <= 0x7e:
				if sgr = text[2:i]; c == 'm' && len(sgr) <= mostParameters && isSGR(sgr) {
					return i + 1, sgr, true
				}
				return i + 1, nil, false
			case c < 0x20 || c > 0x7e: // it breaks off
				return i, nil, false
			}
		}
		return len(text), nil, false
	case kind == ']' || kind == 'P' || kind == 'X' || kind == '^' || kind == '_': // a text follows, up to BEL or ESC \
		for i := 2; i < min(len(text), mostText); i++ {
			if text[i] == bell {
				return i + 1, nil, false
			}
			if text[i] == escape {
				if i+1 < len(text) && text[i+1] == '\\' {
					return i + 2, nil, false
				}
				return i, nil, false
			}
		}
		return min(len(text), mostText), nil, false
	case kind >= 0x20 && kind <= 0x2f: // intermediate bytes, then a final one
		i := 2
		for i < len(text) && text[i] >= 0x20 && text[i] <= 0x2f {
			i++
		}
		if i < len(text) && text[i] >= 0x30 && text[i] <= 0x7e {
			i++
		}
		return i, nil, false
	case kind >= 0x30 && kind <= 0x7e:
		return 2, nil, false
	}
	return 1, nil, false
}

// isSGR reports whether parameters are digits with ; and : between them.
func isSGR(parameters []byte) bool {
	for _, c := range parameters {
		if (c < '0' || c > '9') && c != ';' && c != ':' {
			return false
		}
	}
	return true
}
