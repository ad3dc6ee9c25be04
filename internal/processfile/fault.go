package processfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one error of a file.
type Fault struct {
	// File is the name of the file, or empty. Line counts from 1; it is 0 if the source has no lines.
	File string
	Line int
	// Path names the field, such as processes.api.restart.delay. It is empty for the whole document.
	Path string
	Text string
	// lacks tells that the part at Path lacks a field. A fault of a field inside says more.
	lacks bool
}

// Error is "FILE:LINE: PATH: TEXT", without the parts that are empty.
func (f Fault) Error() string {
	var parts []string
	switch {
	case f.File != "" && f.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d", f.File, f.Line))
	case f.File != "":
		parts = append(parts, f.File)
	case f.Line > 0:
		parts = append(parts, fmt.Sprintf("line %d", f.Line))
	}
	if f.Path != "" {
		parts = append(parts, f.Path)
	}
	return strings.Join(append(parts, f.Text), ": ")
}

// Faults are all errors of one or more files.
type Faults []Fault

// With returns the faults of files with those that others have found in their outlines, except where a fault is told
// already. They are in the order of the lines of each file.
func (f Faults) With(found Faults) Faults {
	all := slices.Clone(f)
	for _, other := range found {
		if !slices.ContainsFunc(f, func(own Fault) bool { return own.covers(&other) }) {
			all = append(all, other)
		}
	}
	places := map[string]int{}
	for _, fault := range all {
		if _, known := places[fault.File]; !known {
			places[fault.File] = len(places)
		}
	}
	all.sort(places)
	return all
}

// sort orders faults by the places of their files, then by line.
func (f Faults) sort(places map[string]int) {
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(places[a.File]-places[b.File], a.Line-b.Line)
	})
}

// covers reports whether a fault makes another one needless: one of the same field or of an entry of its list, or one
// about hosts that are missing because of the fault.
func (f *Fault) covers(other *Fault) bool {
	same := f.Path == other.Path
	switch {
	case f.File != other.File: // a circle may be told in either file
		return same && f.Text == other.Text
	case same, strings.HasPrefix(other.Path, f.Path+"["):
		return true
	}
	_, inside := cutField(other.Path, f.Path)
	around := strings.HasPrefix(f.Path, other.Path)
	return strings.HasPrefix(other.Text, "is missing") &&
		(inside || around || strings.HasPrefix(f.Path, "defaults"))
}

// Error has a line for each fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].Error()
	}
	return strings.Join(lines, "\n")
}
