package launch_test

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/agent/launch"
	"drover/internal/process"
)

// TestRelimit: only a process that is proven before and after gets the limit, and the next owner of its pid has its own
// limit back.
func TestRelimit(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	limit := func() (l unix.Rlimit) {
		t.Helper()
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	before := limit()
	if before.Cur < 20 {
		t.Fatalf("the limit is %+v", before)
	}
	if err := launch.Relimit(pid, "open_files", 10, func() bool { return false }); !errors.Is(err, os.ErrProcessDone) ||
		limit() != before {
		t.Errorf("another process: %v, %+v", err, limit())
	}
	calls := 0
	if err := launch.Relimit(pid, "open_files", int64(before.Max), func() bool { //nolint:gosec // far below
		calls++
		return calls == 1
	}); !errors.Is(err, os.ErrProcessDone) || limit() != before {
		t.Errorf("a process that has ended meanwhile: %v, %+v, want %+v", err, limit(), before)
	}
	if err := launch.Relimit(pid, "open_files", 10, func() bool { return true }); err != nil ||
		limit() != (unix.Rlimit{Cur: 10, Max: 10}) {
		t.Errorf("%v, %+v", err, limit())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := launch.Relimit(pid, "open_files", 10, func() bool { return false }); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("an ended process: %v", err)
	}
}

// TestRelimitWithoutBound: the kernel has no unlimited number of open files, so the process gets the largest one.
func TestRelimitWithoutBound(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	text, err := os.ReadFile("/proc/sys/fs/nr_open")
	if err != nil {
		t.Fatal(err)
	}
	if most := launch.AsSet("open_files", process.Unlimited); strconv.FormatInt(most, 10) != strings.TrimSpace(string(text)) {
		t.Errorf("the largest number of open files is %d, want %s", most, text)
	}
	for _, name := range []string{"open_files", "core_size"} {
		err := launch.Relimit(cmd.Process.Pid, name, process.Unlimited, func() bool { return true })
		if name == "open_files" && errors.Is(err, unix.EPERM) {
			continue // without CAP_SYS_RESOURCE nobody raises a limit
		}
		have := launch.Limits(cmd.Process.Pid)[name]
		if err != nil || have != launch.AsSet(name, process.Unlimited) {
			t.Errorf("%s is %d: %v", name, have, err)
		}
	}
}

// TestUnsettableLimit: the words name the limit, and the bound of the agent or of the kernel.
func TestUnsettableLimit(t *testing.T) {
	own := process.LimitText(launch.Limits(os.Getpid())["open_files"])
	most := launch.AsSet("open_files", process.Unlimited)
	for value, want := range map[int64]string{
		process.Unlimited: "set the limit open_files to infinity: the agent may not set more than its own limit of " + own,
		most + 1: "set the limit open_files to " + process.LimitText(most+1) + ": the kernel allows at most " +
			process.LimitText(most),
	} {
		if got := launch.Setting("open_files", value); got != want {
			t.Errorf("%d: %s, want %s", value, got, want)
		}
	}
}
