package words

import (
	"embed"
	"reflect"
	"slices"
	"sync"

	"drover/internal/words/gettext"
)

// files are the texts, files of gettext.
//
//go:embed descriptions messages named sentences
var files embed.FS

// content returns one of the files.
func content(path string) string {
	data, err := files.ReadFile(path)
	if err != nil {
		panic(err) // a test reads each file
	}
	return string(data)
}

// catalogues are the texts with names, by language. Each file is read once, and only if somebody asks for a text of it.
//
//nolint:gochecknoglobals // they never change
var catalogues = [...]func() map[gettext.Key]string{
	English: sync.OnceValue(func() map[gettext.Key]string { return gettext.Read(content("named/en.po")) }),
	Chinese: sync.OnceValue(func() map[gettext.Key]string { return gettext.Read(content("named/zh_CN.po")) }),
}

// find returns the text in a language; known is false if the catalogue does not have it.
func (t Text) find(l Lang) (text string, known bool) {
	text, known = catalogues[l]()[gettext.Key{Context: t.group, ID: t.name}]
	return text, known
}

// known reports whether the catalogue has the text.
func (t Text) known() bool {
	_, known := t.find(English)
	return known
}

// named returns the texts of a group in a struct, in which each field is the name of a text.
func named[T any](group string) (texts T) {
	fields := reflect.ValueOf(&texts).Elem()
	for i := range fields.NumField() {
		fields.Field(i).Set(reflect.ValueOf(Text{group, fields.Type().Field(i).Name}))
	}
	return texts
}

// IDs returns the ids of a group of texts, such as "state", "kind" or "action", in their alphabetical order.
func IDs(group string) []string {
	var all []string
	for key := range catalogues[English]() {
		if key.Context == group {
			all = append(all, key.ID)
		}
	}
	slices.Sort(all)
	return all
}
