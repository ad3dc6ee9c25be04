package procfs

import (
	"errors"
	"fmt"
	"os"

	"drover/internal/agent/instance"
)

// ErrNoProcess is returned for an id that can never name a supervised process: at most 1, or a thread's.
var ErrNoProcess = errors.New("not the id of a process")

// Identify returns the identity of the live process at pid. The error is fs.ErrNotExist when there is none,
// os.ErrProcessDone for a zombie, ErrNoProcess for pids up to 1 and for threads.
func (f FS) Identify(pid int) (instance.Identity, error) {
	if pid <= 1 {
		return instance.Identity{}, fmt.Errorf("cannot identify pid %d: %w", pid, ErrNoProcess)
	}
	boot, err := f.BootID()
	if err != nil {
		return instance.Identity{}, err
	}
	before, err := f.Stat(pid)
	if err != nil {
		return instance.Identity{}, err
	}
	tgid, err := f.status(pid, &Info{})
	if err != nil {
		return instance.Identity{}, err
	}
	after, err := f.Stat(pid)
	switch {
	case err != nil:
		return instance.Identity{}, err
	case before.StartTicks != after.StartTicks, after.Zombie():
		return instance.Identity{}, fmt.Errorf("cannot identify pid %d: %w", pid, os.ErrProcessDone)
	case tgid != pid:
		return instance.Identity{}, fmt.Errorf("cannot identify pid %d, a thread of process %d: %w", pid, tgid, ErrNoProcess)
	}
	return instance.Identity{BootID: boot, PID: pid, StartTicks: after.StartTicks}, nil
}

// IdentifyChild returns the identity of a process that this process has just forked. One look is enough if the caller
// has a pidfd of the child, or verifies afterwards with one that the pid is still the child's. The errors are those of
// Identify.
func (f FS) IdentifyChild(pid int) (instance.Identity, error) {
	if pid <= 1 {
		return instance.Identity{}, fmt.Errorf("cannot identify pid %d: %w", pid, ErrNoProcess)
	}
	boot, err := f.BootID()
	if err != nil {
		return instance.Identity{}, err
	}
	st, err := f.Stat(pid)
	switch {
	case err != nil:
		return instance.Identity{}, err
	case st.Zombie():
		return instance.Identity{}, fmt.Errorf("cannot identify pid %d: %w", pid, os.ErrProcessDone)
	}
	return instance.Identity{BootID: boot, PID: pid, StartTicks: st.StartTicks}, nil
}

// Same reports whether the process that id names is still alive.
func (f FS) Same(id instance.Identity) bool {
	if id.PID <= 1 {
		return false
	}
	boot, err := f.BootID()
	if err != nil || boot != id.BootID {
		return false
	}
	st, err := f.Stat(id.PID)
	return err == nil && st.StartTicks == id.StartTicks && !st.Zombie()
}
