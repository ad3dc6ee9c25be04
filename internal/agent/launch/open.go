package launch

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"drover/internal/agent/trail"
)

// Visit is a trail.Visit with the rights of the account. If this process is not root, the rights are its own. may
// rejects a path after all links are resolved; nil rejects none. do must not start goroutines that access files.
func (a Account) Visit(may func(path string) error, path string, do func(*trail.Trail) error) error {
	if os.Geteuid() == 0 {
		drop, err := a.assume()
		if err != nil {
			return fmt.Errorf("cannot take the rights of %s: %w", a.Name, err)
		}
		defer drop()
	}
	return trail.Plain(path, func(t *trail.Trail) error {
		if may != nil {
			if err := may(t.Path); err != nil {
				return err
			}
		}
		return do(t)
	})
}

// assume gives this thread the rights of the account for access to files, until the same goroutine calls drop.
func (a Account) assume() (drop func(), err error) {
	switch euid := os.Geteuid(); {
	case uint32(euid) == a.UID: //nolint:gosec // ids fit
		return func() {}, nil
	case euid != 0:
		return nil, errors.New("this process is not root")
	}
	gid := os.Getegid()
	before, err := unix.Getgroups()
	if err != nil {
		return nil, err
	}
	own := make([]uint32, len(before))
	for i, g := range before {
		own[i] = uint32(g) //nolint:gosec // ids fit
	}
	runtime.LockOSThread()
	drop = func() {
		if act(0, gid, own) == nil {
			runtime.UnlockOSThread() // otherwise the thread ends with its goroutine
		}
	}
	if err := act(a.UID, int(a.GID), a.Groups); err != nil {
		drop()
		return nil, err
	}
	return drop, nil
}

// act sets the effective ids of this thread only; they decide its access to files too. The file-system ids alone would
// not be enough: below /proc the kernel checks the effective id or a capability before it shows root's data. The
// change of the effective id drops the capabilities, and the change back restores them. The real id stays root's, so
// the account can neither trace the thread nor send it a signal.
func act(uid uint32, gid int, groups []uint32) error {
	var list unsafe.Pointer
	if len(groups) > 0 {
		list = unsafe.Pointer(&groups[0]) //nolint:gosec // the kernel reads it during the call
	}
	const keep = ^uintptr(0)
	// Not the functions of package unix, which change all threads.
	setGroups := func() error {
		return errnoOf(unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(list), 0))
	}
	setGID := func() error { return errnoOf(unix.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(gid), keep)) }
	setUID := func() error { return errnoOf(unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(uid), keep)) }
	steps := []func() error{setGroups, setGID, setUID}
	if uid == 0 { // only root may set the other ids
		steps = []func() error{setUID, setGID, setGroups}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func errnoOf(_, _ uintptr, errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
