package archtest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// documents returns the paths, below the module, of the Markdown files of the repository.
func documents(t *testing.T) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(root(), func(place string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && slices.Contains([]string{".git", "bin", "dist", "testdata"}, e.Name()):
			return filepath.SkipDir
		case filepath.Ext(place) == ".md":
			doc, err := filepath.Rel(root(), place)
			list = append(list, doc)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 30 {
		t.Fatalf("only %d documents were found", len(list))
	}
	return list
}

// TestNotesOfChangesHaveAKind: tools/release.sh puts each note below the heading of its kind.
func TestNotesOfChangesHaveAKind(t *testing.T) {
	kind := regexp.MustCompile(`^(Added|Changed|Fixed|Removed|Security): .`)
	for _, doc := range documents(t) {
		if !strings.HasPrefix(doc, "changes/unreleased/") {
			continue
		}
		if text, err := os.ReadFile(filepath.Join(root(), doc)); err != nil || !kind.Match(text) {
			t.Errorf("%s: %v; expected the first line to match %s", doc, err, kind)
		}
	}
}

// TestEveryPageIsListed: docs/README.md leads to each page beside it, so that a reader finds the page in one place.
func TestEveryPageIsListed(t *testing.T) {
	for _, dir := range []string{"docs", "docs/zh"} {
		list, err := os.ReadFile(filepath.Join(root(), dir, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		pages, err := filepath.Glob(filepath.Join(root(), dir, "*.md"))
		if err != nil || len(pages) < 10 {
			t.Fatalf("%s: %d pages, %v", dir, len(pages), err)
		}
		for _, page := range pages {
			name := filepath.Base(page)
			if name != "README.md" && !strings.Contains(string(list), "("+name+")") {
				t.Errorf("%s/README.md has no link to %s", dir, name)
			}
		}
	}
}

// TestPathsInDocumentsExist: a document names no file, directory or page that is not in the repository.
func TestPathsInDocumentsExist(t *testing.T) {
	named := regexp.MustCompile("`(" + strings.Join(tops(t), "|") + ")(/[^`\\s]*)?`")
	linked := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)
	checked := 0
	for _, doc := range documents(t) {
		text, err := os.ReadFile(filepath.Join(root(), doc))
		if err != nil {
			t.Fatal(err)
		}
		check := func(shown, place string) {
			checked++
			if found, err := filepath.Glob(filepath.Join(root(), place)); err != nil || len(found) == 0 {
				t.Errorf("%s names %s, which does not exist", doc, shown)
			}
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if !strings.ContainsAny(m[0], "<>{}$=:") && strings.ToUpper(m[2]) != m[2] || m[2] == "" {
				check(m[0], m[1]+strings.TrimSuffix(m[2], "/"))
			}
		}
		for _, m := range linked.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(m[1], ":") {
				check(m[1], path.Join(path.Dir(doc), m[1]))
			}
		}
	}
	if checked < 200 {
		t.Errorf("only %d paths were found", checked)
	}
}

// TestAnchorsInDocumentsExist: a link to a part of a page names a heading of that page.
func TestAnchorsInDocumentsExist(t *testing.T) {
	linked := regexp.MustCompile(`\]\(([^)#:\s]*)#([^)\s]+)\)`)
	checked := 0
	for _, doc := range documents(t) {
		for _, m := range linked.FindAllStringSubmatch(prose(t, doc), -1) {
			page := doc
			if m[1] != "" {
				page = path.Join(path.Dir(doc), m[1])
			}
			if checked++; path.Ext(page) == ".md" && !slices.Contains(anchors(prose(t, page)), m[2]) {
				t.Errorf("%s has a link to %s#%s, but no heading of that page has this anchor", doc, page, m[2])
			}
		}
	}
	if checked < 200 {
		t.Errorf("only %d anchors were found", checked)
	}
}

// prose returns a document without its blocks of code.
func prose(t *testing.T, doc string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(), doc))
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile("(?ms)^ *```.*?^ *```").ReplaceAllString(string(text), "")
}

// anchors returns the anchors that GitHub gives the headings of a page: lower case, no punctuation, hyphens for spaces.
func anchors(text string) []string {
	link, dropped := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`), regexp.MustCompile(`[^\pL\pN _-]`)
	var list []string
	times := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^#{1,6} (.*)`).FindAllStringSubmatch(text, -1) {
		name := dropped.ReplaceAllString(strings.ToLower(link.ReplaceAllString(m[1], "$1")), "")
		name = strings.ReplaceAll(name, " ", "-")
		if times[name]++; times[name] > 1 {
			name += "-" + strconv.Itoa(times[name]-1)
		}
		list = append(list, name)
	}
	return list
}

// tops returns the directories at the top of the module, as regular expressions.
func tops(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(root())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "bin" && e.Name() != "dist" && e.Name() != ".git" {
			names = append(names, regexp.QuoteMeta(e.Name()))
		}
	}
	return slices.Compact(names)
}
