package words

import (
	"embed"
	"reflect"
	"slices"
	"sync"

	"drover/internal/words/gettext"
)

// contents are the texts, files of gettext.
//
//go:embed causes columns console faults fields flags messages phrases sentences states
var contents embed.FS

// open returns a function that reads one of the files once, and only if somebody asks for a text of it.
func open(path string) func() *gettext.File {
	return sync.OnceValue(func() *gettext.File {
		content, err := contents.ReadFile(path)
		if err != nil {
			panic(err) // a test reads each file
		}
		return gettext.Read(string(content))
	})
}

// The files of the texts with names, by languages.
//
//nolint:gochecknoglobals // they never change
var (
	consoleFiles = [...]func() *gettext.File{English: open("console/en.po"), Chinese: open("console/zh_CN.po")}
	stateFiles   = [...]func() *gettext.File{English: open("states/en.po"), Chinese: open("states/zh_CN.po")}
	phraseFiles  = [...]func() *gettext.File{English: open("phrases/en.po"), Chinese: open("phrases/zh_CN.po")}
	causeFiles   = [...]func() *gettext.File{English: open("causes/en.po"), Chinese: open("causes/zh_CN.po")}
)

// fileOf returns the file of a group of texts in a language.
func fileOf(group string, l Lang) *gettext.File {
	switch group {
	case "state", "kind", "actor", "operation", "action":
		return stateFiles[l]()
	case "cause", "remedy":
		return causeFiles[l]()
	case "explained", "span", "phrase":
		return phraseFiles[l]()
	}
	return consoleFiles[l]()
}

// find returns the text in a language; known is false if no file has it.
func (t Text) find(l Lang) (text string, known bool) {
	if t.group == "" {
		return "", false
	}
	return fileOf(t.group, l).Text(gettext.Key{Context: t.group, ID: t.name})
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
	for _, key := range fileOf(group, English).Keys() {
		if key.Context == group {
			all = append(all, key.ID)
		}
	}
	slices.Sort(all)
	return all
}
