package processfile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"drover/internal/process"
)

// after checks the states in which others must be.
func (c *checker) after() {
	for _, name := range slices.Sorted(maps.Keys(c.After)) {
		if name == "" || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") {
			c.fault("after", "has the name %q: expected NAME or NAMESPACE/NAME", clip(name))
		}
		if state := c.After[name]; !slices.Contains(afterStates(), state) {
			c.fault("after."+name, "is %q: expected started, ready or finished", clip(state))
		}
	}
}

// order finds the processes that wait for themselves, and those that wait for an end that never comes. The server knows
// more: it checks the names, too.
func order(docs []Document) (faults []Fault) {
	known := entriesOf(docs)
	edges, files := map[string][]string{}, map[string]string{}
	for _, d := range docs {
		for j := range d.Processes {
			p := &d.Processes[j]
			for _, name := range slices.Sorted(maps.Keys(p.After)) {
				full := name
				if !strings.Contains(name, "/") {
					full = d.Namespace + "/" + name
				}
				self := d.Namespace + "/" + p.Name
				files[self] = d.File
				called := known.called(full)
				edges[self] = append(edges[self], called...)
				if at := "processes." + p.Name + ".after." + name; p.After[name] == string(process.AfterFinished) && full != self &&
					slices.ContainsFunc(called, func(other string) bool { return known.all[other].neverFinishes() }) {
					faults = append(faults, Fault{
						File: d.File, Line: cmp.Or(lineOf(p.lines, at), p.Line), Path: at,
						Text: "is finished, and drover relaunches " + full + " after each end: expected started or ready here, or " +
							"once: true there",
					})
				}
			}
		}
	}
	for _, path := range cycles(edges) {
		first := known.all[path[0]]
		faults = append(faults, Fault{
			File: files[path[0]], Line: first.Line, Path: "processes." + first.Name + ".after",
			Text: fmt.Sprintf("the process waits for itself: %s", strings.Join(path, " → ")),
		})
	}
	return faults
}

// neverFinishes reports whether drover keeps the process running, whatever its end is.
func (p *Named) neverFinishes() bool {
	return !p.Once && !p.OnDemand && p.Schedule == nil &&
		(p.Restart == nil || p.Restart.When == "" || p.Restart.When == process.Always)
}

// cycles returns paths along edges that end where they begin, of those without a common name one at least.
func cycles(edges map[string][]string) (all [][]string) {
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

// Circles returns paths of processes that wait for each other, each back to its first. copies has the copies of the
// processes that have some.
func Circles(specs map[process.ID]*process.Spec, copies map[process.ID][]process.ID) [][]string {
	edges := map[string][]string{}
	for id, spec := range specs {
		for name := range spec.After {
			other := process.Peer(id, name)
			edges[id.String()] = append(edges[id.String()], other.String(), allCopies(other))
		}
		slices.Sort(edges[id.String()])
	}
	for of, all := range copies {
		for _, one := range all {
			edges[allCopies(of)] = append(edges[allCopies(of)], one.String())
		}
		slices.Sort(edges[allCopies(of)])
	}
	paths := cycles(edges)
	for i, path := range paths {
		path = slices.DeleteFunc(path, func(step string) bool { return strings.HasSuffix(step, "@") })
		if n := len(path); n == 1 || n > 1 && path[0] != path[n-1] { // it began with all copies
			path = append(path, path[0])
		}
		paths[i] = path
	}
	return paths
}

// allCopies stands for the copies of a process in the search for circles: a process may wait for a thousand copies.
func allCopies(id process.ID) string { return id.String() + "@" }
