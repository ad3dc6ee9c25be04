// Command house prints the largest packages, files, types and structs of the product: places to look at. No number of
// it is a limit.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// shown is how many rows a table has.
const shown = 15

func main() {
	h, err := measure(".")
	if err == nil {
		err = h.write(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

// house is what the source of a module consists of, without its tests. The maps are by path, and by path and name.
type house struct {
	packages        map[string]*size
	files           map[string]int
	methods, fields map[string]int
}

// size is the size of a package.
type size struct{ files, lines int }

// measure reads the Go files below a directory.
func measure(root string) (*house, error) {
	h := &house{
		packages: map[string]*size{}, files: map[string]int{}, methods: map[string]int{}, fields: map[string]int{},
	}
	return h, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		return h.add(path)
	})
}

// add counts one file.
func (h *house) add(path string) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir, lines := filepath.Dir(path), set.File(file.FileStart).LineCount()
	if h.packages[dir] == nil {
		h.packages[dir] = &size{}
	}
	h.packages[dir].files++
	h.packages[dir].lines += lines
	h.files[path] = lines
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil {
				h.methods[dir+" "+receiver(decl.Recv.List[0].Type)]++
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				h.addType(dir, spec)
			}
		}
	}
	return nil
}

// addType counts the fields of a struct and the methods of an interface.
func (h *house) addType(dir string, spec ast.Spec) {
	declared, ok := spec.(*ast.TypeSpec)
	if !ok {
		return
	}
	name := dir + " " + declared.Name.Name
	switch t := declared.Type.(type) {
	case *ast.StructType:
		h.fields[name] = t.Fields.NumFields()
	case *ast.InterfaceType:
		h.methods[name] = t.Methods.NumFields()
	}
}

// receiver is the name of the type of a receiver, without its pointer and its parameters.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return "?"
}

// write prints the tables.
func (h *house) write(to io.Writer) error {
	lines, files := map[string]int{}, map[string]int{}
	for dir, s := range h.packages {
		lines[dir], files[dir] = s.lines, s.files
	}
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, t := range []struct {
		title string
		of    map[string]int
	}{
		{"packages by lines", lines},
		{"packages by files", files},
		{"files by lines", h.files},
		{"types by methods", h.methods},
		{"structs by fields", h.fields},
	} {
		fmt.Fprintf(out, "== %s ==\n", t.title) //nolint:errcheck // a builder never fails
		for _, name := range largest(t.of) {
			fmt.Fprintf(out, "%d\t%s\n", t.of[name], name) //nolint:errcheck // a builder never fails
		}
		fmt.Fprintln(out) //nolint:errcheck // a builder never fails
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// largest are the names with the highest numbers, the highest first.
func largest(of map[string]int) (names []string) {
	for name := range of {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), strings.Compare(a, b)) })
	return names[:min(shown, len(names))]
}
