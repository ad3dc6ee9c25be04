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
	// Context says where the text stands (msgctxt); empty if the entry has none.
	Context string
	// ID names the text there (msgid).
	ID string
}

// Read returns the texts of a file (msgstr) by their keys, without the header. It skips a line that it cannot read, and
// a text in several plural forms is the first of them. The last of several texts with one key counts: a test of the
// file looks for these faults.
func Read(file string) map[Key]string {
	po := gotext.NewPo()
	po.Parse([]byte(file))
	texts := map[Key]string{}
	add := func(context string, entries map[string]*gotext.Translation) {
		for id, entry := range entries {
			if id != "" { // the header, or what the library keeps of the beginning of an entry
				texts[Key{context, id}] = entry.Trs[0]
			}
		}
	}
	add("", po.GetDomain().GetTranslations())
	for context, entries := range po.GetDomain().GetCtxTranslations() {
		add(context, entries)
	}
	return texts
}

// Entry is a text of a file with its key.
type Entry struct {
	Key
	// Text is the text (msgstr).
	Text string
}

// List returns the texts of a file in its order. It is Read in all else, and an entry may hold comments, msgctxt, msgid
// and msgstr alone.
func List(file string) []Entry {
	texts := Read(file)
	all := make([]Entry, 0, len(texts))
	var key Key
	var part *string // what a line in quotes continues
	for line := range strings.Lines(file) {
		name, quoted, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case name == "msgctxt":
			key, part = Key{}, &key.Context
		case name == "msgid":
			key.ID, part = "", &key.ID
		case name == "msgstr":
			if key.ID != "" {
				all = append(all, Entry{key, texts[key]})
			}
			key, part = Key{}, nil
		case strings.HasPrefix(name, `"`):
			quoted = strings.TrimSpace(line)
		default:
			continue
		}
		if part != nil {
			text, _ := strconv.Unquote(strings.TrimSpace(quoted))
			*part += text
		}
	}
	return all
}
