// Package why holds the pages about causes, so that the command line can show them where the documents are not at hand.
package why

import (
	"embed"
	"strings"
)

//go:embed *.md
var pages embed.FS

// List returns the causes that have a page, in the order of their names.
func List() []string {
	files, err := pages.ReadDir(".")
	if err != nil { // it is part of the program
		return nil
	}
	var ids []string
	for _, f := range files {
		if id := strings.TrimSuffix(f.Name(), ".md"); id != "README" {
			ids = append(ids, id)
		}
	}
	return ids
}

// Page returns the page about a cause, as Markdown.
func Page(id string) (text string, ok bool) {
	if id == "README" {
		return "", false
	}
	data, err := pages.ReadFile(id + ".md")
	return string(data), err == nil
}
