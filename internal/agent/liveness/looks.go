package liveness

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"drover/internal/agent/procfs"
)

// Looks looks at all processes of a host for everybody who searches a tree. Those who ask while a look is under way
// share the next one: otherwise a thousand stops at once would look at a thousand processes each. It is safe for
// concurrent use.
type Looks struct {
	proc procfs.FS
	// taking is held during a look.
	taking sync.Mutex

	mu sync.Mutex
	// next is the look that has not begun; nil if nobody waits for one.
	next *look
}

// NewLooks returns looks at the processes of proc.
func NewLooks(proc procfs.FS) *Looks { return &Looks{proc: proc} }

// look is what one look has found.
type look struct {
	once sync.Once
	err  error
	// last is the last pid that the kernel had given when the look began.
	last int
	all  map[int]procfs.Stat
	// marks are the values of launch.MarkVariable by pid, and executing are the processes whose marks are not known.
	marks     map[int]string
	executing []int
}

// take returns a look that has begun after the call. It blocks for as long as two looks take.
func (l *Looks) take() (*look, error) {
	l.mu.Lock()
	if l.next == nil {
		l.next = &look{}
	}
	shared := l.next
	l.mu.Unlock()
	shared.once.Do(func() {
		l.taking.Lock()
		defer l.taking.Unlock()
		l.mu.Lock()
		l.next = nil
		l.mu.Unlock()
		shared.err = shared.read(l.proc)
	})
	return shared, shared.err
}

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
