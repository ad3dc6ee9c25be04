package host

import (
	"time"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/locate"
	"drover/internal/agent/procfs"
)

// SetTree has control groups made elsewhere from now on.
func (h *Host) SetTree(t *cgroup.Tree) { h.tree = t }

// SetFind has processes looked for by another function, which is waited for so long.
func (h *Host) SetFind(find func(procfs.FS, locate.Query) locate.Result, patience time.Duration) {
	h.find, h.files = find, newFileProber(patience)
}

// UnitIn is unitIn.
func UnitIn(text string) string { return unitIn(text) }

// SetUnits replaces the directory with the links of active units.
func (h *Host) SetUnits(dir string) { h.units = dir }
