package launch

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"drover/internal/agent/trail"
)

// Visit is a trail.Visit with the rights of the account, however much this process may reach; a process that is not root has its own. May
// refuses a path to which no link leads any more; nil refuses none. Do must not start goroutines that reach files.
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

// assume has this thread reach files with the rights of the account until drop is called, by the same goroutine.
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
		if reach(0, gid, own) == nil {
			runtime.UnlockOSThread() // else the thread ends with its goroutine
		}
	}
	if err := reach(int(a.UID), int(a.GID), a.Groups); err != nil {
		drop()
		return nil, err
	}
	return drop, nil
}

// reach sets by which ids this thread, and no other one, reaches files. The kernel takes the rights of root away with them, and gives them
// back.
func reach(uid, gid int, groups []uint32) error {
	var list unsafe.Pointer
	if len(groups) > 0 {
		list = unsafe.Pointer(&groups[0]) //nolint:gosec // the kernel reads it during the call
	}
	// Not unix.Setgroups, which is for all threads.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(list), 0); errno != 0 {
		return errno
	}
	const ask = -1
	if _, err := unix.SetfsgidRetGid(gid); err != nil {
		return err
	}
	if _, err := unix.SetfsuidRetUid(uid); err != nil {
		return err
	}
	isGID, _ := unix.SetfsgidRetGid(ask)
	isUID, err := unix.SetfsuidRetUid(ask)
	if err == nil && (isGID != gid || isUID != uid) {
		err = unix.EPERM
	}
	return err
}
