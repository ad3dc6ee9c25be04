package importer

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"drover/internal/process"
)

// joinInstances makes copies of the instances of a template if their names are numbers and nothing else differs.
func (r *Import) joinInstances() {
	families := map[string][]int{}
	for i := range r.Processes {
		if prefix, _, ok := numbered(&r.Processes[i]); ok {
			families[prefix] = append(families[prefix], i)
		}
	}
	gone := map[int]bool{}
	renamed := map[string]string{}
	for _, prefix := range slices.Sorted(maps.Keys(families)) {
		members := families[prefix]
		if len(members) < 2 || len(members) > process.MaxCopies || r.has(prefix) || !r.equal(members) {
			continue
		}
		slices.SortFunc(members, func(a, b int) int {
			_, x, _ := numbered(&r.Processes[a])
			_, y, _ := numbered(&r.Processes[b])
			return cmp.Compare(x, y)
		})
		var origins []string
		for n, i := range members {
			origins = append(origins, r.Processes[i].Origins...)
			renamed[r.Processes[i].Name] = process.CopyName(prefix, n+1)
			gone[i] = true
		}
		first, count := &r.Processes[slices.Min(members)], len(members)
		delete(gone, slices.Min(members))
		first.Name, first.Copies, first.Origins = prefix, &count, origins
		first.Comments = append(first.Comments, wrapped([]string{fmt.Sprintf("%s to %s are %s@1 to %s@%d", origins[0],
			origins[count-1], prefix, prefix, count)})...)
	}
	var kept []Process
	for i := range r.Processes {
		if !gone[i] {
			kept = append(kept, r.Processes[i])
			rename(r.Processes[i].After, renamed)
		}
	}
	r.Processes = kept
}

// numbered returns the parts of the instance of a template with a number for a name.
func numbered(p *Process) (prefix string, number int, ok bool) {
	prefix, instance, found := strings.Cut(strings.TrimSuffix(p.Origins[0], service), "@")
	number, err := strconv.Atoi(instance)
	return prefix, number, found && err == nil && number >= 0 && p.Run != "" && p.Schedule == nil
}

// equal reports whether processes differ in their names alone.
func (r *Import) equal(members []int) bool {
	first := &r.Processes[members[0]]
	return !slices.ContainsFunc(members[1:], func(i int) bool {
		p := &r.Processes[i]
		return !reflect.DeepEqual(first.Spec, p.Spec) || !slices.Equal(first.Comments, p.Comments)
	})
}

// rename replaces the names of processes.
func rename(after, names map[string]string) {
	for old, state := range maps.Clone(after) {
		if name, ok := names[old]; ok {
			delete(after, old)
			after[name] = state
		}
	}
}
