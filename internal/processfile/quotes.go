package processfile

import (
	"strings"
)

// quotes checks that each quote of the command lines has its end. Callers of GSE and JOB may send any line.
func (c *checker) quotes() {
	if c.Compat != nil {
		return
	}
	for _, l := range c.commandLines() {
		switch openQuote(l.text) {
		case '\'':
			c.fault(l.field, "has a single quote (') without an end")
		case '"':
			c.fault(l.field, `has a double quote (") without an end`)
		}
	}
}

// openQuote returns the quote of a command line that has no end, or 0. It also returns 0 for a line of which only a
// shell can tell: with a here-document, or with an expansion in double quotes.
func openQuote(line string) rune {
	quote, before := rune(0), ' '
	escaped, comment := false, false
	for i, c := range line {
		switch rest := line[i:]; {
		case comment:
			comment = c != '\n'
		case escaped:
			escaped = false
		case quote == '\'' || c == quote:
			if c == quote {
				quote = 0
			}
		case c == '\\':
			escaped = true
		case quote == '"':
			if c == '`' || strings.HasPrefix(rest, "$(") || strings.HasPrefix(rest, "${") {
				return 0
			}
		case strings.HasPrefix(rest, "<<"), strings.HasPrefix(rest, "$'"), strings.HasPrefix(rest, "${"):
			return 0
		case c == '\'' || c == '"':
			quote = c
		case c == '#':
			comment = strings.ContainsRune(" \t\n;&|()", before)
		}
		before = c
	}
	return quote
}
