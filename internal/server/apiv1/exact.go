package apiv1

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
)

// exact rejects repeated fields in JSON for a type, and fields that differ from a field of the type only in case.
// encoding/json would merge a repeated field and accept the other case. Other readers of the call would then see a
// different request.
func exact(text []byte, t reflect.Type) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return exactValue(d, t, "")
}

// exactValue reads one value; a nil type is the caller's own JSON, in which everything is allowed.
func exactValue(d *json.Decoder, t reflect.Type, path string) error {
	token, err := d.Token()
	if err != nil {
		return decodeProblem(err)
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		t = nil
	}
	switch token {
	case json.Delim('{'):
		err = exactObject(d, t, path)
	case json.Delim('['):
		var element reflect.Type
		if t != nil && t.Kind() == reflect.Slice {
			element = t.Elem()
		}
		for n := 0; err == nil && d.More(); n++ {
			if n == maxItems {
				return invalid(strings.TrimPrefix(path, "."), "has more than %d entries", maxItems)
			}
			err = exactValue(d, element, path)
		}
	default:
		return nil
	}
	if err == nil {
		_, err = d.Token() // the bracket; the text was parsed before
	}
	return err
}

func exactObject(d *json.Decoder, t reflect.Type, path string) error {
	var fields map[string]reflect.Type
	if t != nil && t.Kind() == reflect.Struct {
		fields = fieldsOf(t)
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return decodeProblem(err)
		}
		name, _ := token.(string) // a name is always a string
		at := strings.TrimPrefix(path+"."+name, ".")
		value, known := fields[name]
		switch {
		case fields != nil && !known:
			return invalid(at, "there is no such field")
		case t != nil && seen[name]:
			return invalid(at, "is there more than once")
		}
		if t != nil {
			seen[name] = true
		}
		if t != nil && t.Kind() == reflect.Map {
			value = t.Elem()
		}
		if err := exactValue(d, value, at); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf returns the fields of a struct by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type, t.NumField())
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && f.Anonymous {
			maps.Copy(fields, fieldsOf(f.Type))
			continue
		}
		fields[name] = f.Type
	}
	return fields
}
