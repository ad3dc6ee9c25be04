package words_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/words/gettext"
)

// TestFilesAreWhole: each file has the header that tools for translators need, no line that the library skips, each key
// once, and a text for each key.
func TestFilesAreWhole(t *testing.T) {
	paths, err := filepath.Glob("*/*.po")
	if err != nil || len(paths) < 16 {
		t.Fatalf("%v: only the files %q", err, paths)
	}
	line := regexp.MustCompile(`^(#.*|(msgctxt|msgid|msgstr) ".*"|".*"|)$`)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, language := string(data), strings.TrimSuffix(filepath.Base(path), ".po")
		for _, header := range []string{"Language: " + language, "Content-Type: text/plain; charset=UTF-8"} {
			if !strings.Contains(file, `"`+header+`\n"`) {
				t.Errorf("%s: the header lacks %q", path, header)
			}
		}
		lines := strings.Split(file, "\n")
		for i, text := range lines {
			if !line.MatchString(text) || strings.HasPrefix(text, "#,") || strings.HasPrefix(text, "#~") {
				t.Errorf("%s:%d: %q: expected msgctxt, msgid, msgstr, a text in quotes or a comment, no entry that is "+
					"fuzzy, obsolete or plural", path, i+1, text)
			}
		}
		n := checkEntries(t, path)
		// The header has no context, and each other entry has one.
		starts := func(word string) int {
			return len(slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.HasPrefix(l, word+" ") }))
		}
		if starts("msgctxt") != n || starts("msgid") != n+1 || starts("msgstr") != n+1 {
			t.Errorf("%s: %d texts, but %d contexts, %d ids and %d texts in its lines", path, n, starts("msgctxt"),
				starts("msgid")-1, starts("msgstr")-1)
		}
	}
}

// TestNamedFilesAgree: the files of the texts with names have the same texts in the same order.
func TestNamedFilesAgree(t *testing.T) {
	keys := func(path string) (all []gettext.Key) {
		for _, e := range read(t, path) {
			all = append(all, e.Key)
		}
		return all
	}
	for _, dir := range named() {
		if d := cmp.Diff(keys(dir+"/en.po"), keys(dir+"/zh_CN.po")); d != "" {
			t.Errorf("%s/zh_CN.po has other texts, or another order (-en.po +zh_CN.po):\n%s", dir, d)
		}
	}
}

// TestGroupsOfForms: drover looks for texts in these groups alone, so a text of another group would stay English.
func TestGroupsOfForms(t *testing.T) {
	for dir, want := range map[string][]string{
		"sentences": {"aside", "execution", "sentence"}, "faults": {"field fault", "file fault", "refusal"},
		"messages": {"doctor", "fault", "message", "place", "place alone"},
		"columns":  {"column"}, "flags": {"flag"}, "fields": {"field"},
	} {
		groups := map[string]bool{}
		for _, e := range read(t, dir+"/zh_CN.po") {
			groups[e.Context] = true
		}
		if d := cmp.Diff(want, slices.Sorted(maps.Keys(groups))); d != "" {
			t.Errorf("%s/zh_CN.po (-want +got):\n%s", dir, d)
		}
	}
}

// checkEntries: each key is there once and has a text. It returns the number of texts.
func checkEntries(t *testing.T, path string) int {
	t.Helper()
	seen := map[gettext.Key]bool{}
	for _, e := range read(t, path) {
		if seen[e.Key] {
			t.Errorf("%s: %v is there twice", path, e.Key)
		}
		seen[e.Key] = true
		if e.string == "" || strings.Trim(e.string, "\n") != e.string {
			t.Errorf("%s: %v is %q: expected a text that neither begins nor ends with an empty line", path, e.Key, e.string)
		}
	}
	return len(seen)
}
