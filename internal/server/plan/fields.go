package plan

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
)

// Fields returns the fields of a file that differ between two specs.
func Fields(from, to *process.Spec) []v1.FieldChange {
	if from.Same(to) {
		return nil
	}
	var d difference
	a, b := tree(from.Unnumbered()), tree(to.Unnumbered())
	if (from.Compat == nil) != (to.Compat == nil) && from.Dir() == to.Dir() { // only a spec of GSE or JOB names /
		delete(a, "directory")
		delete(b, "directory")
	}
	d.compare("", a, b)
	return d.fields
}

// tree returns a process as encoding/json has it.
func tree(f *process.Spec) map[string]any {
	var all map[string]any
	text, err := json.Marshal(f)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		panic(err) // not reached: a process of a file is always JSON
	}
	return all
}

// difference collects the values that differ.
type difference struct {
	classes map[string]processfile.Class
	fields  []v1.FieldChange
}

func (d *difference) compare(at string, from, to map[string]any) {
	names := maps.Clone(from)
	if names == nil {
		names = map[string]any{}
	}
	maps.Copy(names, to)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		path := strings.TrimPrefix(at+"."+name, ".")
		a, b := from[name], to[name]
		if reflect.DeepEqual(a, b) {
			continue
		}
		below, wasMap := a.(map[string]any)
		other, isMap := b.(map[string]any)
		if (wasMap || a == nil) && (isMap || b == nil) {
			d.compare(path, below, other)
			continue
		}
		d.fields = append(d.fields, v1.FieldChange{Path: path, Class: string(d.classOf(path)), From: a, To: b})
	}
}

// classOf returns the class of a field, or of the nearest field around it.
func (d *difference) classOf(path string) processfile.Class {
	if d.classes == nil {
		d.classes = map[string]processfile.Class{}
		for _, f := range processfile.Fields() {
			d.classes[f.Path] = f.Class
		}
	}
	for path != "" {
		if class, ok := d.classes[path]; ok {
			return class
		}
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
	}
	return processfile.AtRestart
}
