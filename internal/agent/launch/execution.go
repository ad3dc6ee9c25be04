package launch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"drover/internal/agent/pidfd"
	"drover/internal/agent/procfs"
	"drover/internal/process"
	"drover/internal/spec"
)

// adjust sets the nice value, the OOM score and the limits of a child at its gate. So the child needs no right to set
// them itself.
//
// A child inherits a negative OOM score from the agent (OOMScoreAdjust= of its unit). It gets 0 unless it has a value
// of its own: the OOM killer then treats the command like any other process. If that fails, the command runs all the
// same.
func adjust(pid int, e spec.Execution) error {
	if e.Nice != nil {
		if err := unix.Setpriority(unix.PRIO_PROCESS, pid, *e.Nice); err != nil {
			return process.Errorf(process.Failed, "cannot set nice to %d: %v", *e.Nice, err)
		}
	}
	if e.OOMScoreAdjust != nil {
		if err := setScore(pid, *e.OOMScoreAdjust); err != nil {
			return process.Errorf(process.Failed, "cannot set oom_score_adjust to %d: %v", *e.OOMScoreAdjust,
				cause(err))
		}
	} else if own, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil {
		expose(pid, own)
	}
	if !mayLimit() {
		return nil // the gate does: see scriptFor
	}
	for _, l := range e.RLimits {
		limit := rlimit(l.Name, l.Value)
		if l.Name == processes && !beyondOwn(l.Name, l.Value) {
			continue // the gate lowers it: see scriptFor
		}
		if err := unix.Prlimit(pid, resources()[l.Name], &limit, nil); err != nil {
			if errors.Is(err, unix.EPERM) {
				return process.Errorf(process.Failed, "the command did not run: cannot %s", setting(l.Name, l.Value))
			}
			return process.Errorf(process.Failed, "cannot set the limit %s to %s: %v", l.Name,
				process.LimitText(l.Value), err)
		}
	}
	return nil
}

func setScore(pid, score int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(strconv.Itoa(score)), 0)
}

// expose sets the OOM score of a child to 0 if the agent's own is negative.
func expose(pid int, own []byte) {
	if bytes.HasPrefix(own, []byte("-")) {
		_ = setScore(pid, 0)
	}
}

// Relimit changes a limit of spec.RLimits of a running process, soft and hard. proven reports whether the pid still
// belongs to the process. prlimit(2) takes a pid and no pidfd: if the process has ended meanwhile, Relimit gives the
// next owner of the pid its limit back. The error is os.ErrProcessDone if the process has ended, and EPERM if this
// program may not raise the limit or change the process.
func Relimit(pid int, name string, value int64, proven func() bool) error {
	fd, err := pidfd.Open(pid)
	switch {
	case err == nil:
		defer unix.Close(fd) //nolint:errcheck // nothing was written
	case !pidfd.Unavailable(err):
		return os.ErrProcessDone
	}
	if !proven() {
		return os.ErrProcessDone
	}
	resource := resources()[name]
	limit, before := rlimit(name, value), unix.Rlimit{}
	switch err := unix.Prlimit(pid, resource, &limit, &before); {
	case errors.Is(err, unix.ESRCH):
		return os.ErrProcessDone
	case err != nil:
		return err
	case proven():
		return nil
	}
	_ = unix.Prlimit(pid, resource, &before, nil) // an error means that nobody has the pid
	return os.ErrProcessDone
}

// mayLimit reports whether this process has CAP_SYS_RESOURCE: without it, it cannot set the limits of an account's
// process. A container often has root without it.
func mayLimit() bool {
	return ownCapabilities()[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// ownCapabilities are the capabilities of the calling thread. Threads differ only where they confine themselves.
func ownCapabilities() (sets [2]unix.CapUserData) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	_ = unix.Capget(&header, &sets[0]) // it fails only for another version
	return sets
}

// Limits returns the hard limits of spec.RLimits of a process, by name: -1 for none. It leaves out what it may not
// read.
func Limits(pid int) map[string]int64 {
	all := map[string]int64{}
	for name, resource := range resources() {
		var limit unix.Rlimit
		if unix.Prlimit(pid, resource, nil, &limit) == nil {
			all[name] = int64(min(limit.Max, math.MaxInt64)) //nolint:gosec // bounded
			if limit.Max == unix.RLIM_INFINITY {
				all[name] = -1
			}
		}
	}
	return all
}

// setting says what sets a limit of spec.RLimits, and the most that this process may set.
func setting(name string, value int64) string {
	text := fmt.Sprintf("set the limit %s to %s: ", name, process.LimitText(value))
	if most := AsSet(name, process.Unlimited); most != process.Unlimited && value > most {
		return text + "the kernel allows at most " + process.LimitText(most)
	}
	return text + "the agent may not set more than its own limit of " + process.LimitText(Limits(os.Getpid())[name])
}

// beyondOwn reports whether a limit of spec.RLimits is above the limit of this process.
func beyondOwn(name string, value int64) bool {
	return rlimit(name, value).Max > rlimit(name, Limits(os.Getpid())[name]).Max
}

// rlimit is a limit of spec.RLimits for the kernel, soft and hard.
func rlimit(name string, value int64) unix.Rlimit {
	n := uint64(AsSet(name, value)) //nolint:gosec // validated; -1 is RLIM_INFINITY
	return unix.Rlimit{Cur: n, Max: n}
}

// AsSet returns the value of a limit of spec.RLimits as Limits reads it once it is set. The kernel has no unlimited
// number of open files: the largest number of sysctl fs.nr_open stands for it (proc_sys_fs(5)).
func AsSet(name string, value int64) int64 {
	if name != "open_files" || value != process.Unlimited {
		return value
	}
	const byDefault = 1 << 20
	text, err := os.ReadFile("/proc/sys/fs/nr_open")
	if err != nil {
		return byDefault
	}
	most, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return byDefault
	}
	return most
}

// BaseVariables are the names of the variables that every command has.
func BaseVariables() []string {
	return []string{"HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ", MarkVariable}
}

// processes is the limit of spec.RLimits that counts the processes of an account. Above it, a process that takes the
// account cannot execute a program (execve(2)).
const processes = "processes"

// resources are the numbers of the limits of spec.RLimits (setrlimit(2)).
func resources() map[string]int {
	return map[string]int{
		"open_files": unix.RLIMIT_NOFILE, "core_size": unix.RLIMIT_CORE, "locked_memory": unix.RLIMIT_MEMLOCK,
		"stack_size": unix.RLIMIT_STACK, processes: unix.RLIMIT_NPROC, "file_size": unix.RLIMIT_FSIZE,
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
	// becomes says that a gate of root takes the account: until then it needs capabilities of its own.
	becomes bool
	// inheritable is the inheritable set, and secureBits are the securebits, that the command has.
	inheritable uint64
	secureBits  int
}

// confinementFor returns nil if the command is not confined.
func confinementFor(c Command) *confinement {
	e := c.Execution
	if !e.NoNewPrivileges && e.Capabilities == nil {
		return nil
	}
	n := &confinement{noNewPrivileges: e.NoNewPrivileges, bounded: e.Capabilities != nil, keep: map[int]bool{}}
	n.becomes = os.Geteuid() == 0 && c.Account.UID != 0
	n.secureBits, _ = unix.PrctlRetInt(unix.PR_GET_SECUREBITS, 0, 0, 0, 0) // it cannot fail
	for i, s := range ownCapabilities() {
		n.inheritable |= uint64(s.Inheritable) << (32 * i)
	}
	for _, name := range e.Capabilities {
		if number, ok := process.Capability(name); ok {
			n.keep[number] = true
			if c.Account.UID != 0 {
				n.ambient = append(n.ambient, uintptr(number))
				n.inheritable |= 1 << number
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
		if err := n.hold(); err != nil {
			return err
		}
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

// hold gives the calling thread, and with it the gate, what the gate needs to give the account its capabilities. The
// ambient ones would end with root's user; securebits keep them. What the gate needs itself is inheritable, because it
// is executed without a full bounding set. See become.
func (n *confinement) hold() error {
	inheritable := n.inheritable
	if n.becomes {
		inheritable |= 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP
	}
	sets := ownCapabilities()
	for i := range sets {
		sets[i].Inheritable = uint32(inheritable >> (32 * i)) //nolint:gosec // the half of it
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return err
	}
	for _, number := range n.ambient {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, number, 0, 0); err != nil {
			return err
		}
	}
	if !n.becomes {
		return nil
	}
	const noFixup = 1 << 2                                                            // SECBIT_NO_SETUID_FIXUP
	return unix.Prctl(unix.PR_SET_SECUREBITS, uintptr(n.secureBits|noFixup), 0, 0, 0) //nolint:gosec // the kernel's
}

// capabilities are the sets of the command for capset(2): effective, permitted and inheritable.
func (n *confinement) capabilities() (sets []byte) {
	var ambient uint64
	for _, number := range n.ambient {
		ambient |= 1 << number
	}
	for i := range 2 {
		for _, set := range []uint64{ambient, ambient, n.inheritable} {
			sets = binary.NativeEndian.AppendUint32(sets, uint32(set>>(32*i))) //nolint:gosec // the half of it
		}
	}
	return sets
}
