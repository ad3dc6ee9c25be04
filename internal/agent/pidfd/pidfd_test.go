package pidfd_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/agent/pidfd"
	"drover/internal/agent/pidns"
)

func TestMain(m *testing.M) { os.Exit(pidns.Run(m)) }

func yes() bool { return true }

// child starts a process that nobody waits for, and returns its pid and a handle on it.
func child(t *testing.T, line string) (pid, fd int) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", line)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Release() })
	pid = cmd.Process.Pid
	fd, err := pidfd.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return pid, fd
}

func TestReapTakesTheStatusOnce(t *testing.T) {
	pid, fd := child(t, "exec sleep 1000")
	if _, err := pidfd.Reap(fd, pid); !errors.Is(err, syscall.EAGAIN) || !pidfd.Alive(fd) {
		t.Errorf("while it lives: %v", err)
	}
	if _, err := pidfd.Exit(fd); pidfd.TellsExit() && !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("exit while it lives: %v", err)
	}
	if err := pidfd.Signal(pid, syscall.SIGTERM, yes); err != nil {
		t.Fatal(err)
	}
	if err := pidns.AwaitEnd(fd); err != nil {
		t.Fatal(err)
	}
	if pidfd.Alive(fd) {
		t.Error("alive after its end")
	}
	if _, err := pidfd.Exit(fd); pidfd.TellsExit() && !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("exit before it is reaped: %v", err)
	}
	if end, err := pidfd.Reap(fd, pid); err != nil || end.Status.Signal() != syscall.SIGTERM {
		t.Errorf("wait status %#x: %v", end.Status, err)
	}
	if _, err := pidfd.Reap(fd, pid); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("a second time: %v", err)
	}
	if status, err := pidfd.Exit(fd); pidfd.TellsExit() && (err != nil || status.Signal() != syscall.SIGTERM) {
		t.Errorf("exit afterwards: %#x %v", status, err)
	}
	if err := pidfd.Signal(pid, syscall.SIGTERM, yes); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal afterwards: %v", err)
	}
	if _, err := pidfd.Open(pid); !errors.Is(err, syscall.ESRCH) || pidfd.Unavailable(err) {
		t.Errorf("open afterwards: %v", err)
	}
}

func TestSignalSparesStrangers(t *testing.T) {
	pid, fd := child(t, "exec sleep 1000")
	asked := 0
	err := pidfd.Signal(pid, syscall.SIGKILL, func() bool { asked++; return false })
	if !errors.Is(err, pidfd.ErrStranger) || asked != 1 || !pidfd.Alive(fd) {
		t.Errorf("not proven, asked %d times: %v", asked, err)
	}
	// To kill(2) these are everybody, our own group, and the first of all.
	for _, pid := range []int{-1, 0, 1, -pid} {
		if err := pidfd.Signal(pid, 0, yes); !errors.Is(err, pidfd.ErrStranger) {
			t.Errorf("pid %d: %v", pid, err)
		}
	}
}

// TestPeak: the most memory of a child is known if it is more than that of its parent.
func TestPeak(t *testing.T) {
	const much = 200
	for line, grew := range map[string]bool{
		fmt.Sprintf("exec dd if=/dev/zero of=/dev/null bs=%dM count=1 2>&-", much): true, "exit 3": false,
	} {
		pid, fd := child(t, line)
		if err := pidns.AwaitEnd(fd); err != nil {
			t.Fatal(err)
		}
		end, err := pidfd.Reap(fd, pid)
		if err != nil || grew && (end.Peak < much<<20 || end.Peak > 2*much<<20) || !grew && end.Peak != 0 {
			t.Errorf("%q: peak %d, %v", line, end.Peak, err)
		}
	}
}
