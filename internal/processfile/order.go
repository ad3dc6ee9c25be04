package processfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// CheckOrder checks after over all files of a call. Read has found the faults of each file by itself.
func CheckOrder(docs []Document) Faults { return order(docs) }

// order checks after: its values, its names and that no process waits for itself. A name that has its namespace may
// stand in a file that is not read now: the server checks it.
func order(docs []Document) (faults []Fault) {
	known := entriesOf(docs)
	edges, files := map[string][]string{}, map[string]string{}
	for _, d := range docs {
		for j := range d.Processes {
			p := &d.Processes[j]
			c := &checker{Named: p, path: "processes." + p.Name}
			for _, name := range slices.Sorted(maps.Keys(p.After)) {
				full := name
				if !strings.Contains(name, "/") {
					full = d.Namespace + "/" + name
				}
				if state := p.After[name]; !slices.Contains(afterStates(), state) {
					c.fault("after."+name, "is %q: expected started, ready or finished", clip(state))
				}
				self := d.Namespace + "/" + p.Name
				files[self] = d.File
				edges[self] = append(edges[self], known.called(full)...)
			}
			faults = append(faults, c.faults...)
		}
	}
	for _, path := range Cycles(edges) {
		first := known.all[path[0]]
		faults = append(faults, Fault{
			File: files[path[0]], Line: first.Line, Path: "processes." + first.Name + ".after",
			Text: fmt.Sprintf("the process waits for itself: %s", strings.Join(path, " → ")),
		})
	}
	return faults
}

// Cycles returns paths along edges that end where they begin, of those without a common name one at least.
func Cycles(edges map[string][]string) (all [][]string) {
	const (
		open = 1
		done = 2
	)
	state, told := map[string]int{}, map[string]bool{}
	var path []string
	var visit func(name string)
	visit = func(name string) {
		switch state[name] {
		case done:
			return
		case open:
			found := slices.Clone(path[slices.Index(path, name):])
			if !slices.ContainsFunc(found, func(n string) bool { return told[n] }) {
				all = append(all, append(found, name))
			}
			for _, n := range found {
				told[n] = true
			}
			return
		}
		state[name] = open
		path = append(path, name)
		for _, next := range edges[name] {
			visit(next)
		}
		path = path[:len(path)-1]
		state[name] = done
	}
	for _, name := range slices.Sorted(maps.Keys(edges)) {
		visit(name)
	}
	return all
}

// Peers returns the processes of other namespaces that a namespace is after and that the documents have, too, as
// NAMESPACE/NAME.
func Peers(docs []Document, namespace string) (names []string) {
	known := entriesOf(docs)
	for _, d := range docs {
		if d.Namespace != namespace {
			continue
		}
		for i := range d.Processes {
			for name := range d.Processes[i].After {
				other, _, full := strings.Cut(name, "/")
				if full && other != namespace && len(known.called(name)) > 0 {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sorted returns namespaces with each behind those that its processes are after, else in their order. Namespaces that
// are after each other keep their order.
func sorted(namespaces []string, docs []Document) (list []string) {
	began := map[string]bool{}
	var visit func(namespace string)
	visit = func(namespace string) {
		if began[namespace] {
			return
		}
		began[namespace] = true
		for _, name := range Peers(docs, namespace) {
			other, _, _ := strings.Cut(name, "/")
			visit(other)
		}
		list = append(list, namespace)
	}
	for _, namespace := range namespaces {
		visit(namespace)
	}
	return list
}
