package term

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// check returns an error if values of a type never have what a path names. A field that only some values have is right.
func (p path) check(t reflect.Type) error {
	for _, s := range p {
		for t != nil && t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t == nil || t.Kind() == reflect.Interface || encodesItself(t) {
			return nil // its JSON is its own
		}
		switch {
		case s.all && slices.Contains([]reflect.Kind{reflect.Struct, reflect.Map}, t.Kind()):
			return nil // it is each of several types
		case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
			if s.name != "" && !s.all {
				return fmt.Errorf("no %q in a list: expected [N] or [*] before it, such as [*].%s", s.name, s.name)
			}
			t = t.Elem()
		case t.Kind() == reflect.Map && s.name != "":
			t = t.Elem()
		case t.Kind() == reflect.Struct && s.name != "":
			fields := jsonFields(t)
			i := slices.IndexFunc(fields, func(f jsonField) bool { return f.name == s.name })
			if i < 0 {
				return fmt.Errorf("no field %q: expected one of %s", s.name, names(fields))
			}
			t = fields[i].is
		case s.name != "":
			return fmt.Errorf("no field %q: the value before it has none", s.name)
		default:
			return fmt.Errorf("no element [%d]: the value before it is no list", s.index)
		}
	}
	return nil
}

func encodesItself(t reflect.Type) bool {
	for _, own := range []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if t.Implements(own) || reflect.PointerTo(t).Implements(own) {
			return true
		}
	}
	return false
}

// jsonField is a field of a struct in JSON.
type jsonField struct {
	name string
	is   reflect.Type
}

func jsonFields(t reflect.Type) (fields []jsonField) {
	for f := range t.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case tag == "-":
		case f.Anonymous && tag == "" && inner.Kind() == reflect.Struct:
			fields = append(fields, jsonFields(inner)...)
		case !f.IsExported():
		case tag == "":
			fields = append(fields, jsonField{f.Name, f.Type})
		default:
			fields = append(fields, jsonField{tag, f.Type})
		}
	}
	return fields
}

func names(fields []jsonField) string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
