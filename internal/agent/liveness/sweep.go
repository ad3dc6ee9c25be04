package liveness

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"drover/internal/agent/launch"
	"drover/internal/agent/procfs"
)

// sweep looks for the members of a tree among all processes. It remembers those it has seen, because a descendant can be
// told only while its parent lives.
type sweep struct {
	proc    procfs.FS
	tree    Tree
	boot    string
	members map[int]procfs.Identity
}

func newSweep(proc procfs.FS, t Tree) *sweep {
	return &sweep{proc: proc, tree: t, members: make(map[int]procfs.Identity)}
}

// find returns the live members, by ascending pid.
func (s *sweep) find() (alive []procfs.Identity, err error) {
	if s.boot, err = s.proc.BootID(); err != nil {
		return nil, err
	}
	all, err := s.look()
	if err != nil {
		return nil, err
	}
	for pid, id := range s.members {
		if st, ok := all[pid]; !ok || st.StartTicks != id.StartTicks {
			delete(s.members, pid)
		}
	}
	root := s.tree.Root
	if st, ok := all[root.PID]; ok && s.boot == root.BootID && st.StartTicks == root.StartTicks {
		s.join(st)
	}
	if _, taken := all[root.PID]; !taken && root.PID > 1 && s.boot == root.BootID {
		s.orphans(all)
	}
	for pid, st := range all {
		if s.marked(pid) {
			s.join(st)
		}
	}
	if err := s.grow(all); err != nil {
		return nil, err
	}
	for _, pid := range slices.Sorted(maps.Keys(s.members)) {
		if !all[pid].Zombie() {
			alive = append(alive, s.members[pid])
		}
	}
	return alive, nil
}

// look returns all processes that could be members: not this one, so that nothing is found through it either.
func (s *sweep) look() (map[int]procfs.Stat, error) {
	pids, err := s.proc.PIDs()
	if err != nil {
		return nil, err
	}
	all := make(map[int]procfs.Stat, len(pids))
	self := os.Getpid()
	for _, pid := range pids {
		if pid <= 1 || pid == self {
			continue
		}
		st, err := s.proc.Stat(pid)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case !st.Kernel:
			all[pid] = st
		}
	}
	return all, nil
}

// orphans makes members of those who are still in the session or the process group that the root, now gone, was the leader
// of: as long as anybody is, the kernel gives the number to no other process.
func (s *sweep) orphans(all map[int]procfs.Stat) {
	root := s.tree.Root
	for _, st := range all {
		if (st.Session == root.PID || st.PGID == root.PID) && st.StartTicks >= root.StartTicks {
			s.join(st)
		}
	}
}

// grow makes members of the children of members and of the sessions that members lead, until there are no more.
func (s *sweep) grow(all map[int]procfs.Stat) error {
	ownSession, err := unix.Getsid(0)
	if err != nil {
		return fmt.Errorf("cannot read own session: %w", err)
	}
	for grown := true; grown; {
		grown = false
		for pid, st := range all {
			if _, known := s.members[pid]; known {
				continue
			}
			_, child := s.members[st.PPID]
			_, session := s.members[st.Session]
			if child || session && st.Session != ownSession {
				s.join(st)
				grown = true
			}
		}
	}
	return nil
}

func (s *sweep) join(st procfs.Stat) {
	s.members[st.PID] = procfs.Identity{BootID: s.boot, PID: st.PID, StartTicks: st.StartTicks}
}

func (s *sweep) marked(pid int) bool {
	if s.tree.Mark == "" {
		return false
	}
	env, err := s.proc.Environ(pid)
	return err == nil && slices.Contains(env, launch.MarkVariable+"="+s.tree.Mark)
}
