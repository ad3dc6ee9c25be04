// Package lab is what the benchmarks of this project share: a program to be supervised that notes when it runs, a
// supervisor that does the least that any could (the floor), drover run as its users run it, the cost of a set of
// processes as the kernel counts it, and tables of figures. It owns every process that it starts and signals no other.
// It is for programs that run in a pid namespace of their own (pidns).
package lab

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

//go:embed worker/worker.c
var workerSource []byte

// Lab is a place to measure in.
type Lab struct {
	// Dir is below a tmpfs where there is one; Disk is on the disk that a user's data would be on.
	Dir, Disk string
	// Worker is the supervised program (worker/worker.c); there may be none.
	Worker string
	// Bin holds the binaries of drover.
	Bin string
}

// New makes the directories and builds what is run in them: drover and, if it is asked for, the worker.
func New(ctx context.Context, disk string, worker bool) (*Lab, error) {
	memory := "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		memory = ""
	}
	dir, err := os.MkdirTemp(memory, "drover-bench-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory: %w", err)
	}
	l := &Lab{Dir: dir, Bin: filepath.Join(dir, "bin")}
	if l.Disk, err = os.MkdirTemp(disk, "drover-bench-"); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot make a directory: %w", err), l.Close())
	}
	builds := [][]string{{"go", "build", "-trimpath", "-o", l.Bin + "/", "./cmd/..."}}
	if worker {
		source := filepath.Join(dir, "worker.c")
		if err := os.WriteFile(source, workerSource, 0o600); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.Worker = filepath.Join(dir, "worker")
		builds = append(builds, []string{"gcc", "-O2", "-static", "-o", l.Worker, source})
	}
	for _, args := range builds {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot run %q: %w\n%s", args, err, out), l.Close())
		}
	}
	return l, nil
}

// Close removes the directories.
func (l *Lab) Close() error {
	var err error
	if l.Disk != "" {
		err = os.RemoveAll(l.Disk)
	}
	return errors.Join(err, os.RemoveAll(l.Dir))
}

// Now is the clock of the stamps: CLOCK_MONOTONIC in nanoseconds.
func Now() int64 {
	var ts unix.Timespec
	// It can only fail for a clock that the kernel does not have.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

// Pause waits.
func Pause(d time.Duration) { <-time.After(d) }

// Child is a process that was started here.
type Child struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start starts a command whose end is waited for in the background. Its output goes to the file log.
func Start(cmd *exec.Cmd, log string) (*Child, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot keep output: %w", err)
	}
	defer f.Close()
	if cmd.Stdout == nil {
		cmd.Stdout = f
	}
	cmd.Stderr = f
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", cmd.Path, err)
	}
	c := &Child{cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is the caller's doing
		close(c.ended)
	}()
	return c, nil
}

// PID is the child's process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Ended is closed when the child has ended.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// endTime is how long a supervisor may take to end when it is asked to.
const endTime = 30 * time.Second

// End sends the child a signal and waits until it has ended; one that does not is killed.
func (c *Child) End(sig syscall.Signal) {
	_ = c.cmd.Process.Signal(sig) // it may have ended
	select {
	case <-c.ended:
	case <-time.After(endTime):
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
}

// Signal sends a signal to a process through a pidfd.
func Signal(pid int, sig syscall.Signal) error {
	if pid <= 1 {
		return fmt.Errorf("cannot signal pid %d: it is none of ours", pid)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("cannot signal pid %d: %w", pid, err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// Patience is how long anything may take before a benchmark gives up.
const Patience = 90 * time.Second

// Eventually asks again and again until the answer is yes, and fails after a time.
func Eventually(what string, patience time.Duration, yes func() bool) error {
	for until := time.Now().Add(patience); !yes(); Pause(time.Millisecond) {
		if time.Now().After(until) {
			return fmt.Errorf("waited in vain for %s", what)
		}
	}
	return nil
}
