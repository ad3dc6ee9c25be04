package processfile

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
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
			"revision":  orNull(map[string]any{"type": "integer", "description": about["revision"]}),
			"defaults":  orNull(defaults),
			"processes": map[string]any{
				"type": "object", "description": about["processes"], "additionalProperties": ref("process"),
			},
			"more": orNull(map[string]any{"type": "array", "description": about["more"], "items": processes}),
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

// orNull has a schema accept null, too.
func orNull(s map[string]any) map[string]any {
	null := map[string]any{"type": "null"}
	switch forms := s["type"].(type) {
	case string:
		s["type"] = []string{forms, "null"}
	case []string:
		s["type"] = append(slices.Clone(forms), "null")
	}
	if forms, ok := s["oneOf"].([]any); ok {
		s["oneOf"] = append(forms, null)
	}
	if values, ok := s["enum"].([]any); ok {
		s["enum"] = append(values, nil)
	}
	return s
}

// enum is the schema of a few fixed texts.
func enum(texts []string) map[string]any {
	var values []any
	for _, text := range texts {
		values = append(values, text)
	}
	return map[string]any{"type": "string", "enum": values}
}

// interval is the form of a value that has bounds, such as "number from 1" and "-20 to 19".
var interval = regexp.MustCompile(`^(?:number from )?(-?[0-9]+)(?: to (-?[0-9]+))?$`)

// schemaOf is the schema of a field with its description. null is the default of a field that has one.
func schemaOf(path string, t reflect.Type, all map[string]Field) map[string]any {
	s := typeOf(path, t, all)
	f, ok := all[path]
	if !ok {
		return s
	}
	s["description"] = f.Text + " Default: " + strings.TrimSuffix(f.Default, ".") + "."
	if found := interval.FindStringSubmatch(f.Value); found != nil {
		for i, bound := range []string{"minimum", "maximum"} {
			if text := found[i+1]; text != "" {
				s[bound] = json.Number(text)
			}
		}
	}
	if f.Default != "required" {
		orNull(s)
	}
	return s
}

// typeOf is the schema of the type of a field.
func typeOf(path string, t reflect.Type, all map[string]Field) map[string]any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := map[string]any{}
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
			if name == "" {
				continue
			}
			fields[name] = schemaOf(join(path, name), f.Type, all)
		}
		s["type"], s["properties"], s["additionalProperties"] = "object", fields, false
	case reflect.Slice:
		s["type"], s["items"] = "array", typeOf("", t.Elem(), all)
		if t.Elem().Kind() == reflect.Struct && formsOf(t.Elem()) == nil {
			s["items"] = typeOf(path, t.Elem(), all)
		}
	case reflect.Map:
		value := map[string]any{"type": "string"}
		switch {
		case t == reflect.TypeFor[v1.Variables]():
			value["type"] = []string{"string", "number", "boolean"}
		case all[path].Choices != nil:
			value = enum(all[path].Choices)
		}
		s["type"], s["additionalProperties"] = "object", orNull(value)
	case reflect.Bool:
		s["type"] = "boolean"
	case reflect.Int, reflect.Int64:
		s["type"] = "integer"
	case reflect.Float64:
		s["type"] = "number"
	default:
		if choices := all[path].Choices; choices != nil {
			return enum(choices)
		}
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
