package liveness

import (
	"errors"
	"fmt"
	"strings"

	"drover/internal/agent/launch"
	"drover/internal/agent/procfs"
)

// Marks returns the marks in the environments of living processes, as far as this process may read them. A process
// without its parent's environment has no mark. Marks reads a file of every process on the host.
func Marks(proc procfs.FS) (map[string]bool, error) {
	pids, err := proc.PIDs()
	if err != nil {
		return nil, fmt.Errorf("cannot look for marks: %w", err)
	}
	marks := map[string]bool{}
	for _, pid := range pids {
		if mark, _ := MarkOf(proc, pid); mark != "" {
			marks[mark] = true
		}
	}
	return marks, nil
}

// MarkOf returns the mark in the environment of a process: empty if it has none, or if this process may not read it.
// It is not certain while the process executes a program, because then nobody can read its environment.
func MarkOf(proc procfs.FS, pid int) (mark string, certain bool) {
	env, err := proc.Environ(pid)
	for _, variable := range env {
		if mark, ok := strings.CutPrefix(variable, launch.MarkVariable+"="); ok {
			return mark, true
		}
	}
	return "", !errors.Is(err, procfs.ErrExecuting)
}
