package processfile

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	v1 "drover/api/v1"
)

// TestOpenAPI: the document of the API has the fields of files, in schema V1Spec. -update writes it.
func TestOpenAPI(t *testing.T) {
	path := filepath.Join("..", "..", "api", "openapi.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin := bytes.Index(text, []byte("    V1Spec:\n"))
	end := bytes.Index(text, []byte("    V1File:\n"))
	if begin < 0 || end < begin {
		t.Fatal("there is no schema V1Spec")
	}
	var want strings.Builder
	want.WriteString("    V1Spec:\n")
	writeSchema(&want, "      ", "", reflect.TypeFor[v1.Spec](), described())
	if string(text[begin:end]) == want.String() {
		return
	}
	if !flag.Lookup("update").Value.(flag.Getter).Get().(bool) { //nolint:forcetypeassert // it is a bool
		t.Fatal("the schema V1Spec is not that of the fields: run go test ./internal/processfile -update")
	}
	whole := string(text[:begin]) + want.String() + string(text[end:])
	if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeSchema writes the members of the schema of a field.
func writeSchema(w *strings.Builder, indent, path string, t reflect.Type, all map[string]Field) {
	line := func(format string, args ...any) { fmt.Fprintf(w, indent+format+"\n", args...) }
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	f, known := all[path]
	switch {
	case path == "":
		line("description: How drover runs a process, as in a process file. A missing member has its default.")
	case known:
		line("description: %s", strconv.Quote(f.Text+" Default: "+strings.TrimSuffix(f.Default, ".")+"."))
	}
	if t == reflect.TypeFor[v1.Hosts]() {
		line("oneOf:")
		line("  - {type: array, items: {type: string}}")
		line("  - {type: object, additionalProperties: false, required: [select], properties: {select: {type: string}}}")
		return
	}
	if forms := formsOf(t); len(forms) == 1 {
		line("type: %s", forms[0])
		return
	} else if forms != nil {
		line("oneOf: [{type: %s}]", strings.Join(forms, "}, {type: "))
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		line("type: object")
		line("additionalProperties: false")
		line("properties:")
		for f := range t.Fields() {
			name := tag(f)
			if name == "" {
				continue
			}
			line("  %s:", name)
			writeSchema(w, indent+"    ", join(path, name), f.Type, all)
		}
	case reflect.Slice:
		line("type: array")
		line("items:")
		at := path
		if t.Elem().Kind() != reflect.Struct {
			at = "-"
		}
		inner := map[string]Field{}
		for name, field := range all {
			if name != path {
				inner[name] = field
			}
		}
		writeSchema(w, indent+"  ", at, t.Elem(), inner)
	case reflect.Map:
		line("type: object")
		line("additionalProperties: {type: string%s}", enumOf(f))
	default:
		line("type: %s", map[reflect.Kind]string{
			reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int64: "integer", reflect.Float64: "number",
			reflect.String: "string",
		}[t.Kind()])
		if f.Choices != nil {
			line("enum: [%s]", strings.Join(f.Choices, ", "))
		}
	}
}

// enumOf is a member for the values of names.
func enumOf(f Field) string {
	if f.Choices == nil {
		return ""
	}
	return ", enum: [" + strings.Join(f.Choices, ", ") + "]"
}
