package host_test

import (
	"crypto/rand"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/agent/cgroup"
	"drover/internal/agent/host"
	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/pidfd"
	"drover/internal/agent/pidns"
	"drover/internal/agent/procfs"
	"drover/internal/process"
	"drover/internal/test/harness"
)

// nothing is needed.
func nothing() map[string]bool { return nil }

func live() procfs.FS { return procfs.New("/proc") }

// open makes a host whose outputs are in dir, and lets its watcher run until the test ends.
func open(t testing.TB, dir string, set ...func(*host.Config)) *host.Host {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	watcher, err := liveness.New(live(), log)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	ctx := t.Context()
	go func() { ended <- watcher.Run(ctx) }()
	cfg := host.Config{
		FS: live(), Watcher: watcher, Name: treeName(), Outputs: dir, Proofs: dir + ".proofs",
		RuntimeMarks: dir + ".marks", RuntimeRoot: dir + ".run",
		ClockOffset: host.ClockOffset(), Log: log, Notify: socket(t),
	}
	for _, s := range set {
		s(&cfg)
	}
	h, err := host.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		h.Sweep(nothing)
		h.Close()
	})
	return h
}

// socket is the path of a socket for notifications; that of a test's own directory may be too long.
func socket(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "drover-n") //nolint:usetesting // as above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "notify")
}

// ungroup takes the control groups away from a host that has none of its commands yet.
func ungroup(t *testing.T, h *host.Host) {
	t.Helper()
	proc := t.TempDir()
	if err := os.Mkdir(filepath.Join(proc, "self"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(proc, "self", "mountinfo"), "")
	tree, err := cgroup.Open(procfs.New(proc), treeName())
	if err != nil || tree.Mode() != cgroup.ModeNone {
		t.Fatal(tree.Mode(), err)
	}
	h.SetTree(tree)
}

// treeName is one that no other test uses, not even one that runs at the same time: control groups are the whole
// machine's.
func treeName() string { return "drover-test-" + strings.ToLower(rand.Text()) }

// started is a process that a test has started from outside.
type started struct {
	instance.Identity
	cmd *exec.Cmd
}

// start runs a program until the test ends. The program has its arguments only a moment after Start, which returns when
// the kernel has closed the descriptors of the parent.
func start(t *testing.T, path string) started {
	t.Helper()
	cmd := exec.Command(path, "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the program to have its arguments", func() bool {
		line, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/cmdline")
		return err == nil && strings.HasPrefix(string(line), path)
	})
	id, err := live().Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	s := started{id, cmd}
	t.Cleanup(s.end)
	return s
}

// end ends the process and waits until it is gone.
func (s started) end() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// pidFile writes a pid file into a directory of its own.
func pidFile(t *testing.T, pid int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "daemon.pid")
	write(t, path, strconv.Itoa(pid)+"\n")
	return path
}

// spec is the spec of a process of that name.
func spec(dir, name, pidFile string) *process.Spec {
	return &process.Spec{
		ProcessName: name,
		Directory:   dir,
		PIDFile:     pidFile,
		User:        "root",
		Compat:      &v1.Compat{},
	}
}

// run runs a command to its end and returns its identity.
func run(t *testing.T, h *host.Host, id, line string) instance.Identity {
	t.Helper()
	child, err := h.Launch(process.ID{}, id, line, spec("/", "sh", ""))
	if err != nil {
		t.Fatal(err)
	}
	release(t, child)
	return child.Identity()
}

// release lets a command run and waits for its end.
func release(t *testing.T, child instance.Child) {
	t.Helper()
	handle, err := pidfd.Open(child.Identity().PID)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(handle), "child")
	defer file.Close()
	if err := child.Release(); err != nil {
		t.Fatal(err)
	}
	if err := pidns.AwaitEnd(handle); err != nil {
		t.Fatal(err)
	}
}

// daemon runs a command that leaves a process of the given name behind, and returns that.
func daemon(t *testing.T, h *host.Host, id, name, redirect string) instance.Identity {
	t.Helper()
	dir := t.TempDir()
	path := harness.Sleeper(t, dir, name)
	run(t, h, id, "setsid "+path+" 1000 </dev/null "+redirect+" & echo $! >"+dir+"/pid")
	text, err := os.ReadFile(dir + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	who, err := live().Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Signal(who, 9) })
	return who
}
