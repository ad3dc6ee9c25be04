package liveness

import (
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
		environ, err := proc.Environ(pid)
		if err != nil {
			continue // the process has just ended, or belongs to another user and not to drover
		}
		for _, variable := range environ {
			if mark, ok := strings.CutPrefix(variable, launch.MarkVariable+"="); ok {
				marks[mark] = true
			}
		}
	}
	return marks, nil
}
