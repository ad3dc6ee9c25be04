package words_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drover/internal/words"
)

// inStructs returns the fields of the structs of texts, by their groups, and calls see for each with its variable.
func inStructs(t *testing.T, see func(place, variable, field string)) (groups map[string][]string) {
	t.Helper()
	groups = map[string][]string{}
	parsed(t, ".", func(place string, n ast.Node) {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return
		}
		call, ok := v.Values[0].(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return
		}
		named, ok := call.Fun.(*ast.IndexExpr)
		if !ok {
			return
		}
		group, _ := constant(call.Args[0])
		for _, field := range named.Index.(*ast.StructType).Fields.List {
			for _, name := range field.Names {
				groups[group] = append(groups[group], name.Name)
				see(place, v.Names[0].Name, name.Name)
			}
		}
	})
	return groups
}

// TestEveryFieldIsAText: each field of a struct of texts has its text in the file, and each text of the group its field.
// The other groups are those of ids, which other tests compare with the ids of the product.
func TestEveryFieldIsAText(t *testing.T) {
	groups := inStructs(t, func(string, string, string) {})
	for _, ids := range []string{"state", "kind", "actor", "operation", "action", "cause"} {
		groups[ids] = words.IDs(ids)
	}
	for group, names := range groups {
		same(t, group, names)
	}
	for _, dir := range named() {
		for _, e := range read(t, dir+"/en.po") {
			if _, ok := groups[e.Context]; !ok {
				t.Errorf("%s/en.po: nothing has the group %s", dir, e.Context)
			}
		}
	}
	if len(groups) < 25 {
		t.Errorf("only %d groups", len(groups))
	}
}

// TestEveryTextIsUsed: the texts that have names stand in the sources of the product, or in a page of the console.
func TestEveryTextIsUsed(t *testing.T) {
	used := map[string]bool{}
	use := regexp.MustCompile(`\b([A-Za-z]+)\.([A-Z][A-Za-z]*)`)
	scan := func(path string) error {
		data, err := os.ReadFile(path)
		for _, m := range use.FindAllStringSubmatch(strings.ReplaceAll(string(data), "words.", ""), -1) {
			used[strings.ToLower(m[1])+"."+m[2]] = true
		}
		return err
	}
	for _, dir := range []string{"../cli", "../server/webui"} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return scan(path)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"causes.go", "kinds.go", "names.go", "sentence.go"} { // of texts that the package itself uses
		if err := scan(path); err != nil {
			t.Fatal(err)
		}
	}
	fields := 0
	inStructs(t, func(place, variable, field string) {
		if fields++; !used[strings.ToLower(variable)+"."+field] {
			t.Errorf("%s: nothing uses %s.%s", place, variable, field)
		}
	})
	if fields < 500 {
		t.Errorf("only %d fields", fields)
	}
}
