package httpapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ChineseWords gives tests what refusals are worded in.
func ChineseWords() map[string]string { return chineseWords() }

// RefusalFormats finds the formats of all refusals: those in the code, and those of the table of denials.
func RefusalFormats(t *testing.T) []string {
	t.Helper()
	var formats []string
	add := func(f string) {
		if f != "" && !slices.Contains(formats, f) {
			formats = append(formats, f)
		}
	}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if name, ok := call.Fun.(*ast.Ident); !ok || name.Name != "refusef" || len(call.Args) < 2 {
				return true
			}
			if lit, ok := call.Args[1].(*ast.BasicLit); ok {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				add(text)
			}
			return true
		})
	}
	for _, d := range deniedTexts() {
		add(d.esb)
		add(d.gateway)
	}
	return formats
}

// EveryCall returns a path of every call in the table.
func EveryCall() []string {
	var paths []string
	for _, r := range new(server).table() {
		system := "gse"
		if r.dialect == jobDialect {
			system = "job"
		}
		paths = append(paths, "/api/c/compapi/v2/"+system+"/"+r.name)
	}
	return paths
}
