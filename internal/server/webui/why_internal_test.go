package webui

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	pages "drover/docs/why"
	zhpages "drover/docs/zh/why"
)

func TestBlocks(t *testing.T) {
	text := "# A title [x]\n\nOne line\nand `code`; see [a page](../a.md).\n\n## A heading\n\n```\nls -l `x`\n\npwd\n```\n\n" +
		"- one `two`\n  three\n- four\n"
	want := []block{
		{Kind: "title", Spans: []span{{"A title [x]", false}}},
		{Kind: "text", Spans: []span{{"One line and ", false}, {"code", true}, {"; see a page.", false}}},
		{Kind: "heading", Spans: []span{{"A heading", false}}},
		{Kind: "code", Code: "ls -l `x`\n\npwd"},
		{Kind: "list", Items: [][]span{{{"one ", false}, {"two", true}, {" three", false}}, {{"four", false}}}},
	}
	if d := cmp.Diff(want, blocks(text)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestPagesOfCausesAreRead: no sign of Markdown is left on the page of a cause.
func TestPagesOfCausesAreRead(t *testing.T) {
	for _, id := range pages.List() {
		english, _ := pages.Page(id)
		for _, text := range []string{english, zhpages.Page(id)} {
			all := blocks(text)
			if len(all) < 9 || all[0].Kind != "title" {
				t.Errorf("%s: %d parts, the first is a %s", id, len(all), all[0].Kind)
			}
			for _, b := range all {
				for _, s := range append([][]span{b.Spans}, b.Items...) {
					for _, piece := range s {
						if strings.ContainsAny(piece.Text, "`#") && !piece.Code || strings.Contains(piece.Text, "](") {
							t.Errorf("%s shows %q", id, piece.Text)
						}
					}
				}
			}
		}
	}
}

// TestTemplatesHoldNoWords: each text of a page comes from the catalogue, which has it in every language.
func TestTemplatesHoldNoWords(t *testing.T) {
	action := regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	tag := regexp.MustCompile(`(?s)<(code|kbd)[^>]*>.*?</(code|kbd)>|<[^>]*>|&[a-z]+;`)
	shown := regexp.MustCompile(`(?:title|aria-label|alt)="([^"{]*\pL[^"]*)"`)
	letters := regexp.MustCompile(`\pL+`)
	same := []string{"drover", "English", "中文", "signal", "OOM", "ID", "CSV", "agent", "proxy"} // in every language
	err := fs.WalkDir(pageFiles, "pages", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(pageFiles, path)
		text := string(data)
		for _, m := range shown.FindAllStringSubmatch(action.ReplaceAllString(text, ""), -1) {
			t.Errorf("%s shows %s", path, m[0])
		}
		for _, word := range letters.FindAllString(tag.ReplaceAllString(action.ReplaceAllString(text, " "), " "), -1) {
			if !slices.Contains(same, word) {
				t.Errorf("%s holds %q, which is not in the catalogue", path, word)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
