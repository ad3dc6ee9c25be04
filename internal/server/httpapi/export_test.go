package httpapi

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
)

// ChineseWords gives tests what refusals are worded in.
func ChineseWords() map[string]string { return chineseWords() }

// RefusalFormats finds the formats of all refusals: those in the code, those of the table of denials, and those of the
// readers of bodies with the words before them.
func RefusalFormats(t *testing.T) []string {
	t.Helper()
	var formats []string
	add := func(f string) {
		if f != "" && !slices.Contains(formats, f) {
			formats = append(formats, f)
		}
	}
	formatsOf(t, ".", "refusef", 1, add)
	formatsOf(t, "../../gse", "misreadf", 0, func(f string) {
		before := "parameters error: "
		if strings.HasPrefix(f, "it ") || strings.HasPrefix(f, "the body ") ||
			strings.HasPrefix(f, "%q is not expected") {
			before = "Request JSON string is wrong in format, "
		}
		add(before + f)
	})
	for _, d := range deniedTexts() {
		add(d.esb)
		add(d.gateway)
	}
	return formats
}

// formatsOf finds the literal arguments in one place of the calls of a function in a directory.
func formatsOf(t *testing.T, dir, function string, place int, add func(string)) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file.Name()), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if name, ok := call.Fun.(*ast.Ident); !ok || name.Name != function || len(call.Args) <= place {
				return true
			}
			if lit, ok := call.Args[place].(*ast.BasicLit); ok {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				add(text)
			}
			return true
		})
	}
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
