// Package pidns runs the tests of a package in their own pid namespace. All processes that the tests start end with
// them, and the tests can signal only their own processes. It is for TestMain functions only.
package pidns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// stageVariable tells a re-executed test binary its stage.
const stageVariable = "DROVER_PIDNS_STAGE"

const (
	stageInit  = "init"
	stageTests = "tests"
)

// Main is the part of *testing.M that this package uses.
type Main interface{ Run() int }

// Networked is a Main that may also ask for a network of its own, which has only a loopback device that is down.
type Networked interface{ OwnNetwork() bool }

// Run runs the tests of m inside a new pid namespace and returns the exit code; the caller hands it to os.Exit. The
// test binary is executed twice more, with the same arguments, directory and files: first as the namespace's pid 1,
// which mounts a /proc of its own, reaps orphans and, by ending, has the kernel end whatever is left; then as its
// child, an ordinary process that the tests run in. Root needs CAP_SYS_ADMIN; any other user a kernel that allows user
// namespaces, and is then seen as root inside.
func Run(m Main) int {
	switch os.Getenv(stageVariable) { //nolint:forbidigo // not configuration: a message from the stage before
	case stageTests:
		if err := os.Unsetenv(stageVariable); err != nil {
			return failed(err)
		}
		return m.Run()
	case stageInit:
		return runInit()
	default:
		return runOuter(m)
	}
}

func runOuter(m Main) int {
	attr := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if n, may := m.(Networked); may && n.OwnNetwork() {
		attr.Cloneflags |= syscall.CLONE_NEWNET
	}
	if uid := os.Geteuid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	// The kernel sends the death signal when the thread that started the child ends.
	runtime.LockOSThread()
	cmd, err := command(stageInit, attr)
	if err != nil {
		return failed(err)
	}
	if err := cmd.Start(); err != nil {
		return failed(fmt.Errorf("cannot make a pid namespace (root needs CAP_SYS_ADMIN, others user namespaces): %w",
			err))
	}
	// `go test` asks for stack traces by SIGQUIT when the time is up, and a terminal signals all processes at once.
	// The tests must answer, not this stage.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	defer signal.Stop(signals)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s)
		case err := <-ended:
			return exitCode(err)
		}
	}
}

func runInit() int {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return failed(fmt.Errorf("cannot keep mounts private: %w", err))
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC,
		""); err != nil {
		return failed(fmt.Errorf("cannot mount /proc of the pid namespace: %w", err))
	}
	cmd, err := command(stageTests, nil)
	if err != nil {
		return failed(err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if err := cmd.Start(); err != nil {
		return failed(err)
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	for {
		// Not cmd.Wait: the first process of a namespace reaps all orphans.
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return failed(err)
		case pid == cmd.Process.Pid && status.Signaled():
			return 128 + int(status.Signal())
		case pid == cmd.Process.Pid:
			return status.ExitStatus()
		}
	}
}

func command(stage string, attr *syscall.SysProcAttr) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, os.Args[1:]...) //nolint:noctx // it lives as long as this process
	cmd.Env = append(os.Environ(), stageVariable+"="+stage)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = attr
	return cmd, nil
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	default:
		return failed(err)
	}
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "pidns:", err)
	return 1
}
