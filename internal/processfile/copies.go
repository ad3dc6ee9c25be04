package processfile

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/process"
)

// Expand returns the processes that an entry of a file stands for, without Copies: the process itself, or its copies.
// Copies are equal, but each has a runtime directory of its own.
func Expand(p Named) []Named {
	if p.Copies == nil {
		return []Named{p}
	}
	var all []Named
	for n := 1; n <= min(*p.Copies, process.MaxCopies); n++ {
		one := p
		one.Name, one.Copies = process.CopyName(p.Name, n), nil
		if p.RuntimeDirectory != "" {
			one.RuntimeDirectory = process.CopyName(p.RuntimeDirectory, n)
		}
		all = append(all, one)
	}
	return all
}

// longest returns the longest name of the processes of an entry.
func longest(p Named) string {
	if p.Copies == nil {
		return p.Name
	}
	return process.CopyName(p.Name, *p.Copies)
}

// entries finds the entries of files by the names of their processes, NAMESPACE/NAME.
type entries struct {
	all map[string]*Named
	// copies has the entries of single copies by the name of all copies.
	copies map[string][]string
}

func entriesOf(docs []Document) entries {
	e := entries{map[string]*Named{}, map[string][]string{}}
	for i := range docs {
		for j := range docs[i].Processes {
			p, before := &docs[i].Processes[j], docs[i].Namespace+"/"
			e.all[before+p.Name] = p
			if base, number := process.CutCopy(p.Name); number > 0 {
				e.copies[before+base] = append(e.copies[before+base], before+p.Name)
			}
		}
	}
	return e
}

// called returns the entries that a name in after means.
func (e *entries) called(name string) []string {
	names := slices.Clone(e.copies[name])
	if e.all[name] != nil {
		return append(names, name)
	}
	base, number := process.CutCopy(name)
	if p := e.all[base]; number > 0 && p != nil && p.Copies != nil && number <= *p.Copies {
		names = append(names, base)
	}
	return names
}

// CheckName finds what is wrong with the name of a process that is in no file.
func CheckName(name string, f v1.Spec) Faults {
	c := checker{Named: &Named{Name: name, Spec: f}}
	c.copies()
	return c.faults
}

// copies checks the number of copies, and the name: the names of copies have @.
func (c *checker) copies() {
	switch base, number := process.CutCopy(c.Name); {
	case !strings.Contains(c.Name, "@") || c.Compat != nil:
	case number == 0 || strings.Contains(base, "@"):
		c.fault("", "has @ in its name, which is for copies: expected a name without @, or NAME@NUMBER")
	case number > process.MaxCopies:
		c.fault("", "is copy %d: expected 1 to %d", number, process.MaxCopies)
	case c.Start != "":
		c.fault("", "is the name of a copy: only a process with run can have copies")
	case c.Copies != nil:
		c.fault("copies", "is not for a copy: remove @%d from the name", number)
	}
	switch n := c.Copies; {
	case n == nil:
	case c.Start != "" || c.Compat != nil:
		c.fault("copies", "stands beside start: only a process with run can have copies")
	case *n == 0:
		c.fault("copies", "is 0: expected 1 to %d. drover stop stops all copies, and a file without the process "+
			"removes them with --prune", process.MaxCopies)
	case *n < 0 || *n > process.MaxCopies:
		c.fault("copies", "is %d: expected 1 to %d", *n, process.MaxCopies)
	}
}

// joined replaces the copies of a process on a host by one entry if these are all copies from 1 on, and all are equal.
func joined(placed []Placed) []Placed {
	placed = slices.Clone(placed)
	type family struct{ host, selected, name string }
	families := map[family][]int{}
	for i, p := range placed {
		name := p.Name
		if p.Spec.Run != "" {
			name, _ = process.CutCopy(p.Name)
		}
		f := family{p.Host, p.Select, name}
		families[f] = append(families[f], i)
	}
	gone := map[int]bool{}
	for f, members := range families {
		if !whole(placed, f.name, members) {
			continue
		}
		for _, i := range members[1:] {
			gone[i] = true
		}
		n, first := len(members), &placed[members[0]]
		_, number := process.CutCopy(first.Name)
		first.Spec, _ = unnumbered(first.Spec, number)
		first.Name, first.Spec.Copies = f.name, &n
	}
	all := make([]Placed, 0, len(placed)-len(gone))
	for i := range placed {
		if !gone[i] {
			all = append(all, placed[i])
		}
	}
	return all
}

// whole reports whether processes are all copies of a name from 1 on, and equal.
func whole(placed []Placed, name string, members []int) bool {
	seen := make([]bool, len(members)+1)
	first := ""
	for _, i := range members {
		p := &placed[i]
		_, number := process.CutCopy(p.Name)
		if p.Name == name || p.Single || number > len(members) || number > process.MaxCopies || seen[number] {
			return false
		}
		seen[number] = true
		spec, ok := unnumbered(p.Spec, number)
		if !ok {
			return false
		}
		text, _ := json.Marshal(spec) // a process of a file always encodes
		if first == "" {
			first = string(text)
		}
		if string(text) != first {
			return false
		}
	}
	return true
}

// unnumbered returns the spec that Expand has made that of a copy of. ok is false if there is none.
func unnumbered(f v1.Spec, number int) (all v1.Spec, ok bool) {
	if f.RuntimeDirectory == "" {
		return f, true
	}
	base, n := process.CutCopy(f.RuntimeDirectory)
	f.RuntimeDirectory = base
	return f, n == number
}

// Numbers shows the numbers of copies, as in @1-4,7; nothing if there are none.
func Numbers(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		part := strconv.Itoa(numbers[i])
		if last > i {
			part += "-" + strconv.Itoa(numbers[last])
		}
		parts, i = append(parts, part), last+1
	}
	if parts == nil {
		return ""
	}
	return "@" + strings.Join(parts, ",")
}

// Steps returns the number of processes on hosts that a change of a plan changes; 0 if it changes nothing.
func Steps(c *v1.Change) int {
	if c.Op == "" && c.Action != v1.ActionChange {
		return 0
	}
	return len(c.Hosts) * max(len(c.Copies), 1)
}
