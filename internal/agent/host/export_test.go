package host

import (
	"drover/internal/agent/cgroup"
	"drover/internal/agent/locate"
	"drover/internal/agent/procfs"
)

// SetTree has control groups made elsewhere from now on.
func (h *Host) SetTree(t *cgroup.Tree) { h.tree = t }

// SetFind has processes looked for by another function.
func (h *Host) SetFind(find func(procfs.FS, locate.Query) locate.Result) { h.find = find }
