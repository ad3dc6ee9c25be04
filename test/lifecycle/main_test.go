// Package lifecycle_test holds the black-box tests of real and of odd daemons: the built binary runs them through its HTTP
// API as a caller would.
package lifecycle_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/agent/pidns"
	"drover/test/harness"
)

var binaries struct{ drover, oddd string }

func TestMain(m *testing.M) { os.Exit(pidns.Run(built{m})) }

// built builds the programs once, inside the pid namespace.
type built struct{ *testing.M }

func (b built) Run() int {
	dir, err := os.MkdirTemp("", "drover-bin-")
	if err == nil {
		defer os.RemoveAll(dir)
		binaries.drover, err = harness.Build(dir, "./cmd/drover")
	}
	if err == nil {
		binaries.oddd, err = harness.Build(dir, "./test/daemons/oddd")
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return b.M.Run()
}

// workdir is a directory that every account may enter and the given one owns.
func workdir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "drover-work-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// signal sends a signal to a process of the test's own pid namespace, through a pidfd.
func signal(t *testing.T, pid int, sig syscall.Signal) {
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

// alive reports whether a process is there and no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return fields[0] != "Z" && fields[0] != "X"
}

// odd returns a process that runs the odd daemon with the given modes and flags.
func odd(t *testing.T, s *harness.Server, name, modes string, flags ...string) (*harness.Process, string) {
	t.Helper()
	dir := workdir(t)
	command := fmt.Sprintf("%s %s -pidfile %s/oddd.pid -runlog %s/run.log -siglog %s/sig.log %s", binaries.oddd, modes, dir, dir, dir, strings.Join(flags, " "))
	return &harness.Process{
		Server: s, Namespace: "odd", Name: name,
		Identity: harness.Object{"proc_name": "oddd", "setup_path": dir, "pid_path": dir + "/oddd.pid", "user": "root"},
		Control:  harness.Object{"start_cmd": command, "stop_cmd": ""},
	}, dir
}

// starts counts how often a daemon has really begun.
func starts(t *testing.T, dir string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "run.log"))
	if err != nil {
		return 0
	}
	return strings.Count(string(data), "start ")
}

func want(t *testing.T, what string, r harness.Result, code int) harness.Result {
	t.Helper()
	if r.Code != code {
		t.Fatalf("%s: code %d (%s), want %d", what, r.Code, r.Msg, code)
	}
	return r
}

// run runs a command of the test itself and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

func readFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	return string(data), err
}
