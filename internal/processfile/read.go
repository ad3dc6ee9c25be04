package processfile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/process"
)

// Document is one document of a process file: some processes of one namespace.
type Document struct {
	File      string
	Namespace string
	// Revision is the revision of the namespace that the document shows; 0 if it says none. It changes nothing.
	Revision  int64
	Processes []Named
	// hostless is set if the processes need no hosts.
	hostless bool
	// defaults are the lines of the fields of defaults, by path.
	defaults map[string]int
}

// Named is a process with its name and its place in the file.
type Named struct {
	Name string
	Line int
	v1.Spec
	// Comments are lines that Write puts above the process. Read does not keep comments.
	Comments []string
	// lines are the lines of the fields, by path.
	lines map[string]int
}

// merging are the fields that defaults merge key by key; of all others the process replaces the default.
func merging() []string {
	return []string{"environment", "limits", "restart", "log", "labels", "after", "timeouts", "rollout"}
}

// withoutDefault are the fields that defaults must not have.
func withoutDefault() []string { return []string{"run", "start", "pid_file"} }

// Source is the text of a file with its name.
type Source struct {
	File string
	Data []byte
}

// Read reads a file with one or more documents, or with a list of files as drover get prints it in JSON. The error is
// Faults, with every fault of the file. Then the documents are outlines, in which others can look for more faults: each
// process has only its hosts, its environment, what it is after, whether it ends by itself, its copies and its rollout.
func Read(file string, data []byte) ([]Document, error) { return ReadAll(Source{file, data}) }

// ReadAll is Read for several files, whose processes may wait for each other.
func ReadAll(sources ...Source) (docs []Document, err error) {
	var faults Faults
	places := map[string]int{}
	for i, s := range sources {
		found, wrong := read(s)
		docs, faults = append(docs, found...), append(faults, wrong...)
		places[s.File] = i
	}
	if faults = append(faults, order(docs)...); len(faults) == 0 {
		return docs, nil
	}
	faults.sort(places)
	return outlines(docs), faults
}

// outlines returns documents with faults for a search for more faults: those with a namespace and processes.
func outlines(docs []Document) (list []Document) {
	for _, d := range docs {
		if namespaceFault(d.Namespace) != "" || len(d.Processes) == 0 {
			continue
		}
		d.Processes = slices.Clone(d.Processes)
		for i := range d.Processes {
			p := &d.Processes[i]
			if p.Copies != nil && (*p.Copies < 1 || *p.Copies > process.MaxCopies) {
				p.Copies = nil
			}
			p.Spec = v1.Spec{
				Run: "true", Hosts: p.Hosts, Environment: p.Environment, After: p.After, Copies: p.Copies, Rollout: p.Rollout,
				Once: !p.neverFinishes(),
			}
		}
		list = append(list, d)
	}
	return list
}

// namespaceFault says what is wrong with the name of a namespace; empty if nothing is.
func namespaceFault(name string) string {
	switch {
	case name == "":
		return "is missing: expected the namespace of the processes"
	case strings.ContainsAny(name, "/*?"):
		return fmt.Sprintf("is %q: expected a name without /, * and ?", name)
	}
	return ""
}

// read reads a file, and finds every fault but those of the order.
func read(s Source) (docs []Document, faults []Fault) {
	nodes, faults := documents(s.Data)
	r := &reader{decoder: decoder{faults: faults, names: fieldNames()}}
	for _, n := range nodes {
		files := []*node{n}
		if n.kind == list {
			files = n.list
		}
		for _, f := range files {
			if f.kind != null {
				docs = append(docs, r.parts(s.File, f)...)
			}
		}
	}
	if len(nodes) == 0 && len(faults) == 0 {
		r.fault(&node{line: 1}, "", "the file is empty: expected namespace and processes")
	}
	r.add(once(docs, checkEach(docs)))
	for i := range r.faults {
		r.faults[i].File = s.File
	}
	return docs, r.faults
}

// ReadSpec reads the fields of one process, without its name and without hosts. The error is Faults.
func ReadSpec(file string, data []byte) (v1.Spec, error) {
	nodes, faults := documents(data)
	var p Named
	d := decoder{faults: faults, names: fieldNames(), lines: map[string]int{}}
	switch {
	case len(nodes) != 1 && len(faults) == 0:
		d.fault(&node{line: 1}, "", "has %d documents: expected one, with the fields of a process", len(nodes))
	case len(faults) == 0:
		p.lines = d.lines
		d.value("", "", nodes[0], reflect.ValueOf(&p.Spec).Elem())
	}
	if len(nodes) == 1 {
		d.add(checkSpec(p))
	}
	for i := range d.faults {
		d.faults[i].File = file
	}
	if len(d.faults) > 0 {
		slices.SortStableFunc(d.faults, func(a, b Fault) int { return a.Line - b.Line })
		return v1.Spec{}, Faults(d.faults)
	}
	return p.Spec, nil
}

// once tells a fault of a default once, if all processes have it.
func once(docs []Document, faults []Fault) []Fault {
	for _, d := range docs {
		type kind struct{ path, text string }
		found, names := map[kind][]int{}, map[string]bool{}
		for _, p := range d.Processes {
			names[p.Name] = true
		}
		for i, f := range faults {
			path := strings.TrimPrefix(f.Path, "processes.")
			for dot, c := range path {
				at := "defaults" + path[dot:]
				if c == '.' && names[path[:dot]] && f.Line > 0 && lineOf(d.defaults, at) == f.Line {
					k := kind{at, f.Text}
					found[k] = append(found[k], i)
				}
			}
		}
		told := map[int]bool{}
		for k, places := range found {
			if len(places) < max(len(d.Processes), 2) {
				continue
			}
			faults[places[0]].Path = k.path
			for _, i := range places[1:] {
				told[i] = true
			}
		}
		var rest []Fault
		for i, f := range faults {
			if !told[i] {
				rest = append(rest, f)
			}
		}
		faults = rest
	}
	return faults
}

type reader struct{ decoder }

// document reads the three fields of a document.
func (r *reader) document(file string, n *node) Document {
	doc := Document{File: file}
	if n.kind != mapping {
		r.fault(n, "", "the document is %s: expected namespace, defaults and processes", show(n))
		return doc
	}
	known := []string{"namespace", "revision", "defaults", "processes"}
	for _, key := range n.keys {
		if !slices.Contains(known, key) {
			hint := r.suggest("", key, known)
			if slices.Contains(r.names, key) {
				hint = " here: expected in processes.NAME, or in defaults"
			}
			r.fault(&node{line: n.lines[key]}, key, "unknown field%s", hint)
		}
	}
	switch name := n.fields["namespace"]; {
	case name == nil || name.kind == null:
		r.fault(n, "namespace", "is missing: expected the namespace of the processes")
	case name.kind == literal:
		r.fault(name, "namespace", "is %s: expected a string: put the value in quotes", show(name))
	case name.kind != text:
		r.fault(name, "namespace", "is %s: expected a string", show(name))
	default:
		doc.Namespace = name.text
		if fault := namespaceFault(name.text); fault != "" {
			r.fault(name, "namespace", "%s", fault)
		}
	}
	if number := n.fields["revision"]; number != nil && number.kind != null {
		r.value("revision", "", number, reflect.ValueOf(&doc.Revision).Elem())
	}
	processes := n.fields["processes"]
	switch {
	case processes == nil || processes.kind == null:
		r.fault(n, "processes", "is missing: expected names with processes")
		return doc
	case processes.kind != mapping:
		r.fault(processes, "processes", "is %s: expected names with processes", show(processes))
		return doc
	}
	before := len(r.faults)
	r.lines = map[string]int{}
	defaults := r.defaults(n.fields["defaults"])
	doc.defaults = r.lines
	doc.hostless = len(r.faults) > before // the hosts may be in defaults that have faults
	for _, name := range processes.keys {
		if name == "" {
			r.fault(&node{line: processes.lines[name]}, "processes", "name is empty")
			continue
		}
		doc.Processes = append(doc.Processes, r.process(name, processes, defaults))
	}
	return doc
}

// defaults reads the defaults, for their faults alone: each process decodes them again, merged with its own fields.
func (r *reader) defaults(n *node) *node {
	if n == nil || n.kind == null {
		return nil
	}
	var p v1.Spec
	before := len(r.faults)
	r.value("defaults", "", n, reflect.ValueOf(&p).Elem())
	for _, key := range withoutDefault() {
		if n.kind == mapping && n.fields[key] != nil {
			r.fault(n.fields[key], "defaults."+key, "cannot be a default: give it to each process")
		}
	}
	if len(r.faults) > before {
		return nil // told once, and not again for each process
	}
	return n
}

func (r *reader) process(name string, all, defaults *node) Named {
	own := all.fields[name]
	path := "processes." + name
	if strings.ContainsAny(name, "*?") {
		r.fault(&node{line: all.lines[name]}, path, "the name %q is a pattern of names: expected a name without * and ?", name)
	}
	if own.kind == null {
		own = &node{line: all.lines[name], kind: mapping}
	}
	one := Named{Name: name, Line: all.lines[name]}
	if own.kind == mapping {
		own = merge(defaults, own, merging())
	}
	r.lines = map[string]int{}
	r.value(path, "", own, reflect.ValueOf(&one.Spec).Elem())
	one.lines = r.lines
	return one
}

// merge returns a mapping with the fields of both; those of own count, and null takes a default away. Of the fields in
// deep both are merged likewise.
func merge(defaults, own *node, deep []string) *node {
	if defaults == nil {
		return own
	}
	out := &node{line: own.line, kind: mapping, fields: maps.Clone(defaults.fields), lines: maps.Clone(defaults.lines)}
	out.keys = slices.Clone(defaults.keys)
	for _, key := range own.keys {
		value, base := own.fields[key], defaults.fields[key]
		if base == nil {
			out.keys = append(out.keys, key)
		} else if value.kind == null {
			delete(out.fields, key)
			out.keys = slices.DeleteFunc(out.keys, func(name string) bool { return name == key })
			continue
		} else if slices.Contains(deep, key) && base.kind == mapping && value.kind == mapping {
			value = merge(base, value, nil)
		}
		out.fields[key], out.lines[key] = value, own.lines[key]
	}
	return out
}

// fieldNames are all fields of a process, by path.
func fieldNames() (names []string) {
	eachField("", reflect.TypeFor[v1.Spec](), func(path string, _ reflect.StructField) { names = append(names, path) })
	return names
}

// eachField calls fn for every field below a type, in order.
func eachField(path string, t reflect.Type, fn func(path string, f reflect.StructField)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || isSpecial(t) {
		return
	}
	for f := range t.Fields() {
		if tag(f) == "" {
			continue
		}
		at := strings.TrimPrefix(path+"."+tag(f), ".")
		fn(at, f)
		eachField(at, f.Type, fn)
	}
}

// isSpecial reports whether a type reads its own text.
func isSpecial(t reflect.Type) bool { return special(reflect.New(t).Elem()) }
