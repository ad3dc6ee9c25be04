package call

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Exact rejects repeated fields in JSON for a type, and fields that differ from a field of the type only in case.
// encoding/json would merge a repeated field and accept the other case. Other readers of the call would then see a
// different request.
func Exact(text []byte, t reflect.Type) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	r := exactReader{d: d}
	err := r.value(t, "")
	return Together(append(r.faults, err)...)
}

// exactReader collects the fields that are not exact.
type exactReader struct {
	d      *json.Decoder
	faults []error
}

// value reads one value; a nil type is the caller's own JSON, in which everything is allowed.
func (r *exactReader) value(t reflect.Type, path string) error {
	token, err := r.d.Token()
	if err != nil {
		return DecodeProblem(err)
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		t = nil
	}
	switch token {
	case json.Delim('{'):
		err = r.object(t, path)
	case json.Delim('['):
		var element reflect.Type
		if t != nil && t.Kind() == reflect.Slice {
			element = t.Elem()
		}
		for n := 0; err == nil && r.d.More(); n++ {
			if n == MaxItems {
				return Invalid(strings.TrimPrefix(path, "."), "has more than %d entries", MaxItems)
			}
			err = r.value(element, path+"["+strconv.Itoa(n)+"]")
		}
	default:
		return nil
	}
	if err == nil {
		_, err = r.d.Token() // the bracket; the text was parsed before
	}
	return err
}

func (r *exactReader) object(t reflect.Type, path string) error {
	var fields map[string]reflect.Type
	if t != nil && t.Kind() == reflect.Struct {
		fields = fieldsOf(t)
	}
	seen := map[string]bool{}
	for r.d.More() {
		token, err := r.d.Token()
		if err != nil {
			return DecodeProblem(err)
		}
		name, _ := token.(string) // a name is always a string
		at := strings.TrimPrefix(path+"."+name, ".")
		value, known := fields[name]
		switch {
		case fields != nil && !known:
			r.fail(Invalid(at, "there is no such field"))
		case t != nil && seen[name]:
			r.fail(Invalid(at, "is there more than once"))
		}
		if t != nil {
			seen[name] = true
		}
		if t != nil && t.Kind() == reflect.Map {
			value = t.Elem()
		}
		if err := r.value(value, at); err != nil {
			return err
		}
	}
	return nil
}

func (r *exactReader) fail(err error) {
	if len(r.faults) < MostFaults {
		r.faults = append(r.faults, err)
	}
}

// unreadable reports each value of a body that its type cannot read, and what the checks find in the others. failed is
// the error of the first reading into v.
func unreadable(text []byte, v any, failed error, checks []func() error) error {
	var body any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&body) != nil {
		return DecodeProblem(failed)
	}
	var wrong []error
	var paths []string
	body, _ = readable(body, reflect.TypeOf(v), "", func(path string, err error) {
		if wrong = append(wrong, err); len(wrong) <= MostFaults {
			paths = append(paths, path)
		}
	})
	if len(paths) == 0 || len(wrong) > MostFaults {
		return DecodeProblem(failed)
	}
	reflect.ValueOf(v).Elem().SetZero()
	rest, _ := json.Marshal(body) // it was decoded from JSON
	if json.Unmarshal(rest, v) != nil {
		return Together(wrong...)
	}
	for _, check := range checks {
		p, ok := errors.AsType[*Problem](check())
		if !ok {
			continue
		}
		for _, f := range p.Fields {
			if !slices.Contains(paths, f.Field) { // what was wrong there is told
				wrong = append(wrong, Invalid(f.Field, "%s", f.Detail))
			}
		}
	}
	return Together(wrong...)
}

// readable returns a value of JSON without the parts that their types cannot read, and reports each of these.
func readable(v any, t reflect.Type, path string, fail func(path string, err error)) (rest any, whole bool) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || v == nil || t == reflect.TypeFor[json.RawMessage]() {
		return v, true
	}
	object, isObject := v.(map[string]any)
	entries, isList := v.([]any)
	ownReader := reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
	switch {
	case isList && t.Kind() == reflect.Slice:
		for i := range entries {
			if one, whole := readable(entries[i], t.Elem(), path+"["+strconv.Itoa(i)+"]", fail); whole {
				entries[i] = one
			} else {
				entries[i] = nil
			}
		}
		return entries, true
	case isObject && t.Kind() == reflect.Struct && !ownReader:
		fields := fieldsOf(t)
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if _, whole := readable(object[name], fields[name], strings.TrimPrefix(path+"."+name, "."), fail); !whole {
				delete(object, name)
			}
		}
		return object, true
	}
	text, _ := json.Marshal(v) // it was decoded from JSON
	err := json.Unmarshal(text, reflect.New(t).Interface())
	if err == nil {
		return v, true
	}
	if path == "" {
		return v, false // the whole body is of another type
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(wrong.Value, " ")
		path = strings.TrimSuffix(path+"."+wrong.Field, ".")
		fail(path, Invalid(path, "is a JSON %s: expected %s", kind, expected(wrong.Type)))
	} else {
		fail(path, Invalid(path, "%v", err))
	}
	return v, false
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

// MaxItems is how many entries a list in a request may have, and how many items an operation.
const MaxItems = 100_000

// MostFaults bounds the list of faults of a long request.
const MostFaults = 100
