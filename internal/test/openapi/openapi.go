// Package openapi compares what goes over HTTP in tests with api/openapi.yaml: a call that was answered with code 0
// must have sent what the document says, and every reply must be what it says. It is for tests only, and owns neither
// the document nor the calls.
package openapi

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"drover/internal/test/repo"
)

// Document is api/openapi.yaml.
type Document struct{ doc *openapi3.T }

// Load returns the document of this module; it is read once.
var Load = sync.OnceValues(load)

func load() (*Document, error) {
	doc, err := openapi3.NewLoader().LoadFromFile(filepath.Join(repo.Root(), "api", "openapi.yaml"))
	if err != nil {
		return nil, fmt.Errorf("cannot load openapi.yaml: %w", err)
	}
	return &Document{doc}, nil
}

// Exchange is one request and the reply to it.
type Exchange struct {
	Method, Path string
	Request      []byte
	Status       int
	Reply        []byte
}

// Check lists where an exchange differs from the document. An exchange on a path or with a method that the document
// does not name is not compared: known is false.
func (d *Document) Check(e Exchange) (differences []string, known bool) {
	op := d.operation(e.Method, e.Path)
	if op == nil {
		return nil, false
	}
	where := e.Method + " " + e.Path
	if e.accepted() && len(e.Request) > 0 && e.Request[0] == '{' && op.RequestBody != nil {
		if err := visit(op.RequestBody.Value.Content, e.Request); err != nil {
			differences = append(differences, fmt.Sprintf("%s: request: %v", where, err))
		}
	}
	response := op.Responses.Status(e.Status)
	if response == nil {
		return append(differences, fmt.Sprintf("%s: HTTP %d is not described", where, e.Status)), true
	}
	if err := visit(response.Value.Content, e.Reply); err != nil {
		differences = append(differences, fmt.Sprintf("%s: reply: %v", where, err))
	}
	return differences, true
}

// accepted reports whether the call was answered with a success: what was refused need not be as described.
func (e Exchange) accepted() bool {
	var reply struct {
		Code *int `json:"code"`
	}
	return e.Status < 300 && json.Unmarshal(e.Reply, &reply) == nil && (reply.Code == nil || *reply.Code == 0)
}

// operation finds the operation of a path, however many slashes it has.
func (d *Document) operation(method, path string) *openapi3.Operation {
	path, _, _ = strings.Cut(path, "?")
	clean := "/" + strings.Join(strings.FieldsFunc(path, func(c rune) bool { return c == '/' }), "/")
	for _, p := range []string{clean, clean + "/"} {
		if item := d.doc.Paths.Value(p); item != nil {
			return item.GetOperation(method)
		}
	}
	return nil
}

func visit(content openapi3.Content, body []byte) error {
	media := content.Get("application/json")
	if media == nil || media.Schema == nil {
		return fmt.Errorf("no JSON is described: %.200s", body)
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	return media.Schema.Value.VisitJSON(value, openapi3.MultiErrors())
}
