package procfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Info describes a process. Fields that the reader has no right to see are empty.
type Info struct {
	Stat
	// Exe is the target of the link to the executable; " (deleted)" follows when the file was replaced or removed.
	Exe  string
	Args []string
	Cwd  string
	// UID is the effective user id, Real and Saved are the others; GID is the real group id.
	UID, Real, Saved, GID int
	// Leader is false for a thread other than the first of its process: such an id is not a pid.
	Leader bool
}

// Info describes one process. The error is fs.ErrNotExist if the process does not exist. Info reads the parts one
// after another: a caller that needs them to belong to one process checks its Identity afterwards.
func (f FS) Info(pid int) (Info, error) {
	st, err := f.Stat(pid)
	if err != nil {
		return Info{}, err
	}
	info := Info{Stat: st}
	tgid, err := f.status(pid, &info)
	if err != nil {
		return Info{}, err
	}
	info.Leader = tgid == pid
	info.Args = f.Args(pid)
	info.Exe, info.Cwd = f.Exe(pid), f.Cwd(pid)
	return info, nil
}

// Exe returns the executable of a process, as Info.Exe; empty if it is unreadable, or if there is no process.
func (f FS) Exe(pid int) string { return f.link(strconv.Itoa(pid) + "/exe") }

// Cwd returns the directory of a process; empty if it is unreadable, or if there is no process.
func (f FS) Cwd(pid int) string { return f.link(strconv.Itoa(pid) + "/cwd") }

// Args returns the arguments that a process was started with; none if they are unreadable, or if there is no process.
func (f FS) Args(pid int) []string {
	cmdline, err := f.read(maxSmall, strconv.Itoa(pid)+"/cmdline")
	if err != nil {
		return nil
	}
	return strings0(cmdline)
}

// ErrExecuting is the error for a process that is about to execute a program.
var ErrExecuting = errors.New("it executes a program")

// Environ returns the environment that the process was started with, at most 128 KiB; the process may have overwritten
// it. While a process executes a program, its environment is empty for a moment: Environ waits for up to 20 ms, and
// then fails with ErrExecuting.
func (f FS) Environ(pid int) ([]string, error) {
	const tries, pause, sure = 20, time.Millisecond, 4
	for try, bare := 1, 0; ; try++ {
		data, err := f.read(maxEnviron, strconv.Itoa(pid)+"/environ")
		if err != nil {
			return nil, fmt.Errorf("cannot read environment of process %d: %w", pid, err)
		}
		switch {
		case len(data) > 0:
			return strings0(data), nil
		case len(f.Args(pid)) > 0: // it has just executed its program, or was started without an environment
			if bare++; bare == sure {
				return nil, nil
			}
		case f.Exe(pid) == "": // a kernel thread (environ_read in the kernel's fs/proc/base.c)
			return nil, nil
		case try == tries:
			return nil, fmt.Errorf("cannot read environment of process %d: %w", pid, ErrExecuting)
		}
		<-time.After(pause)
	}
}

// PIDNamespace names the pid namespace of a process; empty if that is unreadable.
func (f FS) PIDNamespace(pid int) string { return f.link(strconv.Itoa(pid) + "/ns/pid") }

func (f FS) link(name string) string {
	target, err := os.Readlink(filepath.Join(f.root, name))
	if err != nil {
		return ""
	}
	return target
}

// status returns the process that the id belongs to, and stores its user and group ids in info.
func (f FS) status(pid int, info *Info) (tgid int, err error) {
	data, err := f.read(maxSmall, strconv.Itoa(pid)+"/status")
	if err != nil {
		return 0, fmt.Errorf("cannot read process %d: %w", pid, err)
	}
	tgid = -1
	fsuid, fsgid := -1, -1
	for line := range strings.Lines(string(data)) {
		key, rest, _ := strings.Cut(line, ":")
		switch key {
		case "Tgid":
			err = scan(rest, &tgid)
		case "Uid":
			err = scan(rest, &info.Real, &info.UID, &info.Saved, &fsuid)
		case "Gid":
			var effective, saved int
			err = scan(rest, &info.GID, &effective, &saved, &fsgid)
		}
		if err != nil {
			break
		}
	}
	if err != nil || tgid < 0 || fsuid < 0 || fsgid < 0 {
		return 0, fmt.Errorf("cannot read process %d: unexpected status", pid)
	}
	return tgid, nil
}

// scan reads one number for each place.
func scan(text string, places ...*int) (err error) {
	words := strings.Fields(text)
	if len(words) != len(places) {
		return strconv.ErrSyntax
	}
	for _, place := range places {
		if *place, err = strconv.Atoi(words[0]); err != nil {
			return err
		}
		words = words[1:]
	}
	return nil
}
