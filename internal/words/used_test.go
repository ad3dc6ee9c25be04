package words_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryTextIsUsed: the fields of the catalogue stand in the sources of the product, or in a page of the console.
func TestEveryTextIsUsed(t *testing.T) {
	used := map[string]bool{}
	use := regexp.MustCompile(`\b([A-Za-z]+)\.([A-Z][A-Za-z]*)`)
	for _, dir := range []string{"../cli", "../server/webui"} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			for _, m := range use.FindAllStringSubmatch(strings.ReplaceAll(string(data), "words.", ""), -1) {
				used[strings.ToLower(m[1])+"."+m[2]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	fields := 0
	parsed(t, ".", func(place string, n ast.Node) {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return
		}
		list, ok := v.Values[0].(*ast.CompositeLit)
		if !ok {
			return
		}
		if _, ok := list.Type.(*ast.StructType); !ok {
			return
		}
		for _, e := range list.Elts {
			field, ok := e.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			name := field.Key.(*ast.Ident).Name
			if fields++; !used[strings.ToLower(v.Names[0].Name)+"."+name] {
				t.Errorf("%s: nothing uses %s.%s", place, v.Names[0].Name, name)
			}
		}
	})
	if fields < 100 {
		t.Errorf("only %d fields", fields)
	}
}
