package processfile

import (
	"fmt"
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

// Error has a line for each fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].Error()
	}
	return strings.Join(lines, "\n")
}
