package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"drover/internal/process"
)

const guide = "docs/adding/op.md"

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestGuideToOperationsHasEveryField: docs/adding/op.md explains each field of a row, in the order of the code, and each
// file that it names beside the field reads the field.
func TestGuideToOperationsHasEveryField(t *testing.T) {
	var fields, explained []string
	for f := range reflect.TypeFor[process.OpInfo]().Fields() {
		fields = append(fields, f.Name)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|.*\\| (.*) \\|$").FindAllStringSubmatch(content(t, guide), -1) {
		explained = append(explained, row[1])
		reads := regexp.MustCompile(`(\.Info\(\)|\brow|\bops\[i\]|\bv)\.` + row[1] + `\b`)
		files := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1)
		if len(files) == 0 {
			t.Errorf("%s names no file that reads %s", guide, row[1])
		}
		for _, file := range files {
			if !reads.MatchString(content(t, file[1])) {
				t.Errorf("%s says that %s reads %s, but it does not", guide, file[1], row[1])
			}
		}
	}
	if !slices.Equal(fields, explained) {
		t.Errorf("%s explains the fields %q, process.OpInfo has %q", guide, explained, fields)
	}
}

// TestStepsForOperationsLeadToTheTable: each Go file in the steps of docs/adding/op.md speaks of operations.
func TestStepsForOperationsLeadToTheTable(t *testing.T) {
	steps, _, _ := strings.Cut(content(t, guide), "\nTests:")
	files := regexp.MustCompile(`(?m)^\d+\. \*\*`+"`([\\w/]+\\.go)`").FindAllStringSubmatch(steps, -1)
	if len(files) < 4 {
		t.Fatalf("only %d files were found", len(files))
	}
	words := map[string]string{
		"internal/process/op.go":              `Ops\(\) \[\]OpInfo`,
		"internal/agent/operation/actions.go": `map\[process\.Op\]func`,
		"api/v1/operation.go":                 `(?m)^\tOpStart `,
		"internal/gse/gse.go":                 `func Code\(f process\.Fault\)`,
		"internal/words/kinds.go":             `var Operations = map\[string\]Text`,
	}
	for _, file := range files {
		if words[file[1]] == "" || !regexp.MustCompile(words[file[1]]).MatchString(content(t, file[1])) {
			t.Errorf("%s has a step for %s, in which %q is not found", guide, file[1], words[file[1]])
		}
	}
}

// TestContractNamesTheOperations: api/v1 and api/openapi.yaml name what drover's own API offers.
func TestContractNamesTheOperations(t *testing.T) {
	var want, constants []string
	for _, row := range process.Ops() {
		if row.OwnAPI {
			want = append(want, string(row.Op))
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\tOp[A-Z]\w* += "(.*)"$`).FindAllStringSubmatch(
		content(t, "api/v1/operation.go"), -1) {
		constants = append(constants, m[1])
	}
	if !slices.Equal(constants, want) {
		t.Errorf("api/v1/operation.go has the constants %q, want %q", constants, want)
	}
	if line := "op: {type: string, enum: [" + strings.Join(want, ", ") + "]}"; !strings.Contains(
		content(t, "api/openapi.yaml"), line) {
		t.Errorf("api/openapi.yaml does not have %q", line)
	}
}

// TestOperationsAreListedOnce: no product file has a switch over operations or a list of them: it asks for a field of
// process.OpInfo instead.
func TestOperationsAreListedOnce(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(), "internal/process/op.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && fmt.Sprint(spec.Type) == "Op" {
			names = append(names, spec.Names[0].Name)
		}
		return true
	})
	if len(names) != len(process.Ops()) {
		t.Fatalf("found the operations %q", names)
	}
	named := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		if !ok || !slices.Contains(names, s.Sel.Name) {
			return false
		}
		x, ok := s.X.(*ast.Ident)
		return ok && x.Name == "process"
	}
	for _, p := range ours(t) {
		if p.forTests() {
			continue
		}
		set, files := parse(t, p, p.GoFiles)
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				var list []ast.Expr
				switch n := n.(type) {
				case *ast.CaseClause:
					list = n.List
				case *ast.CompositeLit:
					list = n.Elts
				default:
					return true
				}
				if slices.ContainsFunc(list, named) {
					t.Errorf("%s: a list of operations: make it a field of process.OpInfo", set.Position(n.Pos()))
				}
				return true
			})
		}
	}
}
