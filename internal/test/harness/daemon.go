package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Workdir is a new directory that every account may enter and write to, as /tmp. It is removed with the test.
func Workdir(t testing.TB) string {
	t.Helper()
	//nolint:usetesting // what a daemon still writes there must not fail the test
	dir, err := os.MkdirTemp("", "drover-work-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Odd returns a process that runs the odd daemon oddd (test/daemons) with the given modes and flags, and its directory.
func Odd(t testing.TB, s *Server, oddd, name, modes string, flags ...string) (*Process, string) {
	t.Helper()
	dir := Workdir(t)
	command := fmt.Sprintf("%s %s -pidfile %s/oddd.pid -runlog %s/run.log -siglog %s/sig.log %s", oddd, modes, dir, dir,
		dir, strings.Join(flags, " "))
	return &Process{
		Server: s, Namespace: "odd", Name: name,
		Identity: Object{"proc_name": "oddd", "setup_path": dir, "pid_path": dir + "/oddd.pid", "user": "root"},
		Control:  Object{"start_cmd": command, "stop_cmd": ""},
	}, dir
}

// Starts counts how often the odd daemon of a directory has really begun.
func Starts(t testing.TB, dir string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "run.log"))
	if err != nil {
		return 0
	}
	return strings.Count(string(data), "start ")
}

// PIDs are those of all odd daemons of a directory, and of their workers, that have begun.
func PIDs(t testing.TB, dir string) []int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "run.log"))
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for line := range strings.Lines(string(data)) {
		var what string
		var pid int
		if _, err := fmt.Sscan(line, &what, &pid); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		t.Fatal("nothing has begun")
	}
	return pids
}

// Signal sends a signal to a process of the test's own pid namespace, through a pidfd.
func Signal(t testing.TB, pid int, sig syscall.Signal) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("refusing to signal pid %d", pid)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("pid %d: %v", pid, err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		t.Fatalf("pid %d: %v", pid, err)
	}
}

// Alive reports whether a process is there and no zombie. A process whose first thread has ended lives while others do.
func Alive(pid int) bool {
	const threads = 17
	fields := Stat(pid)
	return len(fields) > threads && fields[0] != "X" && (fields[0] != "Z" || fields[threads] > "1")
}

// Stat returns what follows the name in /proc/PID/stat, beginning with the state; nothing for a process that is gone.
func Stat(pid int) []string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
}

// Running is an odd daemon that has been started and is hosted, looked at once, after a second.
func Running(t testing.TB, s *Server, oddd, name string) (p *Process, dir string) {
	t.Helper()
	p, dir = Odd(t, s, oddd, name, "plain")
	p.Policy = Object{"start_check_secs": 1}
	p.Operate(0).Want(t, "start", 0)
	return p, dir
}

// MemoryPercent is how many percent of the machine's memory so many MiB are.
func MemoryPercent(t testing.TB, mib float64) float64 {
	t.Helper()
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	var kib float64
	if _, err := fmt.Sscanf(string(data), "MemTotal: %f kB", &kib); err != nil {
		t.Fatal(err)
	}
	return 100 * mib * 1024 / kib
}

// Begin starts a command that lives until the test ends.
func Begin(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// Sleeper copies a program that does nothing for long (sleep) under another name into a directory, and returns its
// path.
func Sleeper(t testing.TB, dir, name string) string {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := WriteProgram(path, data); err != nil {
		t.Fatal(err)
	}
	return path
}
