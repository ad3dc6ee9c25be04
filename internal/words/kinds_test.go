package words_test

import (
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/words"
)

// TestEveryKindHasItsWords: a kind of event, an actor or an operation that people see has a text.
func TestEveryKindHasItsWords(t *testing.T) {
	var kinds []string
	for _, kind := range process.EventKinds() {
		kinds = append(kinds, string(kind))
	}
	ops := []string{v1.OpApply}
	for _, row := range process.Ops() {
		ops = append(ops, string(row.Op))
	}
	actors := []string{
		process.ActorCaller, process.ActorPolicy, process.ActorKernel, process.ActorSelf, process.ActorOutside,
	}
	same(t, "kind", kinds)
	same(t, "operation", ops)
	same(t, "actor", actors)
}

// same fails the test unless a group of texts has exactly the ids.
func same(t *testing.T, group string, ids []string) {
	t.Helper()
	if d := cmp.Diff(slices.Sorted(slices.Values(ids)), words.IDs(group)); d != "" {
		t.Errorf("the sources and the texts of the group %s have other ids (-sources +texts):\n%s", group, d)
	}
}

// TestEveryStateHasItsWord: each state of a process has a text, and the product has each state that has a text.
func TestEveryStateHasItsWord(t *testing.T) {
	ids := words.IDs("state")
	for _, state := range process.States() {
		if !slices.Contains(ids, state) {
			t.Errorf("no text is that of the state %s", state)
		}
	}
	used := map[string]bool{}
	for _, dir := range []string{".", "../process", "../server", "../why", "../../api"} {
		parsed(t, dir, func(place string, n ast.Node) {
			if text, ok := n.(*ast.BasicLit); ok && !strings.HasSuffix(filepath.Dir(place), "storetest") {
				value, _ := constant(text)
				used[value] = true
			}
		})
	}
	pages, err := filepath.Glob("../server/webui/pages/*.html")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%v: no page", err)
	}
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`template "state" "([a-z-]+)"`).FindAllStringSubmatch(string(data), -1) {
			used[m[1]] = true
		}
	}
	for _, id := range ids {
		if !used[id] {
			t.Errorf("nothing has the state %s", id)
		}
	}
}

// TestEveryActionHasItsWords: whatever the sources of the servers put into the audit log as an action has a text.
func TestEveryActionHasItsWords(t *testing.T) {
	constants := map[string]string{} // by directory and name
	parsed(t, "../server", func(place string, n ast.Node) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != len(spec.Values) {
			return
		}
		for i, name := range spec.Names {
			if text, ok := constant(spec.Values[i]); ok {
				constants[filepath.Dir(place)+" "+name.Name] = text
			}
		}
	})
	actions := map[string]bool{}
	parsed(t, "../server", func(place string, n ast.Node) {
		if strings.HasSuffix(filepath.Dir(place), "storetest") {
			return
		}
		for _, e := range actionsIn(n) {
			text, ok := constant(e)
			if name, isName := e.(*ast.Ident); isName {
				text, ok = constants[filepath.Dir(place)+" "+name.Name], true
			}
			if ok && text != "" {
				actions[text] = true
			}
		}
	})
	if len(actions) < 100 {
		t.Fatalf("only %d actions", len(actions))
	}
	same(t, "action", slices.Collect(maps.Keys(actions)))
}

// actionsIn are the actions that a piece of source names: in a row of a table of endpoints, in a row of the audit log,
// or assigned to one.
func actionsIn(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if field, ok := n.Lhs[0].(*ast.SelectorExpr); ok && field.Sel.Name == "Action" {
			return n.Rhs[:1]
		}
	case *ast.CompositeLit:
		switch typed := n.Type.(type) {
		case *ast.SelectorExpr:
			if typed.Sel.Name == "AuditRow" {
				return field(n, "Action")
			}
		case *ast.Ident:
			if typed.Name == "Route" {
				return field(n, "Name")
			}
		case nil: // a row of a list
			for i, e := range n.Elts[:min(2, len(n.Elts))] {
				if of, ok := e.(*ast.SelectorExpr); ok && i == 0 && strings.HasPrefix(of.Sel.Name, "Route") {
					return n.Elts[1:2]
				}
				if name, ok := e.(*ast.Ident); ok && i == 1 && strings.HasSuffix(name.Name, "Dialect") {
					return n.Elts[:1]
				}
			}
		}
	}
	return nil
}

// field is the value of a field of a composite literal, if it has one.
func field(n *ast.CompositeLit, name string) []ast.Expr {
	for _, e := range n.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == name {
				return []ast.Expr{pair.Value}
			}
		}
	}
	return nil
}

// TestAskedFor: an apply and an undo are called so in the audit log, whatever operations carry them out.
func TestAskedFor(t *testing.T) {
	for _, c := range []struct {
		action string
		ops    []string
		want   string
	}{
		{"tasks.create", []string{"restart"}, "restart"},
		{"tasks.create.dry-run", []string{"stop", "restart"}, "restart.dry-run, stop.dry-run"},
		{"namespaces.apply", []string{"update", "restart"}, "namespaces.apply"},
		{"namespaces.apply.dry-run", []string{"restart"}, "namespaces.apply.dry-run"},
		{"rollouts.undo", []string{"restart"}, "rollouts.undo"},
		{"hosts.remove", nil, "hosts.remove"},
	} {
		if got := words.AskedFor(c.action, c.ops); got != c.want {
			t.Errorf("%s of %q: %q, want %q", c.action, c.ops, got, c.want)
		}
	}
}
