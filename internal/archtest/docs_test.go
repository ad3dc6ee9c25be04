package archtest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
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
