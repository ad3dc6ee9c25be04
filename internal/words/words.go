// Package words holds what drover shows to people, in every language. The texts are files of gettext. The code knows
// the texts of console, states, causes and phrases by their names, and finds the others by their English form. Ids,
// states on the wire, commands and fields are not words: programs read them.
package words

import (
	"fmt"
	"strings"
)

// Text is one text, in every language. It may hold placeholders such as {n}. The zero Text is empty.
type Text struct{ group, name string }

// Lang is a language.
type Lang uint8

// The languages.
const (
	English Lang = iota
	Chinese
)

// In returns the text in a language. The arguments are names of placeholders and their values, by turns. The first call
// for a language reads a file, in about a millisecond.
func (t Text) In(l Lang, args ...any) string {
	text, known := t.find(l)
	if !known {
		text = t.name
	}
	if len(args) == 0 {
		return text
	}
	pairs := make([]string, 0, len(args))
	for i := 0; i+1 < len(args); i += 2 {
		pairs = append(pairs, fmt.Sprintf("{%v}", args[i]), fmt.Sprint(args[i+1]))
	}
	return strings.NewReplacer(pairs...).Replace(text) // once, so that a value can hold what looks like a placeholder
}

// Plain is a text that is the same in every language, such as a name.
func Plain(text string) Text { return Text{name: text} }

// Tag is the language in HTML.
func (l Lang) Tag() string {
	if l == Chinese {
		return "zh-CN"
	}
	return "en"
}

// Preferred returns the language for an Accept-Language header: the first language in it that drover has. Qualities are
// not compared, because browsers write the best language first.
func Preferred(header string) Lang {
	for part := range strings.SplitSeq(header, ",") {
		tag, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(part)), ";")
		switch {
		case tag == "zh" || strings.HasPrefix(tag, "zh-"):
			return Chinese
		case tag == "en" || strings.HasPrefix(tag, "en-"):
			return English
		}
	}
	return English
}

// ByTag returns the language of a tag of Tag; ok is false for another tag.
func ByTag(tag string) (l Lang, ok bool) {
	switch tag {
	case English.Tag():
		return English, true
	case Chinese.Tag():
		return Chinese, true
	}
	return English, false
}

// OfLocale returns the language of a locale as LANG gives it (locale(7)), such as zh_CN.UTF-8. It is English unless
// drover has the language, and unless the locale can show it: the output of drover is UTF-8.
func OfLocale(locale string) Lang {
	locale, _, _ = strings.Cut(strings.ToLower(locale), "@")
	tag, charset, named := strings.Cut(locale, ".")
	if named && strings.ReplaceAll(charset, "-", "") != "utf8" {
		return English
	}
	return Preferred(strings.ReplaceAll(tag, "_", "-"))
}
