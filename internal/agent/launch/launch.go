// Package launch starts commands: as an account, in a directory, with an environment, an output file and a control group
// that are exactly what they are said to be. A command waits behind a gate until its identity is on record. The package
// owns fork and exec, the accounts of the host and the output files. It does not wait for what it started: liveness does.
package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/pidfd"
	"drover/internal/agent/procfs"
	"drover/internal/process"
)

const shell = "/bin/sh"

// UnrunStatus is the exit status of a child whose gate was never opened.
const UnrunStatus = 125

// gate is run by the shell before the command: it waits for one line on descriptor 3, and ends unrun if the writer goes
// away without it. The empty line that it then writes is the proof, for a successor of the agent, that the command ran; one
// that cannot leave it ends unrun too. The command then follows in the same shell, on lines of its own: whatever it holds, a
// comment, a here-document, a syntax error, it cannot reach back.
const gate = "read -r DROVER_GATE <&3 || exit 125; unset DROVER_GATE; exec 3<&-; echo || exit 125\n"

// Command is what is to be run.
type Command struct {
	// Line is run by /bin/sh -c. Its errors count lines from 2.
	Line string
	// Dir is an absolute directory, entered with the account's rights.
	Dir     string
	Account Account
	// Mark is put into the environment as MarkVariable, where everything the command starts inherits it.
	Mark string
	// Output receives stdout and stderr. Start does not keep it.
	Output *os.File
	// Group is what the child is born in; it may be nil. Start does not keep it.
	Group *cgroup.Group
}

// Child is a started command. Either Release or Abandon must be called.
type Child struct {
	id       procfs.Identity
	groupErr error

	mu   sync.Mutex
	gate *os.File
}

// Start forks a child that waits at its gate in a new session, and returns once it does. Nobody waits for the child: it has
// to be watched or left to the reaper of orphans, both of liveness. Errors are *process.Error in a caller's words; then
// nothing was run.
func Start(proc procfs.FS, c Command) (*Child, error) {
	if c.Output == nil {
		return nil, process.Errorf(process.Failed, "cannot start the command: it has no output file")
	}
	credential, err := credentialFor(c.Account)
	if err != nil {
		return nil, err
	}
	var gates [2]int
	// Not os.Pipe: its ends do not block, which a shell takes for an end of file.
	if err := unix.Pipe2(gates[:], unix.O_CLOEXEC); err != nil {
		return nil, process.Errorf(process.Failed, "cannot start the command: %v", os.NewSyscallError("pipe2", err))
	}
	opener := os.NewFile(uintptr(gates[1]), "gate")
	pid, handle, groupErr, err := fork(c, gates[0], credential)
	unix.Close(gates[0]) //nolint:errcheck // the child has its own
	if err != nil {
		_ = opener.Close()
		return nil, explain(c, err)
	}
	id, err := proc.IdentifyChild(pid)
	if handle >= 0 {
		// What was identified is the child only if the child had not ended by then.
		if err == nil && !pidfd.Alive(handle) {
			err = os.ErrProcessDone
		}
		unix.Close(handle) //nolint:errcheck // nothing was written
	}
	if err != nil {
		_ = opener.Close()
		return nil, process.Errorf(process.Failed, "cannot start the command: the shell was ended before it ran anything: %v", err)
	}
	return &Child{id: id, groupErr: groupErr, gate: opener}, nil
}

// fork returns the child's pid and a handle on it, -1 where the kernel has none. groupErr says why the child is not in its
// group.
func fork(c Command, gateFD int, credential *syscall.Credential) (pid, handle int, groupErr, err error) {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, -1, nil, os.NewSyscallError("open "+os.DevNull, err)
	}
	defer unix.Close(null) //nolint:errcheck // opened for reading only

	handle = -1
	sys := &syscall.SysProcAttr{Setsid: true, Credential: credential, PidFD: &handle}
	attr := &syscall.ProcAttr{Dir: c.Dir, Env: environment(c), Sys: sys}
	output := c.Output.Fd()
	attr.Files = []uintptr{uintptr(null), output, output, uintptr(gateFD)}
	argv := []string{shell, "-c", gate + c.Line}
	defer runtime.KeepAlive(c.Output)
	defer runtime.KeepAlive(c.Group)

	// A child starts with the signal mask of the thread that forks it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var empty, old unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &empty, &old); err != nil {
		return 0, -1, nil, os.NewSyscallError("sigprocmask", err)
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) //nolint:errcheck // undoes what has just worked

	if c.Group == nil {
		pid, err = syscall.ForkExec(shell, argv, attr)
		return pid, handle, nil, err
	}
	if fd, ok := c.Group.FD(); ok {
		sys.UseCgroupFD, sys.CgroupFD = true, fd
		if pid, err = syscall.ForkExec(shell, argv, attr); err == nil {
			return pid, handle, c.Group.Bind(pid), nil
		}
		// Before Linux 5.7, or not allowed: the same failure for another reason comes back below.
		sys.UseCgroupFD, sys.CgroupFD = false, 0
	}
	if pid, err = syscall.ForkExec(shell, argv, attr); err != nil {
		return 0, -1, nil, err
	}
	// The child is still behind its gate: whatever it starts is born in the group too.
	return pid, handle, c.Group.Add(pid), nil
}

// credentialFor returns what to change to, nil where nothing needs to change.
func credentialFor(a Account) (*syscall.Credential, error) {
	euid := os.Geteuid()
	if euid != 0 {
		if a.UID != uint32(euid) { //nolint:gosec // uids are 32 bits wide
			return nil, process.Errorf(process.Failed, "cannot run as user %q: needs root, the agent runs as %q", a.Name, ownName(euid)).Because(process.CauseNeedsRoot)
		}
		return nil, nil //nolint:nilnil // no change is the answer
	}
	c := &syscall.Credential{Uid: a.UID, Gid: a.GID, Groups: a.Groups}
	if a.UID == 0 && groupsFixed() {
		c.NoSetGroups = true
	}
	return c, nil
}

// groupsFixed reports whether this is a user namespace in which nobody may change supplementary groups.
func groupsFixed() bool {
	state, err := os.ReadFile("/proc/self/setgroups")
	return err == nil && string(state) == "deny\n"
}

func ownName(uid int) string {
	passwd, err := os.ReadFile("/etc/passwd")
	if err == nil {
		if a, ok := accountByUID(passwd, uid); ok {
			return a.Name
		}
	}
	return fmt.Sprintf("uid %d", uid)
}

// explain finds out which step of the child failed: the kernel's answer is one number for all of them.
func explain(c Command, err error) error {
	failed := func(format string, args ...any) *process.Error {
		return process.Errorf(process.Failed, format, args...)
	}
	if info, statErr := os.Stat(c.Dir); statErr != nil {
		return failed("cannot enter setup_path %s: %v", c.Dir, cause(statErr)).Because(process.CauseNoDirectory)
	} else if !info.IsDir() {
		return failed("cannot enter setup_path %s: %v", c.Dir, syscall.ENOTDIR).Because(process.CauseNoDirectory)
	}
	if _, statErr := os.Stat(shell); statErr != nil {
		return failed("cannot start the command: %s: %v", shell, cause(statErr))
	}
	switch {
	case errors.Is(err, syscall.EACCES):
		return failed("cannot enter setup_path %s as user %s: %v", c.Dir, c.Account.Name, syscall.EACCES).Because(process.CauseNoDirectory)
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EINVAL):
		return failed("cannot run as user %s: %v", c.Account.Name, err)
	default:
		return failed("cannot start the command: %v", err)
	}
}

// cause takes the path off an error that names it already.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// Identity names the child, which is the shell and, unless that replaces itself, stays it until the command has ended.
func (c *Child) Identity() procfs.Identity { return c.id }

// GroupError says why the child could not be put into its group, nil if it could or none was asked for. The command can
// still be run, but what it starts is then found less surely.
func (c *Child) GroupError() error { return c.groupErr }

// Release lets the command run. The error is os.ErrProcessDone when the child has ended before, os.ErrClosed when it was
// released or abandoned already.
func (c *Child) Release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gate == nil {
		return fmt.Errorf("cannot release pid %d: %w", c.id.PID, os.ErrClosed)
	}
	_, err := c.gate.WriteString("go\n")
	if closeErr := c.gate.Close(); err == nil {
		err = closeErr
	}
	c.gate = nil
	if errors.Is(err, syscall.EPIPE) {
		err = os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("cannot release pid %d: %w", c.id.PID, err)
	}
	return nil
}

// Abandon makes the child end with UnrunStatus without running anything. It does not wait for that, and does nothing after
// a Release.
func (c *Child) Abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gate != nil {
		_ = c.gate.Close()
		c.gate = nil
	}
}
