package liveness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/pidfd"
	"drover/internal/agent/procfs"
)

// Signal sends sig to the process that id names, and to no other: the signal goes through a handle that is proven to be the
// process once it is held. The error is ErrGone when the process is not alive, else the kernel's.
func Signal(proc procfs.FS, id procfs.Identity, sig syscall.Signal) error {
	err := pidfd.Signal(id.PID, sig, func() bool { return proc.Same(id) })
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, pidfd.ErrStranger) {
		return fmt.Errorf("cannot signal pid %d: %w", id.PID, ErrGone)
	}
	return err
}

// SignalGroup sends sig to the process group that the process named by id leads, and fails with ErrGone when it is not alive or
// leads none.
func SignalGroup(proc procfs.FS, id procfs.Identity, sig syscall.Signal) error {
	group, err := unix.Getpgid(id.PID)
	if id.PID <= 1 || err != nil || group != id.PID || !proc.Same(id) {
		return fmt.Errorf("cannot signal the group of pid %d: %w", id.PID, ErrGone)
	}
	return unix.Kill(-group, sig)
}

// Tree is everything that belongs to one process.
type Tree struct {
	// Root is the process itself, which may have ended; zero when there is none.
	Root procfs.Identity
	// Groups are the control groups that it and its commands were started in.
	Groups []*cgroup.Group
	// Mark is the value of launch.MarkVariable that they were started with; empty when there is none.
	Mark string
}

// How far apart the looks at /proc are while a tree ends.
const (
	firstSweep = time.Millisecond
	lastSweep  = 50 * time.Millisecond
)

// KillTree ends the whole tree with SIGKILL: the groups first, which nothing can escape, then, again and again, whatever is
// found to descend from the root, to be in a session that a member leads, or to carry the mark. It blocks until a look finds
// nothing or ctx ends, and then returns the pids that are left. Without groups a process that forks faster than /proc can be
// read may be missed. This process and what descends from it otherwise are never touched.
func KillTree(ctx context.Context, proc procfs.FS, t Tree) (left []int, err error) {
	var problem error
	for _, g := range t.Groups {
		if err := g.Kill(ctx); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			problem = errors.Join(problem, err)
			pids, _ := g.PIDs()
			left = append(left, pids...)
		}
	}
	s := newSweep(proc, t)
	for wait := firstSweep; ; wait = min(2*wait, lastSweep) {
		found, err := s.find()
		if err != nil || len(found) == 0 {
			return left, errors.Join(problem, err)
		}
		var refused error
		for _, id := range found {
			if err := Signal(proc, id, syscall.SIGKILL); err != nil && !errors.Is(err, ErrGone) {
				refused = err
			}
		}
		if sleep(ctx, wait) {
			continue
		}
		if found, err = s.find(); err != nil || len(found) == 0 {
			return left, errors.Join(problem, err)
		}
		for _, id := range found {
			left = append(left, id.PID)
		}
		slices.Sort(left)
		left = slices.Compact(left)
		if refused == nil {
			refused = context.Cause(ctx)
		}
		return left, errors.Join(problem, fmt.Errorf("cannot end the process tree: processes %v are left: %w", left, refused))
	}
}

// sleep waits and reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
