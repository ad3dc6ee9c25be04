package host

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/launch"
	"drover/internal/agent/liveness"
)

// Sweep drops the groups and outputs of runs that are over, and cuts the outputs that daemons still write to. needed
// returns the runs to keep: the latest run of each known process, and the runs that are under way.
func (h *Host) Sweep(needed func() map[string]bool) {
	h.sampler.Tidy()
	h.accounts.tidy()
	groups, err := h.tree.IDs()
	if err != nil {
		h.log.Warn("cannot list control groups", "error", err)
	}
	files := h.runsOnDisk()
	// Ask after the lists are read: a listed run that is neither needed nor active is over.
	keep, active := needed(), h.active()
	living := map[string]bool{}
	for _, id := range groups {
		// Keep an empty group: it proves that nothing is left of a run. Without it EndTree must search all of /proc.
		living[id] = active[id] || keep[id] || h.sweepGroup(id)
	}
	if h.tree.Mode() == cgroup.ModeNone &&
		slices.ContainsFunc(files, func(id string) bool { return !keep[id] && !active[id] }) {
		// Without groups, a leftover may still write to the output of a run, and that file must not grow unseen.
		if living, err = liveness.Marks(h.fs); err != nil {
			h.log.Warn("cannot remove unused outputs", "error", err)
			return
		}
	}
	if h.notices != nil {
		h.notices.Keep(func(run string) bool { return active[run] || keep[run] || living[run] })
	}
	for _, id := range files {
		switch {
		case active[id]:
		case keep[id] || living[id] || launch.StillWritten(filepath.Join(h.outputs, id)):
			// Keep a file that somebody writes to: without a name drover could not cut it.
			h.trimOutput(id)
			h.cutSignal(id)
		default:
			h.Discard(id)
		}
	}
}

// runsOnDisk returns the runs that have an output or a proof on disk.
func (h *Host) runsOnDisk() (ids []string) {
	ids = h.proofs.IDs()
	for _, dir := range []string{h.outputs, h.signals} {
		files, err := os.ReadDir(dir)
		if err != nil {
			h.log.Warn("cannot list the files of commands", "error", err)
		}
		for _, f := range files {
			ids = append(ids, f.Name())
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// active returns the runs that are under way, or whose output has not been dropped yet.
func (h *Host) active() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	active := make(map[string]bool, len(h.runs))
	for id := range h.runs {
		active[id] = true
	}
	return active
}

// sweepGroup removes an empty group and reports whether the group still exists.
func (h *Host) sweepGroup(id string) bool {
	group, ok := h.tree.Group(id)
	if !ok {
		return false
	}
	defer group.Close() //nolint:errcheck // opened only for a look
	if strings.HasSuffix(id, questionSuffix) {
		// The question of an earlier agent hangs, and nobody waits for its answer.
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		if err := group.Kill(ctx); err != nil {
			h.log.Warn("cannot end the probe of an earlier agent", "run", id, "error", err)
		}
	}
	populated, err := group.Populated()
	if err == nil && !populated {
		err = group.Remove()
	}
	return err != nil || populated
}
