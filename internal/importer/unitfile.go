package importer

import (
	"fmt"
	"strings"
)

// setting is one assignment of a unit.
type setting struct{ section, key, value string }

// parseUnit reads the assignments of a unit and its drop-ins, in order (systemd.syntax(7)). A line that is no
// assignment is returned as a fault.
func parseUnit(files []Text) (all []setting, faults []string) {
	for _, f := range files {
		section := ""
		for _, line := range unitLines(string(f.Data)) {
			key, value, ok := strings.Cut(line.text, "=")
			switch {
			case strings.HasPrefix(line.text, "[") && strings.HasSuffix(line.text, "]"):
				section = strings.Trim(line.text, "[]")
			case !ok:
				faults = append(faults, fmt.Sprintf("%s:%d is not an assignment", f.Path, line.number))
			default:
				all = append(all, setting{section, strings.TrimSpace(key), strings.TrimSpace(value)})
			}
		}
	}
	return all, faults
}

type unitLine struct {
	number int
	text   string
}

// unitLines joins continued lines and drops comments, also those between continued lines.
func unitLines(text string) (all []unitLine) {
	number, open := 0, false
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") || line == "" && !open {
			continue
		}
		part, more := strings.CutSuffix(line, `\`)
		if open {
			last := &all[len(all)-1]
			last.text = strings.TrimSpace(last.text + " " + part)
		} else {
			all = append(all, unitLine{number, part})
		}
		open = more
	}
	return all
}

// between is the word that splitWords returns for a ; of its own, which separates two commands.
const between = "\x00"

// splitWords splits a value as systemd does: at white space, with quotes and C escapes.
func splitWords(text string) (words []string, err error) {
	var word strings.Builder
	quote, begun := byte(0), false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text):
			n, piece := unescape(text[i+1:])
			word.WriteString(piece)
			begun = true
			i += n
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, begun = c, true
		case c == ';' && !begun && (i+1 == len(text) || text[i+1] == ' '):
			words = append(words, between)
		case c == ' ' || c == '\t' || c == '\n':
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("has a %c without its end", quote)
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// unescape reads what follows a backslash, and returns its length and its meaning.
func unescape(text string) (n int, meaning string) {
	simple := map[byte]string{
		'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v", 's': " ",
		'\\': `\`, '"': `"`, '\'': "'", ';': ";", ' ': " ",
	}
	if meaning, ok := simple[text[0]]; ok {
		return 1, meaning
	}
	for _, form := range []struct {
		lead         byte
		base, digits int
	}{{'x', 16, 2}, {'u', 16, 4}, {'U', 16, 8}} {
		if text[0] == form.lead && len(text) > form.digits {
			if r, ok := code(text[1:1+form.digits], form.base); ok {
				if form.lead == 'x' {
					return 1 + form.digits, string([]byte{byte(r)})
				}
				return 1 + form.digits, string(r)
			}
		}
	}
	if len(text) >= 3 {
		if r, ok := code(text[:3], 8); ok && r < 256 {
			return 3, string([]byte{byte(r)})
		}
	}
	return 1, `\` + text[:1]
}
