package words

import "regexp"

// descriptionFile has the descriptions of flags and of the fields of a process file.
//
//nolint:gochecknoglobals // it never changes
var descriptionFile = patternsOf("descriptions/zh_CN.po")

// Flag returns what the help says of a flag, in a language; ok is false if the catalogue does not have the text.
func Flag(english string, l Lang) (text string, ok bool) {
	if l == English {
		return english, true
	}
	return translate(english, 1, descriptionFile()["flag"])
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
	return exactly(english, descriptionFile()["field"])
}
