package words

import (
	"regexp"

	"drover/internal/words/gettext"
)

// The descriptions of flags and of the fields of a process file, and the heads of tables, by their English form.
//
//nolint:gochecknoglobals // they never change
var (
	flagFile   = patternsOf("flags/zh_CN.po")
	fieldFile  = open("fields/zh_CN.po")
	columnFile = open("columns/zh_CN.po")
)

// Flag returns what the help says of a flag, in a language; ok is false if the catalogue does not have the text.
func Flag(english string, l Lang) (text string, ok bool) {
	if l == English {
		return english, true
	}
	return translate(english, 1, func(yield func(*pattern) bool) { groups(flagFile, yield, "flag") })
}

// byDefault is how package pflag ends the line of a flag that has a default.
var byDefault = regexp.MustCompile(`(?m) \(default ([^()]*)\)$`)

// Defaults puts the defaults at the ends of lines of a help into a language.
func Defaults(help string, l Lang) string {
	if l == English {
		return help
	}
	return byDefault.ReplaceAllString(help, "（默认 $1）")
}

// Field returns a text about a field of a process file in a language; ok is false if the catalogue does not have it.
func Field(english string, l Lang) (text string, ok bool) {
	if l == English {
		return english, true
	}
	if text, ok = fieldFile().Text(gettext.Key{Context: "field", ID: english}); !ok {
		text = english
	}
	return text, ok
}

// Column returns the head of a column or the name of a field in a language.
func Column(english string, l Lang) string {
	if l == English {
		return english
	}
	if text, ok := columnFile().Text(gettext.Key{Context: "column", ID: english}); ok {
		return text
	}
	return english
}
