package launch

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"drover/internal/agent/instance"
	"drover/internal/agent/launch/gate"
	"drover/internal/agent/pidfd"
	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// forkRequest is everything that a fork needs.
type forkRequest struct {
	// program is the descriptor of the gate's program, in both tables.
	program    int
	argv, env  []string
	credential *syscall.Credential
	// becomes says that the gate is root's, and takes the account of the command as one of its last steps.
	becomes bool
	// confinement is what the child can never do; nil for nothing.
	confinement *confinement
	// files are descriptors in the table that the threads of this process share.
	files files
	// signalAt is the descriptor of signal in the child.
	signalAt int
}

// The descriptors in a child at its gate of the proof, of /dev/null and of the gate's program. The gate closes them.
func (r forkRequest) proofAt() int   { return max(3, r.signalAt+1) }
func (r forkRequest) nullAt() int    { return r.proofAt() + 1 }
func (r forkRequest) programAt() int { return r.proofAt() + 2 }

// table returns the descriptors of a child, by their numbers there.
func (r forkRequest) table(f files, null int) []uintptr {
	at := make([]uintptr, r.programAt()+1)
	for i := range at {
		at[i] = ^uintptr(0) // closed
	}
	put := func(number, fd int) { at[number] = uintptr(fd) } //nolint:gosec // descriptors are small
	put(0, f.gate)
	put(1, f.output)
	put(2, f.errors)
	put(r.proofAt(), f.proof)
	put(r.nullAt(), null)
	put(r.programAt(), r.program)
	if f.signal >= 0 {
		put(r.signalAt, f.signal)
	}
	return at
}

// files are the descriptors for a child, in the table of the forking thread.
type files struct {
	gate, output, errors, proof int
	group, signal               int // -1 for none
}

// forkResult is the result of a fork.
type forkResult struct {
	id instance.Identity
	// inGroup says that the child was born in its group.
	inGroup bool
	// err says why the fork failed, lost why the child is already gone.
	err, lost error
}

// forkHere forks on the calling thread.
func (r forkRequest) forkHere(proc procfs.FS) forkResult {
	if r.confinement != nil {
		return r.forkConfined(proc)
	}
	return r.forkOnThread(proc)
}

func (r forkRequest) forkOnThread(proc procfs.FS) forkResult {
	null, err := openNull()
	if err != nil {
		return forkResult{err: err}
	}
	defer unix.Close(null) //nolint:errcheck // opened only for reading
	// A child inherits the signal mask of the thread that forks it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old unix.Sigset_t
	if err := unblock(&old); err != nil {
		return forkResult{err: err}
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) //nolint:errcheck // it undoes a call that succeeded
	return r.fork(proc, r.files, null)
}

// fork forks and identifies the child. The calling thread blocks no signals, and needs no other descriptors than the
// files and null.
func (r forkRequest) fork(proc procfs.FS, f files, null int) forkResult {
	handle := -1
	sys := &syscall.SysProcAttr{Setsid: true, Credential: r.credential, PidFD: &handle}
	attr := &syscall.ProcAttr{Dir: "/", Env: r.env, Sys: sys, Files: r.table(f, null)}
	path := gate.Path(uintptr(r.programAt())) //nolint:gosec // descriptors are small
	var child forkResult
	var pid int
	if f.group >= 0 {
		sys.UseCgroupFD, sys.CgroupFD = true, f.group
		var err error
		pid, err = syscall.ForkExec(path, r.argv, attr)
		child.inGroup = err == nil
		sys.UseCgroupFD, sys.CgroupFD = false, 0
	}
	if !child.inGroup {
		// There is no group, or Linux is older than 5.7, or CLONE_INTO_CGROUP is not allowed. A failure for another
		// reason happens again here.
		if pid, child.err = syscall.ForkExec(path, r.argv, attr); child.err != nil {
			return child
		}
	}
	child.id, child.lost = proc.IdentifyChild(pid)
	if handle >= 0 {
		// The identity belongs to the child only if the child is still alive now.
		if child.lost == nil && !pidfd.Alive(handle) {
			child.lost = os.ErrProcessDone
		}
		unix.Close(handle) //nolint:errcheck // nothing was written
	}
	return child
}

func openNull() (int, error) {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("open "+os.DevNull, err)
	}
	return null, nil
}

// unblock unblocks all signals of the calling thread, which is locked to its goroutine. It stores the previous mask in
// old unless old is nil.
func unblock(old *unix.Sigset_t) error {
	var empty unix.Sigset_t
	return os.NewSyscallError("sigprocmask", unix.PthreadSigmask(unix.SIG_SETMASK, &empty, old))
}

// credentialFor returns the credential of a gate; nil if the child keeps the credential of the agent. A gate of root
// has the groups of the account and stays root's: until a child executes a program, this process waits for the child,
// and whoever may signal the child could hold that up (ADR 0092).
func credentialFor(a Account) (*syscall.Credential, error) {
	euid := os.Geteuid()
	if euid != 0 {
		if a.UID != uint32(euid) { //nolint:gosec // uids are 32 bits wide
			return nil, process.Errorf(process.Failed, "cannot run as user %q: needs root, the agent runs as %q",
				a.Name, ownName(euid)).Because(process.CauseNeedsRoot)
		}
		if a.Regrouped {
			return nil, process.Errorf(process.Failed, "cannot run with other groups: needs root, the agent runs as %q",
				ownName(euid)).Because(process.CauseNeedsRoot)
		}
		return nil, nil //nolint:nilnil // nil means no change
	}
	c := &syscall.Credential{Uid: 0, Gid: a.GID, Groups: a.Groups}
	if a.UID == 0 && groupsFixed() {
		c.NoSetGroups = true
	}
	return c, nil
}

// groupsFixed reports whether this user namespace forbids changes of supplementary groups.
func groupsFixed() bool {
	state, err := os.ReadFile("/proc/self/setgroups")
	return err == nil && string(state) == "deny\n"
}

// OwnName returns the name of the account that this process runs as.
func OwnName() string { return ownName(os.Geteuid()) }

func ownName(uid int) string {
	passwd, err := os.ReadFile("/etc/passwd")
	if err == nil {
		if a, ok := accountByUID(passwd, uid); ok {
			return a.Name
		}
	}
	return fmt.Sprintf("uid %d", uid)
}
