package gate_test

import (
	"bytes"
	"debug/elf"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/agent/launch/gate"
	"drover/internal/agent/pidns"
)

func TestMain(m *testing.M) { os.Exit(pidns.Run(m)) }

// gates are the ways to have a gate.
func gates(t *testing.T) map[string]uintptr {
	t.Helper()
	memory, err := gate.Open(filepath.Join(t.TempDir(), "not used"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	disk, err := gate.OnDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := memory.Close(); err != nil {
			t.Error(err)
		}
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("there are %v, %v", left, err)
	}
	return map[string]uintptr{"memory": memory.Fd(), "disk": disk.Fd()}
}

// run runs a script to the end of its gate or of the command that the gate becomes.
func run(t *testing.T, fd uintptr, s *gate.Script, opened bool, argv, env []string) (out string, status int) {
	t.Helper()
	script, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var written bytes.Buffer
	cmd := exec.Command(gate.Path(fd))
	cmd.Args, cmd.Env, cmd.Dir = argv, env, "/"
	cmd.Stdout, cmd.Stderr = &written, &written
	pipe, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if opened {
		script = append(script, '\n')
	}
	if _, err := pipe.Write(script); err != nil {
		t.Fatal(err)
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its error is the status
	return written.String(), cmd.ProcessState.ExitCode()
}

// waiting is a script that waits at its gate.
func waiting() *gate.Script {
	var s gate.Script
	s.Must("", 1, unix.SYS_READ, gate.Number(0), s.Bytes([]byte{0}), gate.Number(1))
	return &s
}

func TestScript(t *testing.T) {
	const script = `echo "$0 $# $* $(pwd) $(umask) $A $(env | grep -c =)"`
	for name, fd := range gates(t) {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			s := waiting()
			s.Must("", gate.NoError, unix.SYS_CHDIR, s.Text(dir))
			s.Must("", 0o022, unix.SYS_UMASK, gate.Number(uint32(0o027)))
			s.May(unix.SYS_CHDIR, s.Text("/none"))
			// Arguments of its own before those of the gate: the shell is argument -3.
			for i, text := range []string{"/bin/sh", "-c", script} {
				s.Put(gate.Vector(i-3), s.Text(text))
			}
			s.May(unix.SYS_EXECVE, gate.Arg(-3), gate.Vector(-3), gate.Environment(3))
			old := unix.Umask(0o022)
			defer unix.Umask(old)
			out, status := run(t, fd, s, true, []string{"name", "a b", "c"}, []string{"A=1", "B=2"})
			if want := "name 2 a b c " + dir + " 0027 1 3\n"; out != want || status != 0 { // the shell adds PWD
				t.Errorf("it said %q, want %q; status %d", out, want, status)
			}
		})
	}
}

func TestUnrun(t *testing.T) {
	for name, fd := range gates(t) {
		t.Run(name, func(t *testing.T) {
			s := waiting()
			s.May(unix.SYS_EXECVE, gate.Arg(0), gate.Vector(0), gate.Environment(2))
			argv := []string{"/bin/echo", "ran"}
			if out, status := run(t, fd, s, false, argv, nil); out != "" || status != gate.UnrunStatus {
				t.Errorf("nobody opens it: %q, status %d", out, status)
			}
			if out, status := run(t, fd, s, true, argv, nil); out != "ran\n" || status != 0 {
				t.Errorf("it is opened: %q, status %d", out, status)
			}
			s = waiting()
			s.Must("cannot enter\n", gate.NoError, unix.SYS_CHDIR, s.Text("/none"))
			s.Exit(0)
			if out, status := run(t, fd, s, true, argv, nil); out != "cannot enter\n" || status != gate.UnrunStatus {
				t.Errorf("a call fails: %q, status %d", out, status)
			}
			s = waiting()
			s.Must("too little\n", 0, unix.SYS_GETPRIORITY, gate.Number(math.MaxInt32), gate.Number(0))
			s.Exit(3)
			if _, status := run(t, fd, s, true, argv, nil); status != gate.UnrunStatus {
				t.Errorf("an invalid call: status %d", status)
			}
			s = waiting()
			s.Exit(3)
			if _, status := run(t, fd, s, true, argv, nil); status != 3 {
				t.Errorf("it ended with %d, want 3", status)
			}
		})
	}
}

// TestShortScript: a gate whose agent has died before it wrote the script does nothing.
func TestShortScript(t *testing.T) {
	for name, fd := range gates(t) {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(gate.Path(fd))
			cmd.Stdin = io.LimitReader(strings.NewReader(strings.Repeat("\x00", 5000)), 4000)
			if err := cmd.Run(); cmd.ProcessState.ExitCode() != gate.UnrunStatus {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

func TestFullScript(t *testing.T) {
	s := waiting()
	room := s.Room(1)
	s.Text(strings.Repeat("x", room-1))
	s.Exit(0)
	if _, err := s.Encode(); err != nil {
		t.Error(err)
	}
	s.Text("x")
	if _, err := s.Encode(); err == nil {
		t.Error("a script that is too long is encoded")
	}
}

// TestNothingCanBeExecuted: the error names both ways.
func TestNothingCanBeExecuted(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_NOEXEC, ""); err != nil {
		return // without the right to mount
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	if _, err := gate.OnDisk(dir); err == nil || err.Error() != "execve: permission denied" {
		t.Errorf("got %v", err)
	}
}

// TestImage: the program is what loaders and analysts expect, and its stack cannot be executed.
func TestImage(t *testing.T) {
	image, err := gate.Image()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Progs) != 2 || f.Progs[0].Flags != elf.PF_R|elf.PF_X || f.Progs[1].Type != elf.PT_GNU_STACK ||
		f.Progs[1].Flags != elf.PF_R|elf.PF_W {
		t.Errorf("it has %v", f.Progs)
	}
	if len(image) > 700 {
		t.Errorf("it has %d bytes", len(image))
	}
}
