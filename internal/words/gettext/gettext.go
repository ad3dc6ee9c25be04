// Package gettext reads the texts of one language from a file of gettext (PO). It knows neither languages nor what the
// texts are for.
package gettext

import (
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
