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

	"drover/internal/agent/cgroup"
	"drover/internal/agent/instance"
	"drover/internal/agent/pidfd"
	"drover/internal/agent/procfs"
	"drover/internal/idle"
)

// Signal sends sig to exactly the process id: it sends through a pidfd, and verifies the process after it has the
// pidfd. The error is ErrGone if the process is not alive, else the kernel's error.
func Signal(proc procfs.FS, id instance.Identity, sig syscall.Signal) error {
	err := pidfd.Signal(id.PID, sig, func() bool { return proc.Same(id) })
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, pidfd.ErrStranger) {
		return fmt.Errorf("cannot signal pid %d: %w", id.PID, ErrGone)
	}
	return err
}

// Tree is everything that belongs to one process.
type Tree struct {
	// Root is the process itself, which may have ended; zero when there is none.
	Root instance.Identity
	// FormerMembers are earlier members of the tree. Those that have ended since do not count.
	FormerMembers []instance.Identity
	// Groups are the control groups that it and its commands were started in.
	Groups []*cgroup.Group
	// Contained says that the groups and Noted are all of the tree: /proc is not searched.
	Contained bool
	// Marks are the values of launch.MarkVariable that they were started with.
	Marks []string
	// Spared returns those of the processes that belong to somebody else. They and their trees are left alone. Nil
	// spares none.
	Spared func([]instance.Identity) []instance.Identity
}

// Member is one process of a tree.
type Member struct {
	instance.Identity
	// Command is the command line, shortened, or the short name if there is no command line.
	Command string
}

// The pauses between looks at a tree that is ending.
const (
	firstSweep = time.Millisecond
	lastSweep  = 50 * time.Millisecond
)

// Members returns the live processes of the tree by ascending pid, without spared processes.
func (t Tree) Members(l *Looks) ([]instance.Identity, error) { return newSweep(l, t).find() }

// EndTree ends the whole tree. With a grace it first sends SIGTERM, and SIGCONT so that stopped processes receive it,
// and waits for the grace. Then it sends SIGKILL: first to the groups, from which no process can escape. After that it
// kills, repeatedly, every descendant of the root, every process in a session that a member leads, and every process
// with the mark. It blocks until it finds no process or ctx ends; the error then lists the remaining pids. ended
// are the members that it found, without the root, by ascending pid. It never touches this process or other descendants
// of this process.
func EndTree(ctx context.Context, l *Looks, t Tree, grace time.Duration) (ended []Member, left []int, err error) {
	e := &ending{sweep: newSweep(l, t), seen: map[int]Member{}}
	found, err := e.find()
	if err == nil && len(found) > 0 && grace > 0 {
		found, err = e.terminate(ctx, found, grace)
	}
	if err == nil && len(found) > 0 {
		left, err = e.kill(ctx)
	}
	for _, pid := range slices.Sorted(maps.Keys(e.seen)) {
		if m := e.seen[pid]; m.Identity != t.Root && !slices.Contains(left, pid) {
			ended = append(ended, m)
		}
	}
	return ended, left, err
}

// ending is the end of one tree: it remembers the members that it found.
type ending struct {
	*sweep
	seen map[int]Member // by pid
}

// maxCommand is how much of a command line drover keeps, in bytes.
const maxCommand = 80

// find is sweep.find that looks more closely before it says that nobody is left. It also records the command lines of
// the members while they live.
func (e *ending) find() ([]instance.Identity, error) {
	found, err := e.sweep.find()
	if err == nil && len(found) == 0 && len(e.seen) > 0 {
		found = e.chase()
	}
	for _, id := range found {
		if e.seen[id.PID].Identity == id {
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
		e.seen[id.PID] = Member{id, command}
	}
	return found, err
}

// terminate sends SIGTERM to every member once, also to members that appear meanwhile. It returns the members that are
// left after the grace.
func (e *ending) terminate(ctx context.Context, found []instance.Identity,
	grace time.Duration,
) ([]instance.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	asked := map[instance.Identity]bool{}
	for wait := firstSweep; ; wait = min(2*wait, lastSweep) {
		for _, id := range found {
			if asked[id] {
				continue
			}
			asked[id] = true
			// If the signal fails, SIGKILL follows, or the process is reported as left.
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

// kill kills every member, and returns the pids that are left when ctx ends.
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
