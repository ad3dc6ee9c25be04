package liveness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/launch"
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

// Tree is everything that belongs to one process.
type Tree struct {
	// Root is the process itself; zero when there is none.
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
	s := sweep{proc: proc, tree: t, members: make(map[int]procfs.Identity)}
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

// sweep looks for members of a tree. It remembers those it has seen, because a descendant can be told only while its parent
// lives.
type sweep struct {
	proc    procfs.FS
	tree    Tree
	members map[int]procfs.Identity
}

// find returns the live members.
func (s *sweep) find() ([]procfs.Identity, error) {
	boot, err := s.proc.BootID()
	if err != nil {
		return nil, err
	}
	pids, err := s.proc.PIDs()
	if err != nil {
		return nil, err
	}
	all := make(map[int]procfs.Stat, len(pids))
	for _, pid := range pids {
		st, err := s.proc.Stat(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !st.Kernel {
			all[pid] = st
		}
	}
	members := s.members
	for pid, id := range members {
		if st, ok := all[pid]; !ok || st.StartTicks != id.StartTicks {
			delete(members, pid)
		}
	}
	join := func(st procfs.Stat) {
		members[st.PID] = procfs.Identity{BootID: boot, PID: st.PID, StartTicks: st.StartTicks}
	}
	if st, ok := all[s.tree.Root.PID]; ok && boot == s.tree.Root.BootID && st.StartTicks == s.tree.Root.StartTicks {
		join(st)
	}
	self := os.Getpid()
	ownSession, err := unix.Getsid(0)
	if err != nil {
		return nil, fmt.Errorf("cannot read own session: %w", err)
	}
	for pid, st := range all {
		if _, known := members[pid]; !known && pid != self && pid > 1 && s.marked(pid) {
			join(st)
		}
	}
	// A member's child, or one of its session, makes its own children members in turn.
	for grown := true; grown; {
		grown = false
		for pid, st := range all {
			if _, known := members[pid]; known || pid == self || pid <= 1 {
				continue
			}
			_, child := members[st.PPID]
			_, session := members[st.Session]
			if child || session && st.Session != ownSession {
				join(st)
				grown = true
			}
		}
	}
	var alive []procfs.Identity
	for pid, id := range members {
		if st := all[pid]; !st.Zombie() && pid != self && pid > 1 {
			alive = append(alive, id)
		}
	}
	slices.SortFunc(alive, func(a, b procfs.Identity) int { return a.PID - b.PID })
	return alive, nil
}

func (s *sweep) marked(pid int) bool {
	if s.tree.Mark == "" {
		return false
	}
	env, err := s.proc.Environ(pid)
	return err == nil && slices.Contains(env, launch.MarkVariable+"="+s.tree.Mark)
}
