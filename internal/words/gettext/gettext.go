// Package gettext reads the texts of one language from a file of gettext (PO). It knows neither languages nor what the
// texts are for.
package gettext

import (
	"strconv"
	"strings"

	"github.com/leonelquinteros/gotext"
)

// Key names a text of a file.
type Key struct {
	// Context says where the text stands (msgctxt).
	Context string
	// ID names the text there (msgid).
	ID string
}

// File holds the texts of a file. Any number of goroutines may read them.
type File struct {
	content string
	texts   *gotext.Po
}

// Read reads the content of a file, about 50 kB in a millisecond. It skips a line that it cannot read. A text in
// several plural forms is the first of them, and the last of several texts with one key counts. A test of the file
// looks for these faults.
func Read(content string) *File {
	f := &File{content, gotext.NewPo()}
	f.texts.Parse([]byte(content))
	return f
}

// Text returns the text with a key (msgstr); ok is false if the file lacks it, or if it is empty.
func (f *File) Text(key Key) (text string, ok bool) {
	if !f.texts.IsTranslatedC(key.ID, key.Context) {
		return "", false
	}
	return f.texts.GetC(key.ID, key.Context), true
}

// Keys returns the keys of the file in its order, without that of the header.
func (f *File) Keys() (all []Key) {
	var key Key
	var part *string // what a line in quotes continues
	for line := range strings.Lines(f.content) {
		word, quoted, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "msgctxt":
			part = &key.Context
		case word == "msgid":
			part = &key.ID
		case strings.HasPrefix(word, "msgstr") && key.ID != "":
			all = append(all, key)
			key, part = Key{}, nil
		case strings.HasPrefix(word, `"`):
			quoted = strings.TrimSpace(line)
		default:
			part = nil
		}
		if part != nil {
			text, _ := strconv.Unquote(strings.TrimSpace(quoted))
			*part += text
		}
	}
	return all
}
