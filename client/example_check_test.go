package client_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"drover/client"
)

// TestEveryMethodHasAnExample: each exported method of Client has an example that runs.
func TestEveryMethodHasAnExample(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	set, runs := token.NewFileSet(), map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(set, file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				runs[fn.Name.Name] = hasOutput(f, fn)
			}
		}
	}
	methods := reflect.TypeFor[*client.Client]()
	for m := range methods.Methods() {
		if name := "ExampleClient_" + m.Name; !runs[name] {
			t.Errorf("Client.%s has no example with an output: write %s", m.Name, name)
		}
	}
	if methods.NumMethod() < 42 {
		t.Errorf("only %d methods were found", methods.NumMethod())
	}
}

// hasOutput reports whether a function has a comment that begins with Output, without which an example does not run.
func hasOutput(f *ast.File, fn *ast.FuncDecl) bool {
	for _, c := range f.Comments {
		if fn.Body.Pos() < c.Pos() && c.End() < fn.Body.End() && strings.HasPrefix(c.Text(), "Output:") &&
			strings.TrimSpace(c.Text()) != "Output:" {
			return true
		}
	}
	return false
}

// TestExamplesAreOfTheAPI: the calls of the examples and their answers are as in api/openapi.yaml.
func TestExamplesAreOfTheAPI(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromFile("../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range exchanges() {
		method, target, _ := strings.Cut(e.call, " ")
		path, query, _ := strings.Cut("/api/v1"+target, "?")
		op := describedOperation(doc, method, path)
		if op == nil {
			t.Errorf("%s is not described", e.call)
			continue
		}
		for parameter := range strings.SplitSeq(query, "&") {
			name, _, _ := strings.Cut(parameter, "=")
			if name != "" && op.Parameters.GetByInAndName("query", name) == nil {
				t.Errorf("%s: the parameter %s is not described", e.call, name)
			}
		}
		if e.sent != "" {
			compare(t, e.call, "request", op.RequestBody.Value.Content, e.sent)
		}
		switch response := op.Responses.Status(e.status); {
		case response == nil:
			t.Errorf("%s: status %d is not described", e.call, e.status)
		case e.answer != "" && !strings.HasPrefix(e.answer, "id:"):
			compare(t, e.call, "answer", response.Value.Content, e.answer)
		}
	}
}

// describedOperation returns the operation of a path. A path without parameters goes before a path with some.
func describedOperation(doc *openapi3.T, method, path string) *openapi3.Operation {
	if item := doc.Paths.Value(path); item != nil {
		return item.GetOperation(method)
	}
	parts := strings.Split(path, "/")
	for template, item := range doc.Paths.Map() {
		names := strings.Split(template, "/")
		same := len(names) == len(parts)
		for i := 0; same && i < len(parts); i++ {
			same = names[i] == parts[i] || strings.HasPrefix(names[i], "{")
		}
		if same && item.GetOperation(method) != nil {
			return item.GetOperation(method)
		}
	}
	return nil
}

// compare fails the test unless a body is as described; a stream has several values.
func compare(t *testing.T, call, what string, content openapi3.Content, body string) {
	t.Helper()
	media := content["application/json"]
	if media == nil {
		media = content["application/x-ndjson"]
	}
	for d := json.NewDecoder(strings.NewReader(body)); d.More(); {
		var v any
		if err := d.Decode(&v); err != nil {
			t.Errorf("%s: %s: %v", call, what, err)
			return
		}
		if err := media.Schema.Value.VisitJSON(v, openapi3.MultiErrors()); err != nil {
			t.Errorf("%s: %s: %v", call, what, err)
		}
	}
}
