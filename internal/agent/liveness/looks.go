package liveness

import (
	"errors"
	"io/fs"
	"os"

	"drover/internal/agent/procfs"
)

// Looks looks at all processes of a host for everybody who searches a tree. It is safe for concurrent use.
type Looks struct {
	proc   procfs.FS
	rounds *procfs.Rounds[look]
}

// NewLooks returns looks at the processes of proc.
func NewLooks(proc procfs.FS) *Looks {
	return &Looks{proc, procfs.NewRounds(func(k *look) error { return k.read(proc) })}
}

// look is what one look has found.
type look struct {
	// last is the last pid that the kernel had given when the look began.
	last int
	all  map[int]procfs.Stat
	// marks are the values of launch.MarkVariable by pid, and executing are the processes whose marks are not known.
	marks     map[int]string
	executing []int
}

// take returns a look that has begun after the call. It blocks for as long as two looks take.
func (l *Looks) take() (*look, error) { return l.rounds.Take(func(*look) {}) }

// read looks at all processes that can be members.
func (k *look) read(proc procfs.FS) error {
	k.last = proc.LastPID()
	pids, err := proc.PIDs()
	if err != nil {
		return err
	}
	if k.all, err = stats(proc, pids); err != nil {
		return err
	}
	k.marks = map[int]string{}
	for pid := range k.all {
		mark, certain := MarkOf(proc, pid)
		if mark != "" {
			k.marks[pid] = mark
		}
		if !certain {
			k.executing = append(k.executing, pid)
		}
	}
	return nil
}

// stats returns those of the processes that live and can be members. It leaves out this process, so that its children
// are not found through it.
func stats(proc procfs.FS, pids []int) (map[int]procfs.Stat, error) {
	all := make(map[int]procfs.Stat, len(pids))
	self := os.Getpid()
	for _, pid := range pids {
		if pid <= 1 || pid == self {
			continue
		}
		st, err := proc.Stat(pid)
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
