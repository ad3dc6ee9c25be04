package launch

import (
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// masking sets the umask of the command, in the shell: no other process can set it.
func masking(e process.Execution) string {
	if e.Umask == nil {
		return ""
	}
	return fmt.Sprintf("umask %04o; ", *e.Umask)
}

// adjust sets the nice value, the OOM score and the limits of a child at its gate. So the child needs no right to set
// them itself.
func adjust(pid int, e process.Execution) error {
	if e.Nice != nil {
		if err := unix.Setpriority(unix.PRIO_PROCESS, pid, *e.Nice); err != nil {
			return process.Errorf(process.Failed, "cannot set nice to %d: %v", *e.Nice, err)
		}
	}
	if e.OOMScoreAdjust != nil {
		file := fmt.Sprintf("/proc/%d/oom_score_adj", pid)
		if err := os.WriteFile(file, []byte(strconv.Itoa(*e.OOMScoreAdjust)), 0); err != nil {
			return process.Errorf(process.Failed, "cannot set oom_score_adjust to %d: %v", *e.OOMScoreAdjust,
				cause(err))
		}
	}
	for _, l := range e.RLimits.List() {
		limit := unix.Rlimit{Cur: uint64(*l.Value), Max: uint64(*l.Value)} //nolint:gosec // validated
		if err := unix.Prlimit(pid, resources()[l.Name], &limit, nil); err != nil {
			return process.Errorf(process.Failed, "cannot set the limit %s to %d: %v", l.Name, *l.Value, err)
		}
	}
	return nil
}

// resources are the numbers of the limits of process.RLimits (setrlimit(2)).
func resources() map[string]int {
	return map[string]int{
		"open_files": unix.RLIMIT_NOFILE, "core_size": unix.RLIMIT_CORE, "locked_memory": unix.RLIMIT_MEMLOCK,
		"stack_size": unix.RLIMIT_STACK, "processes": unix.RLIMIT_NPROC, "file_size": unix.RLIMIT_FSIZE,
	}
}

// confinement is what a child and its children can never do again.
type confinement struct {
	noNewPrivileges bool
	// bounded says that only the capabilities of keep remain in the bounding set.
	bounded bool
	keep    map[int]bool
	// ambient are the capabilities that another account than root keeps across an exec.
	ambient []uintptr
}

// confinementFor returns nil if the command is not confined.
func confinementFor(c Command) *confinement {
	e := c.Execution
	if !e.NoNewPrivileges && e.Capabilities == nil {
		return nil
	}
	n := &confinement{noNewPrivileges: e.NoNewPrivileges, bounded: e.Capabilities != nil, keep: map[int]bool{}}
	for _, name := range e.Capabilities {
		if number, ok := process.Capability(name); ok {
			n.keep[number] = true
			if c.Account.UID != 0 {
				n.ambient = append(n.ambient, uintptr(number))
			}
		}
	}
	return n
}

// forkConfined forks on a thread that confines itself before, and ends afterwards.
func (r forkRequest) forkConfined(proc procfs.FS) (child forkResult) {
	var thread sync.WaitGroup
	thread.Go(func() {
		onThread(func() {
			if err := r.confinement.apply(); err != nil {
				child = forkResult{err: err}
				return
			}
			child = r.forkOnThread(proc)
		})
	})
	thread.Wait()
	return child
}

// apply confines the calling thread.
func (n *confinement) apply() error {
	if n.bounded {
		// The kernel's last capability answers; a higher number is invalid.
		for number := 0; ; number++ {
			has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(number), 0, 0, 0)
			if err != nil {
				break
			}
			if has == 0 || n.keep[number] {
				continue
			}
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(number), 0, 0, 0); err != nil {
				return fmt.Errorf("cannot drop capabilities: %w", err)
			}
		}
	}
	if n.noNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("cannot set no_new_privileges: %w", err)
		}
	}
	return nil
}
