package why_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/why"
	"drover/internal/words"
)

const root = "../.."

// causes reads the constants of type CauseID in internal/process/cause.go.
func causes(t *testing.T) []process.CauseID {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "internal", "process", "cause.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []process.CauseID
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != "CauseID" {
			t.Errorf("%s has no type of its own", spec.Names[0])
			return true
		}
		for _, v := range spec.Values {
			text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, process.CauseID(text))
		}
		return true
	})
	if len(all) < 40 {
		t.Fatalf("found %d causes only", len(all))
	}
	slices.Sort(all)
	return all
}

func TestCatalogueIsWhole(t *testing.T) {
	var listed []process.CauseID
	for _, e := range why.Entries() {
		listed = append(listed, e.ID)
		for lang, stop := range map[words.Lang]string{words.English: ".", words.Chinese: "。"} {
			title, meaning, remedy := e.Title.In(lang), e.Meaning.In(lang), e.Remedy.In(lang)
			for _, text := range []string{title, meaning, remedy} {
				if text == "" || text != strings.TrimSpace(text) || strings.Contains(text, "\n") {
					t.Errorf("%s: %q is not one line", e.ID, text)
				}
			}
			if !strings.HasSuffix(meaning, stop) || !strings.HasSuffix(remedy, stop) || strings.HasSuffix(title, stop) {
				t.Errorf("%s: a title has no full stop, a sentence has one", e.ID)
			}
		}
		if found, ok := why.Open().Lookup(e.ID); !ok || found != e {
			t.Errorf("%s is listed twice", e.ID)
		}
	}
	slices.Sort(listed)
	if d := cmp.Diff(causes(t), listed); d != "" {
		t.Errorf("causes of internal/process and of the catalogue (-want +got):\n%s", d)
	}
	var parts []string
	for _, id := range listed {
		parts = append(parts, string(id)+" meaning", string(id)+" remedy", string(id)+" title")
	}
	slices.Sort(parts)
	if d := cmp.Diff(parts, words.IDs("cause")); d != "" {
		t.Errorf("causes and their words (-causes +words):\n%s", d)
	}
	if _, ok := why.Open().Lookup("weather"); ok {
		t.Error("what is no cause was found")
	}
}

// TestPages: every cause has a page of the same form in every language, and every page is of a cause.
func TestPages(t *testing.T) {
	checkPages(t, words.English, filepath.Join("docs", "why"),
		"## What drover has seen", "## Check by hand", "## What to do", "## What drover does next")
	checkPages(t, words.Chinese, filepath.Join("docs", "zh", "why"),
		"## drover 看到的情况", "## 手工检查", "## 处理方法", "## drover 接下来做什么")
}

func checkPages(t *testing.T, lang words.Lang, dir string, sections ...string) {
	t.Helper()
	least := map[words.Lang]int{words.English: 40, words.Chinese: 20}[lang]
	bodies := map[string]process.CauseID{}
	var files []string
	for _, e := range why.Entries() {
		files = append(files, string(e.ID)+".md")
		page := filepath.Join(dir, string(e.ID)+".md")
		data, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Error(err)
			continue
		}
		text := string(data)
		if lang != words.English {
			_, text, _ = strings.Cut(text, "\n") // its source
		}
		want := "# " + e.Title.In(lang) + " [" + string(e.ID) + "]\n\n" + e.Meaning.In(lang)
		if !strings.HasPrefix(text, want) {
			t.Errorf("%s does not begin with %q", page, want)
		}
		if n := strings.Count(text, "\n"); n < 15 || n > 45 {
			t.Errorf("%s has %d lines", page, n)
		}
		rest := text
		for i, s := range sections {
			before, after, found := strings.Cut(rest, "\n"+s+"\n")
			if !found {
				t.Errorf("%s lacks %q, or has it elsewhere", page, s)
				break
			}
			if i > 0 && utf8.RuneCountInString(strings.TrimSpace(before)) < least {
				t.Errorf("%s: nothing before %q", page, s)
			}
			if other, twice := bodies[before]; twice {
				t.Errorf("%s and %s say the same before %q", page, other, s)
			}
			bodies[before] = e.ID
			rest = after
		}
		if !strings.Contains(text, "```\n") {
			t.Errorf("%s shows no command", page)
		}
	}
	found, err := filepath.Glob(filepath.Join(root, dir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if name := filepath.Base(path); name != "README.md" && !slices.Contains(files, name) {
			t.Errorf("%s is of no cause", path)
		}
	}
}

// TestIndex: docs/why/README.md holds the table that follows from the catalogue.
func TestIndex(t *testing.T) {
	var b strings.Builder
	b.WriteString("| cause | severity | |\n|---|---|---|\n")
	for _, e := range why.Entries() {
		b.WriteString("| [" + string(e.ID) + "](" + string(e.ID) + ".md) | " + string(e.Severity) + " | " +
			e.Meaning.In(words.English) + " |\n")
	}
	data, err := os.ReadFile(filepath.Join(root, "docs", "why", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(data), "<!-- table -->\n")
	table, _, _ = strings.Cut(table, "<!-- end -->\n")
	if d := cmp.Diff(b.String(), table); d != "" {
		t.Errorf("docs/why/README.md (-want +got):\n%s", d)
	}
}
