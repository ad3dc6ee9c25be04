package processfile

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	v1 "drover/api/v1"
)

// Placed is a process on one host, or on the hosts of a selection in force.
type Placed struct {
	Name, Host, Select string
	Spec               v1.Spec
	// Single keeps a copy apart from the other copies, because not all of them are known.
	Single bool
}

// Group returns the processes of a namespace as one file. Equal copies on a host are one process with their number. A
// process that differs between hosts is in several parts of the file: the forms of selections come first, then the form
// that most hosts have.
func Group(namespace string, placed []Placed) v1.File {
	placed = joined(placed)
	type form struct {
		text string
		spec v1.Spec // its hosts are those of the form
	}
	forms := map[string][]*form{}
	for _, p := range placed {
		text, _ := json.Marshal(p.Spec) // a process of a file always encodes
		at := slices.IndexFunc(forms[p.Name], func(f *form) bool {
			return f.text == string(text) && f.spec.Hosts.Select == p.Select
		})
		if at < 0 {
			at = len(forms[p.Name])
			p.Spec.Hosts.Select = p.Select
			forms[p.Name] = append(forms[p.Name], &form{string(text), p.Spec})
		}
		if found := forms[p.Name][at]; p.Select == "" {
			found.spec.Hosts.Names = append(found.spec.Hosts.Names, p.Host)
		}
	}
	file := v1.File{Namespace: namespace, Processes: map[string]v1.Spec{}}
	for _, name := range slices.Sorted(maps.Keys(forms)) {
		slices.SortStableFunc(forms[name], func(a, b *form) int {
			return cmp.Or(cmp.Compare(b.spec.Hosts.Select, a.spec.Hosts.Select),
				cmp.Compare(len(b.spec.Hosts.Names), len(a.spec.Hosts.Names)), cmp.Compare(a.text, b.text))
		})
		for i, f := range forms[name] {
			slices.Sort(f.spec.Hosts.Names)
			if i == 0 {
				file.Processes[name] = f.spec
				continue
			}
			if i > len(file.More) {
				file.More = append(file.More, map[string]v1.Spec{})
			}
			file.More[i-1][name] = f.spec
		}
	}
	return file
}

// Documents returns a file as the documents that Write takes, with the processes by name.
func Documents(f v1.File) (docs []Document) {
	for _, part := range append([]map[string]v1.Spec{f.Processes}, f.More...) {
		d := Document{Namespace: f.Namespace, Revision: f.Revision}
		for _, name := range slices.Sorted(maps.Keys(part)) {
			d.Processes = append(d.Processes, Named{Name: name, Spec: part[name]})
		}
		docs = append(docs, d)
	}
	return docs
}

// Files returns documents as one file for each namespace. A namespace is behind those that its processes are after;
// otherwise the order is that of the documents.
func Files(docs []Document) (files []v1.File) {
	var namespaces []string
	for _, d := range docs {
		if !slices.Contains(namespaces, d.Namespace) {
			namespaces = append(namespaces, d.Namespace)
		}
	}
	for _, namespace := range sorted(namespaces, docs) {
		f := v1.File{Namespace: namespace, Processes: map[string]v1.Spec{}}
		for _, d := range docs {
			if d.Namespace != namespace {
				continue
			}
			for _, p := range d.Processes {
				put(&f, p)
			}
		}
		files = append(files, f)
	}
	return files
}

// put adds a process to the first part of a file that does not have its name yet.
func put(f *v1.File, p Named) {
	for _, part := range append([]map[string]v1.Spec{f.Processes}, f.More...) {
		if _, there := part[p.Name]; !there {
			part[p.Name] = p.Spec
			return
		}
	}
	f.More = append(f.More, map[string]v1.Spec{p.Name: p.Spec})
}

// Place returns the faults of a v1.File with their places in the documents that the file was made of.
func Place(docs []Document, namespace string, found []v1.FieldError) (faults Faults) {
	for _, f := range found {
		faults = append(faults, place(docs, namespace, Fault{Path: f.Field, Text: f.Detail}))
	}
	return faults
}

// Further adds to the faults of files those that a server finds in their outlines. ask returns the faults that it finds
// in the file of one namespace, with the peers as Peers returns them.
func (f Faults) Further(outlines []Document, ask func(file v1.File, peers []string) []v1.FieldError) Faults {
	var found Faults
	for _, file := range Files(outlines) {
		found = append(found, Place(outlines, file.Namespace, ask(file, Peers(outlines, file.Namespace)))...)
	}
	return f.With(found)
}

func place(docs []Document, namespace string, f Fault) Fault {
	for i := range docs {
		for j := range docs[i].Processes {
			p := &docs[i].Processes[j]
			c := &checker{Named: p, path: "processes." + p.Name}
			field, ok := cutField(f.Path, c.path)
			if !ok || docs[i].Namespace != namespace {
				continue
			}
			c.fault(field, "%s", f.Text)
			c.faults[0].File = docs[i].File
			return c.faults[0]
		}
	}
	return f
}

// cutField returns the part of a path that is behind the path of a process.
func cutField(path, process string) (string, bool) {
	switch {
	case path == process:
		return "", true
	case len(path) > len(process) && path[:len(process)] == process && path[len(process)] == '.':
		return path[len(process)+1:], true
	}
	return "", false
}
