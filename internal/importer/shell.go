package importer

import (
	"regexp"
	"strings"
)

// piece is a part of a word: literal text, or the value of a variable. split says that the value becomes several words.
type piece struct {
	text     string
	variable bool
	split    bool
}

// bare is the form of words that mean the same to a shell without quotes.
var bare = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted is a literal as a word of a shell.
func quoted(text string) string {
	switch {
	case bare.MatchString(text):
		return text
	case !strings.Contains(text, "'"):
		return "'" + text + "'"
	}
	return `"` + inDouble(text) + `"`
}

// inDouble is a literal between double quotes.
func inDouble(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(text)
}

// shellWord is a word with variables as a shell reads it.
func shellWord(pieces []piece) string {
	if len(pieces) == 1 && pieces[0].split {
		return "$" + pieces[0].text
	}
	var literal, double strings.Builder
	variable := false
	for _, p := range pieces {
		if p.variable {
			variable = true
			double.WriteString("${" + p.text + "}")
			continue
		}
		literal.WriteString(p.text)
		double.WriteString(inDouble(p.text))
	}
	if !variable {
		return quoted(literal.String())
	}
	return `"` + double.String() + `"`
}

// shellLine joins words to a command line, and reports whether a variable becomes several words.
func shellLine(words [][]piece) (line string, splits bool) {
	var all []string
	for _, w := range words {
		all = append(all, shellWord(w))
		splits = splits || len(w) == 1 && w[0].split
	}
	return strings.Join(all, " "), splits
}
