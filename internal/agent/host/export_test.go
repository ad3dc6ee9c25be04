package host

import "drover/internal/agent/cgroup"

// SetTree has control groups made elsewhere from now on.
func (h *Host) SetTree(t *cgroup.Tree) { h.tree = t }
