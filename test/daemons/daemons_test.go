package daemons_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/pidns"
	"drover/test/daemons"
)

const patience = 20 * time.Second

func TestMain(m *testing.M) { os.Exit(pidns.Run(m)) }

// odd is a place where oddd runs.
type odd struct {
	t   *testing.T
	dir string
	bin string
}

func build(t *testing.T, name string) *odd {
	t.Helper()
	dir := t.TempDir()
	return &odd{t: t, dir: dir, bin: daemons.Build(t, dir, name)}
}

// command returns oddd with its records in the directory; the modes come first in args.
func (o *odd) command(mode string, args ...string) *exec.Cmd {
	cmd := exec.Command(o.bin, append([]string{
		mode, "-pidfile", "pid", "-log", "log", "-runlog", "runlog", "-siglog", "siglog",
	}, args...)...)
	cmd.Dir = o.dir
	return cmd
}

func (o *odd) start(mode string, args ...string) {
	o.t.Helper()
	if out, err := o.command(mode, args...).CombinedOutput(); err != nil {
		o.t.Fatalf("oddd %s: %v\n%s", mode, err, out)
	}
}

func (o *odd) read(name string) string {
	text, err := os.ReadFile(filepath.Join(o.dir, name))
	if err != nil {
		return ""
	}
	return string(text)
}

// await waits until a record holds a text.
func (o *odd) await(name, text string) {
	o.t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for deadline := time.After(patience); !strings.Contains(o.read(name), text); {
		select {
		case <-look.C:
		case <-deadline:
			o.t.Fatalf("%s holds %q and never %q", name, o.read(name), text)
		}
	}
}

// process is a running daemon or worker, held by its pidfd.
type process struct {
	t   *testing.T
	pid int
	fd  int
}

func hold(t *testing.T, pid int) process {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("pid %d is not one of ours", pid)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("pid %d: %v", pid, err)
	}
	t.Cleanup(func() {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		_ = pidns.AwaitEnd(fd)
		unix.Close(fd)
	})
	return process{t: t, pid: pid, fd: fd}
}

func (o *odd) daemon() process {
	o.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(o.read("pid")))
	if err != nil {
		o.t.Fatalf("pid file: %v", err)
	}
	return hold(o.t, pid)
}

func (p process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := unix.PidfdSendSignal(p.fd, s, nil, 0); err != nil {
		p.t.Fatalf("signal %v to pid %d: %v", s, p.pid, err)
	}
}

func (p process) awaitEnd() {
	p.t.Helper()
	if err := pidns.AwaitEnd(p.fd); err != nil {
		p.t.Fatalf("pid %d did not end: %v", p.pid, err)
	}
}

func (p process) alive() bool { return unix.PidfdSendSignal(p.fd, 0, nil, 0) == nil }

// stat returns parent, process group and session.
func (p process) stat() (parent, group, session int) {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(text, []byte(") "))
	var state string
	if _, err := fmt.Sscan(string(rest), &state, &parent, &group, &session); err != nil {
		p.t.Fatal(err)
	}
	return parent, group, session
}

func (p process) comm() string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid))
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestPlain(t *testing.T) {
	o := build(t, "oddd")
	o.start("plain")
	d := o.daemon()
	if parent, group, session := d.stat(); parent == os.Getpid() || group == d.pid || session == d.pid {
		t.Errorf("pid %d has parent %d, group %d and session %d: want none of them ours or its own", d.pid, parent,
			group, session)
	}
	if want := fmt.Sprintf("start %d ", d.pid); !strings.HasPrefix(o.read("runlog"), want) {
		t.Errorf("run log is %q, want it to begin with %q", o.read("runlog"), want)
	}
	d.signal(syscall.SIGHUP)
	o.await("log", "reloaded\n")
	d.signal(syscall.SIGTERM)
	d.awaitEnd()
	if got := o.read("pid"); got != "" {
		t.Errorf("pid file still holds %q", got)
	}
	if want := fmt.Sprintf("SIGHUP %[1]d\nSIGTERM %[1]d\n", d.pid); o.read("siglog") != want {
		t.Errorf("signal log is %q, want %q", o.read("siglog"), want)
	}
}

func TestLate(t *testing.T) {
	o := build(t, "oddd")
	o.start("late", "-delay", "1m")
	if got := o.read("pid"); got != "" {
		t.Errorf("pid file holds %q at once", got)
	}
	o.start("late", "-delay", "1ms")
	o.await("pid", "\n")
	o.daemon().signal(syscall.SIGTERM)
}

func TestHoldStdout(t *testing.T) {
	o := build(t, "oddd")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := o.command("hold-stdout", "-every", "1ms")
	cmd.Stdout = write
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	d := o.daemon()
	lines := bufio.NewReader(read)
	for range 3 {
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "still here") {
			t.Fatalf("read %q and %v", line, err)
		}
	}
	read.Close()
	d.awaitEnd() // by SIGPIPE
}

func TestIgnoreTerm(t *testing.T) {
	o := build(t, "oddd")
	o.start("ignore-term")
	d := o.daemon()
	d.signal(syscall.SIGTERM)
	o.await("siglog", "SIGTERM")
	d.signal(syscall.SIGHUP) // served after SIGTERM, so the daemon has got over it
	o.await("log", "reloaded")
	if !d.alive() {
		t.Error("SIGTERM ended it")
	}
	d.signal(syscall.SIGKILL)
	d.awaitEnd()
}

func TestRename(t *testing.T) {
	o := build(t, "oddd")
	o.start("rename", "-title", "somebody-else")
	if got := o.daemon().comm(); got != "somebody-else" {
		t.Errorf("its name is %q, want somebody-else", got)
	}
}

func TestLongName(t *testing.T) {
	o := build(t, daemons.LongName)
	o.start("plain")
	if got := o.daemon().comm(); got != daemons.LongName[:15] {
		t.Errorf("its name is %q, want %q", got, daemons.LongName[:15])
	}
}

// workers returns the workers that have begun.
func (o *odd) workers(n int) []process {
	o.t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for deadline := time.After(patience); strings.Count(o.read("runlog"), "worker ") < n; {
		select {
		case <-look.C:
		case <-deadline:
			o.t.Fatalf("fewer than %d workers began:\n%s", n, o.read("runlog"))
		}
	}
	var all []process
	for line := range strings.Lines(o.read("runlog")) {
		var pid int
		if _, err := fmt.Sscanf(line, "worker %d", &pid); err == nil {
			all = append(all, hold(o.t, pid))
		}
	}
	return all
}

func TestWorkers(t *testing.T) {
	for _, c := range []struct {
		signal  syscall.Signal
		survive bool
	}{{syscall.SIGTERM, false}, {syscall.SIGKILL, true}} {
		t.Run(unix.SignalName(c.signal), func(t *testing.T) {
			o := build(t, "oddd")
			o.start("workers", "-workers", "3")
			d, all := o.daemon(), o.workers(3)
			for _, w := range all {
				if parent, _, session := w.stat(); parent != d.pid || session != w.pid {
					t.Errorf("worker %d has parent %d and session %d, want %d and its own", w.pid, parent, session,
						d.pid)
				}
			}
			d.signal(c.signal)
			d.awaitEnd()
			for _, w := range all {
				if w.alive() != c.survive {
					t.Errorf("worker %d is alive: %v, want %v", w.pid, w.alive(), c.survive)
				}
			}
		})
	}
}

func TestExitNow(t *testing.T) {
	o := build(t, "oddd")
	o.start("exit-now")
	if o.read("pid") != "" || strings.Count(o.read("runlog"), "start ") != 1 {
		t.Errorf("pid file holds %q and run log %q, want nothing and one start", o.read("pid"), o.read("runlog"))
	}
}

func TestCrashAfter(t *testing.T) {
	// As a subreaper the test gets the orphaned daemon for a child, and so its exit code.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
			t.Error(err)
		}
	}()
	o := build(t, "oddd")
	o.start("crash-after,ignore-term", "-delay", "10ms", "-code", "7")
	pid, err := strconv.Atoi(strings.TrimSpace(o.read("pid")))
	if err != nil {
		t.Fatalf("a crash removed the pid file: %v", err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	if status.ExitStatus() != 7 {
		t.Errorf("it ended with %d, want 7", status.ExitStatus())
	}
}

func TestRefusals(t *testing.T) {
	o := build(t, "oddd")
	for _, args := range [][]string{
		{},
		{"nice"},
		{"plain,nice"},
		{"plain", "-nice"},
		{"plain", "-pidfile", "no/such/dir/pid"},
	} {
		cmd := exec.Command(o.bin, args...)
		cmd.Dir = o.dir
		if err := cmd.Run(); err == nil {
			t.Errorf("oddd %q ended with 0", args)
		}
	}
}
