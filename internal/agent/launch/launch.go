// Package launch starts commands with exactly the given account, directory, environment, output file and control
// group. A command waits behind a gate until its identity is on record. The package owns fork and exec, the accounts
// of the host and the output files. It does not wait for the end of a command: liveness does.
package launch

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"drover/internal/agent/cgroup"
	"drover/internal/agent/instance"
	"drover/internal/agent/launch/gate"
	"drover/internal/agent/trail"
	"drover/internal/process"
	"drover/internal/spec"
)

const shell = process.Shell

// UnrunStatus is the exit status of a child whose gate was never opened.
const UnrunStatus = gate.UnrunStatus

// MayEnter fails, in a caller's words, if the account cannot enter a directory; field is its field. It may hang if the
// file system hangs. It does not reveal what is below a directory that the account may not enter.
func (a Account) MayEnter(field, dir string) error {
	err := a.Visit(nil, dir, func(way *trail.Trail) error {
		if !way.IsDir() {
			return &fs.PathError{Op: "enter", Path: dir, Err: syscall.ENOTDIR}
		}
		return way.Enter()
	})
	problem, ok := errors.AsType[*fs.PathError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return process.Errorf(process.Failed, "cannot run as user %s: %v", a.Name, err)
	case errors.Is(problem, syscall.EACCES):
		return process.Errorf(process.Failed, "cannot enter %s %s as user %s: %v", field, dir, a.Name,
			syscall.EACCES).Because(process.CauseNoDirectory)
	case errors.Is(problem, syscall.EMFILE), errors.Is(problem, syscall.ENFILE):
		return process.Errorf(process.Failed, "drover has no file descriptor left: %v", problem.Err)
	default:
		return process.Errorf(process.Failed, "cannot enter %s %s: %v", field, dir,
			problem.Err).Because(process.CauseNoDirectory)
	}
}

// Command describes a command to run.
type Command struct {
	// Line is run by /bin/sh -c. If it is exec and words, the gate executes them without a shell.
	Line string
	// Dir is an absolute directory, entered with the account's rights before the gate: a child that cannot enter it
	// ends there. See MayEnter.
	Dir     string
	Account Account
	// Variables are the variables of the environment beside the few that every command has. They win over those.
	Variables map[string]string
	// Execution is what else the command gets; Group, Groups and the environment of it do not count here.
	Execution spec.Execution
	// Mark is the value of MarkVariable in the environment; every process that the command starts inherits it.
	Mark string
	// Output receives stdout, and stderr if Errors is nil. Errors receives stderr. Start does not keep them.
	Output, Errors *os.File
	// Pipes says that Output and Errors are pipes, open for reading, too. The command keeps both open under further
	// numbers, so that it never gets SIGPIPE after it has opened them by name.
	Pipes bool
	// Proof receives an empty line when the command passes its gate. Start does not keep it. See CreateProof.
	Proof *os.File
	// Signal is open in the command at the descriptor SignalFD, from 3 to process.MaxNotifyFD; nil for none. Start does
	// not keep it.
	Signal   *os.File
	SignalFD int
	// Group is the group in which the child is born; it may be nil. Start does not keep it.
	Group *cgroup.Group
}

// Child is a started command. Either Release or Abandon must be called.
type Child struct {
	id       instance.Identity
	groupErr error

	mu   sync.Mutex
	gate *os.File
}

// start makes a gate and forks a child behind it, in a new session.
func (f *Forker) start(c Command, fork func(forkRequest) forkResult) (*Child, error) {
	if !c.Execution.Strict {
		c.Execution, _ = Nearest(c.Execution)
	}
	if c.Output == nil || c.Proof == nil {
		return nil, process.Errorf(process.Failed, "cannot start the command: it has no output file")
	}
	b, err := f.request(c)
	if err != nil {
		return nil, err
	}
	opener, err := b.shut(c)
	if err != nil {
		return nil, process.Errorf(process.Failed, "cannot start the command: %v", err)
	}
	child := fork(b)
	runtime.KeepAlive(c.Output)
	runtime.KeepAlive(c.Errors)
	runtime.KeepAlive(c.Proof)
	runtime.KeepAlive(c.Signal)
	runtime.KeepAlive(c.Group)
	unix.Close(b.files.gate) //nolint:errcheck // the child has its own
	switch {
	case child.err != nil:
		_ = opener.Close()
		return nil, explain(c, child.err)
	case child.lost != nil:
		_ = opener.Close()
		return nil,
			process.Errorf(process.Failed, "cannot start the command: the gate was ended before it ran anything: %v",
				child.lost)
	}
	if err := adjust(child.id.PID, c.Execution); err != nil {
		_ = opener.Close() // the child exits unrun
		return nil, err
	}
	return &Child{id: child.id, groupErr: join(c.Group, child), gate: opener}, nil
}

// request returns what the fork of a command needs, without the gate.
func (f *Forker) request(c Command) (forkRequest, error) {
	credential, err := credentialFor(c.Account)
	if err != nil {
		return forkRequest{}, err
	}
	program, err := f.Gate()
	if err != nil {
		return forkRequest{}, process.Errorf(process.Failed, "%v", err)
	}
	b := forkRequest{
		program: int(program.Fd()), env: environment(c), credential: credential, confinement: confinementFor(c),
		becomes: credential != nil && c.Account.UID != credential.Uid,
		files: files{
			output: int(c.Output.Fd()), errors: int(cmp.Or(c.Errors, c.Output).Fd()), proof: int(c.Proof.Fd()),
			group: -1, signal: -1,
		},
	}
	if c.Signal != nil {
		b.files.signal, b.signalAt = int(c.Signal.Fd()), c.SignalFD
	}
	if c.Group != nil {
		if fd, ok := c.Group.FD(); ok {
			b.files.group = fd
		}
	}
	return b, nil
}

// shut makes the gate of a command. A byte to the opener opens it.
func (b *forkRequest) shut(c Command) (opener *os.File, err error) {
	var script []byte
	if b.argv, script, err = scriptFor(c, *b); err != nil {
		return nil, err
	}
	var ends [2]int
	// Not os.Pipe: its ends are non-blocking, and the gate has to wait.
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	opener = os.NewFile(uintptr(ends[1]), "gate")
	if _, err := opener.Write(script); err != nil {
		_ = opener.Close()
		unix.Close(ends[0]) //nolint:errcheck // nothing was read
		return nil, err
	}
	b.files.gate = ends[0]
	return opener, nil
}

// join puts a child into its group, unless the child was born there. The child is still behind its gate, so every
// process that it starts is born in the group too.
func join(group *cgroup.Group, child forkResult) error {
	switch {
	case group == nil:
		return nil
	case child.inGroup:
		return group.Bind(child.id.PID)
	default:
		return group.Add(child.id.PID)
	}
}

// explain finds out which step of the child failed: the kernel reports all of them with the same number.
func explain(c Command, err error) error {
	failed := func(format string, args ...any) *process.Error {
		return process.Errorf(process.Failed, format, args...)
	}
	switch {
	case c.Execution.Capabilities != nil || c.Execution.NoNewPrivileges:
		return failed("cannot run as user %s with these capabilities: %v", c.Account.Name, err)
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EINVAL):
		return failed("cannot run as user %s: %v", c.Account.Name, err)
	default:
		return failed("cannot start the command: %v", err)
	}
}

// cause removes the path from an error whose text already names it.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// Identity names the child: the gate, then the command or its shell.
func (c *Child) Identity() instance.Identity { return c.id }

// GroupError says why the child could not be put into its group; nil if it could, or if there was no group. The
// command can still run, but drover then finds its processes less reliably.
func (c *Child) GroupError() error { return c.groupErr }

// Release lets the command run. The error is os.ErrProcessDone if the child has already ended, and os.ErrClosed if it
// was already released or abandoned.
func (c *Child) Release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gate == nil {
		return fmt.Errorf("cannot release pid %d: %w", c.id.PID, os.ErrClosed)
	}
	_, err := c.gate.WriteString("\n")
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

// Abandon makes the child exit with UnrunStatus without running anything. It does not wait for the exit, and does
// nothing after a Release.
func (c *Child) Abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gate != nil {
		_ = c.gate.Close()
		c.gate = nil
	}
}
