package processfile

import (
	"fmt"
	"reflect"
	"slices"
)

// unsupported are the fields that a file can have and agents do not carry out yet. Whoever teaches the agent a field
// removes its row.
func unsupported() []string {
	return []string{
		"copies",
	}
}

// Unsupported returns a fault for each field that agents do not carry out yet. drover refuses such a process: it would
// run otherwise than its file says.
func Unsupported(docs []Document) (faults Faults) {
	for i := range docs {
		for j := range docs[i].Processes {
			p := &docs[i].Processes[j]
			c := &checker{Named: p, path: "processes." + p.Name}
			c.unsupported("", reflect.ValueOf(p.Spec), unsupported())
			for k := range c.faults {
				c.faults[k].File = docs[i].File
			}
			faults = append(faults, c.faults...)
		}
	}
	return faults
}

// unsupported adds a fault for each field of the list that has a value.
func (c *checker) unsupported(field string, v reflect.Value, list []string) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct {
		for i := range v.Len() {
			c.unsupported(field, v.Index(i), list)
		}
		return
	}
	if v.Kind() != reflect.Struct || isSpecial(v.Type()) {
		return
	}
	for i := range v.NumField() {
		at := join(field, tag(v.Type().Field(i)))
		switch {
		case v.Field(i).IsZero():
		case !slices.Contains(list, at):
			c.unsupported(at, v.Field(i), list)
		case fmt.Sprint(v.Field(i)) != "report": // the default of ready.on_timeout
			c.fault(at, "is not supported yet")
		}
	}
}
