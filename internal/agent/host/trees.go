package host

import (
	"context"
	"slices"
	"strings"
	"time"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
)

// EndTree implements operation.Trees.
func (h *Host) EndTree(ctx context.Context, s instance.Scope, grace time.Duration) ([]liveness.Member, []int, error) {
	tree, held, release := h.treeOf(s)
	defer release()
	if tree.Contained && len(tree.FormerMembers) == 0 && !slices.ContainsFunc(tree.Groups, func(g *cgroup.Group) bool {
		populated, err := g.Populated()
		return err != nil || populated
	}) {
		return nil, nil, nil
	}
	ended, left, err := liveness.EndTree(ctx, h.looks, tree, grace)
	if err == nil && !held {
		err = instance.ErrBestEffort
	}
	return ended, left, err
}

// treeOf translates a scope for package liveness. held says that control groups hold all its runs: if the root has
// ended, all its processes are in these groups, and a search is unnecessary.
func (h *Host) treeOf(s instance.Scope) (tree liveness.Tree, held bool, release func()) {
	tree = liveness.Tree{Root: s.Root, FormerMembers: s.FormerMembers, Spared: s.Spared}
	held = s.Run == "" && len(s.LeftoverRuns) > 0 && h.grouped() && s.Root == instance.Identity{}
	for _, run := range append([]string{s.Run}, s.LeftoverRuns...) {
		if run == "" || slices.Contains(tree.Marks, run) {
			continue
		}
		tree.Marks = append(tree.Marks, run)
		if group, ok := h.groupOf(run); ok {
			tree.Groups = append(tree.Groups, group)
			held = held || run == s.Run // a run of Left without a group has ended
		}
	}
	tree.Contained = held && !h.fs.Same(s.Root)
	return tree, held, func() {
		for _, group := range tree.Groups {
			_ = group.Close()
		}
	}
}

// groupOf returns the control group of a run, which the caller closes; false if there is none.
func (h *Host) groupOf(run string) (*cgroup.Group, bool) {
	if run == "" || h.tree.Mode() == cgroup.ModeNone {
		return nil, false
	}
	return h.tree.Group(run)
}

// Members implements operation.Trees.
func (h *Host) Members(s instance.Scope) []instance.Identity {
	if group, ok := h.groupOf(s.Run); ok {
		_ = group.Close()
		return nil
	}
	return h.Survivors(s)
}

// Survivors implements operation.Trees.
func (h *Host) Survivors(s instance.Scope) []instance.Identity {
	tree, _, release := h.treeOf(s)
	defer release()
	members, err := tree.Members(h.looks)
	if err != nil {
		h.log.Warn("cannot list processes of a run", "run", s.Run, "error", err)
	}
	return members
}

// RunOf implements operation.Trees. Without control groups it reads the run from the environment of the process.
func (h *Host) RunOf(id instance.Identity) string {
	if !h.fs.Same(id) {
		return ""
	}
	return h.runAt(id.PID)
}

// RunsOf implements operation.Trees.
func (h *Host) RunsOf(prefix string) []string {
	ids, err := h.tree.IDs()
	if err != nil {
		h.log.Warn("cannot list control groups", "error", err)
	}
	return slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, prefix) })
}

// runAt is RunOf for the process at a pid. With control groups, it knows the run of a zombie, too.
func (h *Host) runAt(pid int) string {
	if h.tree.Mode() != cgroup.ModeNone {
		run, _ := h.tree.Holder(h.fs, pid)
		return run
	}
	mark, _ := liveness.MarkOf(h.fs, pid)
	return mark
}
