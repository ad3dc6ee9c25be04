package liveness

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/instance"
	"drover/internal/agent/procfs"
)

// sweep looks for the members of a tree among all processes. It remembers the members that it has seen, because a
// descendant is recognisable only while its parent lives.
type sweep struct {
	looks   *Looks
	proc    procfs.FS
	tree    Tree
	boot    string
	members map[int]instance.Identity
	// asked says for each process whether it is spared. spares says that at least one is: then no group is killed as a
	// whole.
	asked  map[instance.Identity]bool
	spares bool
	// last is the last pid that the kernel had given when a look began, and executing are the processes of the look
	// whose marks are not known.
	last      int
	executing []int
}

func newSweep(l *Looks, t Tree) *sweep {
	return &sweep{
		looks: l, proc: l.proc, tree: t, members: map[int]instance.Identity{}, asked: map[instance.Identity]bool{},
	}
}

// find returns the live members by ascending pid, without spared processes.
func (s *sweep) find() (alive []instance.Identity, err error) {
	if s.boot, err = s.proc.BootID(); err != nil {
		return nil, err
	}
	grouped, err := s.grouped()
	if err != nil {
		return nil, err
	}
	look, err := s.candidates(grouped)
	if err != nil {
		return nil, err
	}
	all := look.all
	for pid, id := range s.members {
		if !s.same(all, id) {
			delete(s.members, pid)
		}
	}
	for _, pid := range grouped {
		if st, ok := all[pid]; ok {
			s.join(st)
		}
	}
	for _, id := range append(slices.Clone(s.tree.FormerMembers), s.tree.Root) {
		if s.same(all, id) {
			s.join(all[id.PID])
		}
	}
	if !s.tree.Contained {
		if err := s.search(look); err != nil {
			return nil, err
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(s.members)) {
		if !all[pid].Zombie() {
			alive = append(alive, s.members[pid])
		}
	}
	return s.withoutSpared(alive, all), nil
}

// grouped returns the pids in the groups.
func (s *sweep) grouped() (pids []int, err error) {
	for _, g := range s.tree.Groups {
		more, err := g.PIDs()
		if err != nil {
			return nil, err
		}
		pids = append(pids, more...)
	}
	return pids, nil
}

// same reports whether a pid still belongs to the same process.
func (s *sweep) same(all map[int]procfs.Stat, id instance.Identity) bool {
	st, ok := all[id.PID]
	return ok && s.boot == id.BootID && st.StartTicks == id.StartTicks
}

// search adds every process that a look shows to belong to the tree.
func (s *sweep) search(look *look) error {
	root := s.tree.Root
	if _, taken := look.all[root.PID]; !taken && root.PID > 1 && s.boot == root.BootID {
		s.orphans(look.all)
	}
	s.last, s.executing = look.last, nil
	if len(s.tree.Marks) > 0 {
		s.executing = slices.Clone(look.executing)
		for pid, mark := range look.marks {
			if slices.Contains(s.tree.Marks, mark) {
				s.join(look.all[pid])
			}
		}
	}
	return s.grow(look.all)
}

const (
	// mostChases bounds how often chase looks, and farthest how many new processes it looks at each time.
	mostChases = 16
	farthest   = 4096
	// settled is how many looks without news end a chase, with chasePause between them.
	settled    = 4
	chasePause = time.Millisecond
)

// chase returns members that the last find has missed, after a find without members: a process that forks and ends
// during a look is missed, but its child has a later pid. The kernel gives a pid before /proc shows the process. chase
// ends with the first members, when nothing is doubtful, or after some looks without news.
func (s *sweep) chase() []instance.Identity {
	if s.tree.Contained || len(s.tree.Marks) == 0 {
		return nil
	}
	doubtful, absent, found := s.executing, map[int]bool{}, map[int]procfs.Stat{}
	for n, quiet := 0, 0; n < mostChases && quiet < settled && len(found) == 0; n++ {
		since, last := s.last, s.proc.LastPID()
		s.last = last
		for pid := since + 1; pid <= min(last, since+farthest); pid++ {
			doubtful = append(doubtful, pid)
		}
		if len(doubtful) == 0 {
			return nil
		}
		before := len(doubtful)
		doubtful = slices.DeleteFunc(doubtful, func(pid int) bool {
			st, err := s.proc.Stat(pid)
			if err != nil { // not yet there, or no longer
				again := absent[pid]
				absent[pid] = true
				return again
			}
			mark, certain := MarkOf(s.proc, pid)
			if slices.Contains(s.tree.Marks, mark) && !st.Zombie() {
				found[pid] = st
				s.join(st)
			}
			return certain
		})
		if quiet++; last != since || len(doubtful) < before {
			quiet = 0
		}
		<-time.NewTimer(chasePause).C // also when the time of a stop is over: its last look decides
	}
	alive := make([]instance.Identity, 0, len(found))
	for _, pid := range slices.Sorted(maps.Keys(found)) {
		alive = append(alive, s.members[pid])
	}
	return s.withoutSpared(alive, found)
}

// withoutSpared removes the spared processes, with their descendants and the sessions that those lead.
func (s *sweep) withoutSpared(alive []instance.Identity, all map[int]procfs.Stat) []instance.Identity {
	s.ask(alive)
	if !s.spares {
		return alive
	}
	spared := map[int]bool{}
	for _, id := range alive {
		spared[id.PID] = s.asked[id]
	}
	for grown := true; grown; {
		grown = false
		for pid, st := range all {
			if !spared[pid] && (spared[st.PPID] || spared[st.Session]) {
				spared[pid], grown = true, true
			}
		}
	}
	return slices.DeleteFunc(alive, func(id instance.Identity) bool { return spared[id.PID] })
}

// ask finds out, once for each process, whether it is spared.
func (s *sweep) ask(alive []instance.Identity) {
	if s.tree.Spared == nil {
		return
	}
	var unasked []instance.Identity
	for _, id := range alive {
		if _, ok := s.asked[id]; !ok {
			unasked = append(unasked, id)
			s.asked[id] = false
		}
	}
	if len(unasked) == 0 {
		return
	}
	for _, id := range s.tree.Spared(unasked) {
		s.asked[id], s.spares = true, true
	}
}

// candidates returns all processes that can be members.
func (s *sweep) candidates(grouped []int) (*look, error) {
	if !s.tree.Contained {
		return s.looks.take()
	}
	pids := append(slices.Clone(grouped), s.tree.Root.PID)
	for _, id := range s.tree.FormerMembers {
		pids = append(pids, id.PID)
	}
	all, err := stats(s.proc, pids)
	return &look{all: all}, err
}

// orphans adds the processes in the session or the process group of the root, which is gone. While such a process
// lives, the kernel does not reuse the root's pid.
func (s *sweep) orphans(all map[int]procfs.Stat) {
	root := s.tree.Root
	for _, st := range all {
		if (st.Session == root.PID || st.PGID == root.PID) && st.StartTicks >= root.StartTicks {
			s.join(st)
		}
	}
}

// grow adds the children of members and the sessions that members lead, until there are no more.
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
	s.members[st.PID] = instance.Identity{BootID: s.boot, PID: st.PID, StartTicks: st.StartTicks}
}
