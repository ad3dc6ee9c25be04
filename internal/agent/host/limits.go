package host

import (
	"fmt"

	"drover/internal/agent/cgroup"
	"drover/internal/process"
)

// limit puts hard limits on the group of a run. If a limit fails, the run goes on without it: LimitNotes reports that.
func (h *Host) limit(id string, group *cgroup.Group, hard process.HardLimits) {
	if group == nil {
		return
	}
	for _, u := range group.Limit(cgroup.Limits(hard)) {
		h.log.Warn("cannot enforce hard limit", "run", id, "limit", u.Limit, "error", u.Err)
	}
}

// LimitNotes says, in a caller's words, which hard limits this host cannot keep, or could not keep at the last run;
// empty if it keeps all.
func (h *Host) LimitNotes(hard process.HardLimits) []string {
	var notes []string
	for _, u := range h.tree.Unenforced(cgroup.Limits(hard)) {
		notes = append(notes, fmt.Sprintf("hard_limits.%s cannot be enforced on this host: %v", u.Limit, u.Err))
	}
	return notes
}

// OOM returns how many processes of a run the kernel killed because memory ran out. It is 0 if the host does not count
// them, and after the group of the run is gone.
func (h *Host) OOM(run string) int {
	n, err := h.tree.OOMKilled(run)
	if err != nil {
		h.log.Warn("cannot read memory events", "run", run, "error", err)
	}
	return n
}
