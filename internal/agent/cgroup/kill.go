package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"drover/internal/idle"

	"drover/internal/agent/pidfd"
)

const (
	killFile     = "cgroup.kill"   // v2, since Linux 5.14
	freezeFile   = "cgroup.freeze" // v2, since Linux 5.2
	freezerState = "freezer.state" // v1
)

// The pauses between looks at a group that is ending: usually it takes less than a millisecond, but half a second with
// thousands of processes.
const (
	firstLook  = 200 * time.Microsecond
	slowestRun = 20 * time.Millisecond
	freezeTime = 100 * time.Millisecond
)

// Kill ends every process of the group and below it with SIGKILL, also processes that are forked meanwhile. It blocks
// until none is left or ctx ends; the error then lists the remaining pids. In ModeNone the error is
// errors.ErrUnsupported.
func (g *Group) Kill(ctx context.Context) error { return g.kill(ctx, g.killAtOnce) }

// kill repeats strike until no process is left. strike sends SIGKILL to every process once.
func (g *Group) kill(ctx context.Context, strike func(context.Context) error) error {
	if g.mode == ModeNone {
		return fmt.Errorf("cannot end cgroup %s: %w", g.id, errors.ErrUnsupported)
	}
	pids, err := g.PIDs()
	if err != nil {
		return err
	}
	if slices.Contains(pids, os.Getpid()) {
		return fmt.Errorf("cannot end cgroup %s: this process itself is in it", g.id)
	}
	for wait := firstLook; ; wait = min(2*wait, slowestRun) {
		populated, err := g.Populated()
		if err != nil || !populated {
			return err
		}
		if err := strike(ctx); err != nil && !vanished(err) {
			return fmt.Errorf("cannot end cgroup %s: %w", g.id, err)
		}
		if !idle.Sleep(ctx, wait) {
			break
		}
	}
	if populated, err := g.Populated(); err != nil || !populated {
		return err
	}
	left, err := g.PIDs()
	if err != nil {
		return err
	}
	return fmt.Errorf("cannot end cgroup %s: processes %v are left: %w", g.id, left, context.Cause(ctx))
}

// killAtOnce kills the group in one step if the kernel can do that.
func (g *Group) killAtOnce(ctx context.Context) error {
	if g.mode == ModeV2 {
		err := write(filepath.Join(g.dir, killFile), "1")
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, gone := os.Lstat(g.dir); gone != nil {
			return nil
		}
	}
	return g.killFrozen(ctx)
}

// killFrozen is for kernels that cannot kill a group. Frozen processes cannot fork away from the list. They cannot end
// either, so a listed pid still names the same process.
func (g *Group) killFrozen(ctx context.Context) (err error) {
	file, freeze, thaw := freezerState, "FROZEN", "THAWED"
	if g.mode == ModeV2 {
		file, freeze, thaw = freezeFile, "1", "0"
	}
	path := filepath.Join(g.dir, file)
	if err := write(path, freeze); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, write(path, thaw)) }()
	frozen := g.awaitFrozen(ctx)
	pids, err := g.PIDs()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		err := pidfd.Signal(pid, syscall.SIGKILL, func() bool {
			if frozen {
				return true
			}
			now, err := g.PIDs()
			return err == nil && slices.Contains(now, pid)
		})
		if err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, pidfd.ErrStranger) {
			return err
		}
	}
	return nil
}

// awaitFrozen reports whether every process of the group is frozen. It gives up after freezeTime, because a process in
// a long system call may take its time.
func (g *Group) awaitFrozen(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, freezeTime)
	defer cancel()
	for wait := firstLook; ; wait = min(2*wait, slowestRun) {
		if g.mode == ModeV2 {
			if value, err := field(filepath.Join(g.dir, eventsFile), "frozen"); err == nil && value == "1" {
				return true
			}
		} else if state, err := os.ReadFile(filepath.Join(g.dir, freezerState)); err == nil &&
			strings.TrimSpace(string(state)) == "FROZEN" {
			return true
		}
		if !idle.Sleep(ctx, wait) {
			return false
		}
	}
}
