package liveness

import (
	"fmt"
	"strings"

	"drover/internal/agent/launch"
	"drover/internal/agent/procfs"
)

// Marks returns the marks that living processes bear, as far as this process may see what they were started with. A
// process that was started without the environment of who started it bears none. It reads something of every process on
// the host.
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
