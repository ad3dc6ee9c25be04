package liveness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"drover/internal/idle"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/pidfd"
	"drover/internal/agent/procfs"
)

// Signal sends sig to the process that id names, and to no other: the signal goes through a handle that is proven to be
// the process once it is held. The error is ErrGone when the process is not alive, else the kernel's.
func Signal(proc procfs.FS, id procfs.Identity, sig syscall.Signal) error {
	err := pidfd.Signal(id.PID, sig, func() bool { return proc.Same(id) })
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, pidfd.ErrStranger) {
		return fmt.Errorf("cannot signal pid %d: %w", id.PID, ErrGone)
	}
	return err
}

// Tree is everything that belongs to one process.
type Tree struct {
	// Root is the process itself, which may have ended; zero when there is none.
	Root procfs.Identity
	// Noted are processes that were seen to belong to the tree earlier. Those that have ended since do not count.
	Noted []procfs.Identity
	// Groups are the control groups that it and its commands were started in.
	Groups []*cgroup.Group
	// Contained says that the groups and Noted are all of the tree: /proc is not searched.
	Contained bool
	// Mark is the value of launch.MarkVariable that they were started with; empty when there is none.
	Mark string
	// Spared returns those of the processes that belong to somebody else. They and their trees are left alone. Nil
	// spares none.
	Spared func([]procfs.Identity) []procfs.Identity
}

// Member is one process of a tree.
type Member struct {
	procfs.Identity
	// Command is its command line, shortened; its short name where it has none.
	Command string
}

// How far apart the looks at a tree are while it ends.
const (
	firstSweep = time.Millisecond
	lastSweep  = 50 * time.Millisecond
)

// Members returns the live processes of the tree, by ascending pid, without those that are spared.
func (t Tree) Members(proc procfs.FS) ([]procfs.Identity, error) { return newSweep(proc, t).find() }

// EndTree ends the whole tree. With a grace it first sends SIGTERM, and SIGCONT so that stopped processes hear of it,
// and waits so long. Then it sends SIGKILL: to the groups first, which nothing can escape, then, again and again, to
// whatever is found to descend from the root, to be in a session that a member leads, or to carry the mark. It blocks
// until a look finds nothing or ctx ends; the error then lists the pids that are left. ended are the members that were
// found but the root, by ascending pid. Without groups a process that forks faster than /proc can be read may be
// missed. This process and what descends from it otherwise are never touched.
func EndTree(ctx context.Context, proc procfs.FS, t Tree, grace time.Duration) (ended []Member, left []int, err error) {
	e := &ending{sweep: newSweep(proc, t), seen: map[procfs.Identity]string{}}
	found, err := e.find()
	if err == nil && len(found) > 0 && grace > 0 {
		found, err = e.terminate(ctx, found, grace)
	}
	if err == nil && len(found) > 0 {
		left, err = e.kill(ctx)
	}
	delete(e.seen, t.Root)
	for _, id := range slices.SortedFunc(maps.Keys(e.seen), func(a, b procfs.Identity) int { return a.PID - b.PID }) {
		if !slices.Contains(left, id.PID) {
			ended = append(ended, Member{id, e.seen[id]})
		}
	}
	return ended, left, err
}

// ending is one end of a tree: it remembers who was found.
type ending struct {
	*sweep
	seen map[procfs.Identity]string
}

// maxCommand is how much of a command line is kept, in bytes.
const maxCommand = 80

// find is sweep.find, and notes what the members are called while they live.
func (e *ending) find() ([]procfs.Identity, error) {
	found, err := e.sweep.find()
	for _, id := range found {
		if _, ok := e.seen[id]; ok {
			continue
		}
		command := ""
		if info, err := e.proc.Info(id.PID); err == nil {
			if command = strings.Join(info.Args, " "); command == "" {
				command = info.Comm
			}
		}
		if len(command) > maxCommand {
			command = strings.ToValidUTF8(command[:maxCommand], "") + "..."
		}
		e.seen[id] = command
	}
	return found, err
}

// terminate asks every member once to end, those included that appear meanwhile, and returns who is left after the
// grace.
func (e *ending) terminate(ctx context.Context, found []procfs.Identity,
	grace time.Duration,
) ([]procfs.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	asked := map[procfs.Identity]bool{}
	for wait := firstSweep; ; wait = min(2*wait, lastSweep) {
		for _, id := range found {
			if asked[id] {
				continue
			}
			asked[id] = true
			// Whom a signal cannot reach is ended by SIGKILL or told of as left.
			if err := Signal(e.proc, id, syscall.SIGTERM); err == nil {
				_ = Signal(e.proc, id, syscall.SIGCONT)
			}
		}
		awake := idle.Sleep(ctx, wait)
		var err error
		if found, err = e.find(); err != nil || len(found) == 0 || !awake {
			return found, err
		}
	}
}

// kill ends every member, and returns the pids of those that are left when ctx ends.
func (e *ending) kill(ctx context.Context) (left []int, err error) {
	var problem error
	if !e.spares {
		for _, g := range e.tree.Groups {
			if err := g.Kill(ctx); err != nil && !errors.Is(err, errors.ErrUnsupported) {
				problem = errors.Join(problem, err)
				pids, _ := g.PIDs()
				left = append(left, pids...)
			}
		}
	}
	for wait := firstSweep; ; wait = min(2*wait, lastSweep) {
		found, err := e.find()
		if err != nil || len(found) == 0 {
			return left, errors.Join(problem, err)
		}
		var refused error
		for _, id := range found {
			if err := Signal(e.proc, id, syscall.SIGKILL); err != nil && !errors.Is(err, ErrGone) {
				refused = err
			}
		}
		if idle.Sleep(ctx, wait) {
			continue
		}
		if found, err = e.find(); err != nil || len(found) == 0 {
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
		return left, errors.Join(problem, fmt.Errorf("cannot end the process tree: processes %v are left: %w", left,
			refused))
	}
}
