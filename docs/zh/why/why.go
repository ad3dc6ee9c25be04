// Package why holds the Chinese pages about causes. Package drover/docs/why holds the English ones.
package why

import (
	"embed"
	"strings"
)

//go:embed *.md
var pages embed.FS

// Page returns the page about a cause, as Markdown, without the line that names its English source. It is empty if
// there is no such page.
func Page(id string) string {
	data, err := pages.ReadFile(id + ".md")
	if err != nil {
		return ""
	}
	_, text, _ := strings.Cut(string(data), "\n")
	return text
}
