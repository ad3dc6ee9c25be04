package host

import (
	"errors"
	"fmt"
	"os"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/instance"
	"drover/internal/agent/launch"
	"drover/internal/process"
	"drover/internal/spec"
)

// limit puts hard limits on the group of a run. If a limit fails, the run goes on without it: LimitNotes reports that.
func (h *Host) limit(id string, group *cgroup.Group, hard spec.GroupLimits) {
	if group == nil || hard == (spec.GroupLimits{}) {
		return
	}
	for _, u := range group.Limit(cgroup.Limits(hard)) {
		h.log.Warn("cannot enforce hard limit", "run", id, "limit", u.Limit, "error", u.Err)
	}
}

// LimitNotes says, in a caller's words, which hard limits this host cannot keep, or could not keep at the last run, and
// which other limits a command gets only as near as they can be; empty if it keeps all.
func (h *Host) LimitNotes(s *process.Spec) []string {
	_, notes := launch.Nearest(s.Execution())
	hard := s.GroupLimits()
	if hard == (spec.GroupLimits{}) {
		return notes
	}
	for _, u := range h.tree.Unenforced(cgroup.Limits(hard)) {
		notes = append(notes, fmt.Sprintf("limits.%s cannot be enforced on this host: %v", u.Limit, u.Err))
	}
	return notes
}

// Relimit changes the limits of the live members of a scope, which has run with the limits of one spec, to those of
// another. It returns by name the limits that it could not change, and why. It does not touch the limit of the stack,
// which counts at an exec.
func (h *Host) Relimit(s instance.Scope, was, is *process.Spec) map[string]string {
	failed := map[string]string{}
	if was.GroupLimits() != is.GroupLimits() {
		h.regroup(s.Run, was, is, failed)
	}
	values := is.RLimits()
	for _, name := range spec.ChangedRLimits(was, is) {
		value, limited := values.Get(name)
		if !limited {
			failed[name] = "the process keeps its limit until then"
		} else if err := h.relimit(s, name, value); err != nil {
			failed[name] = err.Error()
		}
	}
	return failed
}

// regroup changes the limits of the control group of a run.
func (h *Host) regroup(run string, was, is *process.Spec, failed map[string]string) {
	group, ok := h.groupOf(run)
	if !ok {
		for _, name := range spec.ChangedGroupLimits(was, is) {
			failed[name] = "the process runs in no control group of drover"
		}
		return
	}
	defer group.Close() //nolint:errcheck // nothing was written to it here
	for _, u := range group.Change(cgroup.Limits(was.GroupLimits()), cgroup.Limits(is.GroupLimits())) {
		failed[u.Limit] = u.Err.Error()
	}
}

// mostRounds bounds the search for processes that are born while others get their limits.
const mostRounds = 10

// relimit sets one limit of all members of a scope. A member that is born meanwhile may have the limit of its parent
// from before, so drover looks again until there is none.
func (h *Host) relimit(s instance.Scope, name string, value int64) (failed error) {
	done := map[instance.Identity]bool{}
	for range mostRounds {
		found := false
		for _, id := range h.Survivors(s) {
			if done[id] {
				continue
			}
			done[id], found = true, true
			err := launch.Relimit(id.PID, name, value, func() bool { return h.fs.Same(id) })
			if err != nil && !errors.Is(err, os.ErrProcessDone) && failed == nil {
				failed = err
			}
		}
		if !found {
			break
		}
	}
	return failed
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

// Marks returns the marks of the group of a run.
func (h *Host) Marks(run string) instance.Marks {
	m, err := h.tree.Marks(run)
	if err != nil {
		h.log.Warn("cannot read what the processes of a run had", "run", run, "error", err)
	}
	return instance.Marks(m)
}

// AnyOOM returns how many processes of the whole host the kernel has killed since the boot because memory ran out.
func (h *Host) AnyOOM() (uint64, error) { return h.fs.OOMKills() }
