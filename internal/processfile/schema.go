package processfile

import (
	"reflect"
	"strings"

	v1 "drover/api/v1"
)

// Schema returns the JSON Schema (draft 2020-12) of a process file. Editors use it to complete and check names.
func Schema() map[string]any {
	process := schemaOf("", reflect.TypeFor[v1.Spec](), described())
	defaults := schemaOf("", reflect.TypeFor[v1.Spec](), described())
	if fields, ok := defaults["properties"].(map[string]any); ok {
		for _, name := range withoutDefault() {
			delete(fields, name)
		}
	}
	about := map[string]string{}
	for _, f := range FileFields() {
		about[f.Path] = f.Text
	}
	defaults["description"] = about["defaults"]
	processes := map[string]any{"type": "object", "additionalProperties": ref("process")}
	file := map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"namespace", "processes"},
		"properties": map[string]any{
			"namespace": map[string]any{"type": "string", "description": about["namespace"]},
			"revision":  map[string]any{"type": "integer", "description": about["revision"]},
			"defaults":  defaults,
			"processes": map[string]any{
				"type": "object", "description": about["processes"], "additionalProperties": ref("process"),
			},
			"more": map[string]any{"type": "array", "description": about["more"], "items": processes},
		},
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "drover process file",
		"anyOf": []any{ref("file"), map[string]any{"type": "array", "items": ref("file")}},
		"$defs": map[string]any{"file": file, "process": process},
	}
}

// ref refers to a definition of the schema.
func ref(name string) map[string]any { return map[string]any{"$ref": "#/$defs/" + name} }

// described are the fields by path.
func described() map[string]Field {
	all := map[string]Field{}
	for _, f := range Fields() {
		all[f.Path] = f
	}
	return all
}

// schemaOf is the schema of the type of a field.
func schemaOf(path string, t reflect.Type, all map[string]Field) map[string]any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := map[string]any{}
	if f, ok := all[path]; ok {
		s["description"] = f.Text + " Default: " + strings.TrimSuffix(f.Default, ".") + "."
		if f.Choices != nil {
			s["enum"] = f.Choices
		}
	}
	if t == reflect.TypeFor[v1.Hosts]() {
		one := map[string]any{"type": "string"}
		s["oneOf"] = []any{
			map[string]any{"type": "array", "items": one},
			map[string]any{
				"type": "object", "properties": map[string]any{"select": one}, "required": []string{"select"},
				"additionalProperties": false,
			},
		}
		return s
	}
	if forms := formsOf(t); forms != nil {
		s["type"] = forms
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		fields := map[string]any{}
		for f := range t.Fields() {
			name := tag(f)
			fields[name] = schemaOf(join(path, name), f.Type, all)
		}
		s["type"], s["properties"], s["additionalProperties"] = "object", fields, false
	case reflect.Slice:
		s["type"], s["items"] = "array", schemaOf("", t.Elem(), all)
		if t.Elem().Kind() == reflect.Struct && formsOf(t.Elem()) == nil {
			s["items"] = schemaOf(path, t.Elem(), all)
		}
	case reflect.Map:
		s["type"], s["additionalProperties"] = "object", map[string]any{"type": "string"}
		if t == reflect.TypeFor[v1.Variables]() {
			s["additionalProperties"] = map[string]any{"type": []string{"string", "number", "boolean", "null"}}
		}
	case reflect.Bool:
		s["type"] = "boolean"
	case reflect.Int, reflect.Int64:
		s["type"] = "integer"
	case reflect.Float64:
		s["type"] = "number"
	default:
		s["type"] = "string"
	}
	return s
}

// formsOf are the JSON types of a type that reads its own text; nil for another one.
func formsOf(t reflect.Type) []string {
	switch t {
	case reflect.TypeFor[v1.Duration](), reflect.TypeFor[v1.StopSignal]():
		return []string{"string"}
	case reflect.TypeFor[v1.Size](), reflect.TypeFor[v1.Count](), reflect.TypeFor[v1.Status](),
		reflect.TypeFor[v1.HostCount](), reflect.TypeFor[v1.LimitSize](), reflect.TypeFor[v1.LimitNumber]():
		return []string{"string", "integer"}
	case reflect.TypeFor[v1.Percent]():
		return []string{"string", "number"}
	case reflect.TypeFor[v1.Reload]():
		return []string{"string", "object"}
	}
	return nil
}
