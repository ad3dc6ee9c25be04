// Package help holds the help of the commands of drover, a file of gettext for each language. It knows no command.
package help

import (
	"cmp"
	_ "embed" // the files
	"slices"
	"strings"
	"sync"

	"drover/internal/words"
	"drover/internal/words/gettext"
)

// The kinds of the texts of a command.
const (
	// Short is the line about the command in a list of commands.
	Short = "short"
	// Long describes the command. A command without it is described by Short.
	Long = "long"
	// Example shows calls of the command.
	Example = "example"
	// Group begins the kinds of the titles of groups of commands; the id of the group follows.
	Group = "group "
)

// The contexts of the texts that belong to no command.
const (
	shared   = "shared"
	headings = "headings"
)

//go:embed en.po
var english string

//go:embed zh_CN.po
var chinese string

// Texts are the help in one language. Any number of goroutines may read them.
type Texts struct {
	file   *gettext.File
	shared *strings.Replacer
}

// files are read once each, and only if somebody asks for help.
//
//nolint:gochecknoglobals // they never change
var files = map[words.Lang]func() *Texts{
	words.English: sync.OnceValue(func() *Texts { return read(english) }),
	words.Chinese: sync.OnceValue(func() *Texts { return read(chinese) }),
}

// In returns the help in a language. The first call for a language reads its file, in about a millisecond.
func In(l words.Lang) *Texts { return files[l]() }

func read(content string) *Texts {
	t := &Texts{file: gettext.Read(content)}
	var pairs []string
	for _, key := range t.file.Keys() {
		if text, _ := t.file.Text(key); key.Context == shared {
			pairs = append(pairs, "{"+key.ID+"}", text)
		}
	}
	t.shared = strings.NewReplacer(pairs...)
	return t
}

// Of returns a text of the command with a path, such as "drover apply". ok is false if the command has no text of that
// kind.
func (t *Texts) Of(path, kind string) (text string, ok bool) {
	text, ok = t.file.Text(gettext.Key{Context: path, ID: kind})
	return strings.ReplaceAll(t.shared.Replace(text), "{command}", path), ok
}

// Headings returns a template of package cobra for the help of a command with its headings in the language.
func (t *Texts) Headings(template string) string {
	var found []string
	for _, key := range t.file.Keys() {
		if key.Context == headings {
			found = append(found, key.ID)
		}
	}
	// The longest comes first, because one heading may be the end of another one.
	slices.SortFunc(found, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	for _, heading := range found {
		text, _ := t.file.Text(gettext.Key{Context: headings, ID: heading})
		template = strings.ReplaceAll(template, heading, text)
	}
	return template
}
