package launch_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/agent/launch"
	"drover/internal/test/harness"
)

// proof makes the proof of a command.
func proof(t testing.TB, path string) *os.File {
	t.Helper()
	f, err := launch.CreateProof(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// Whoever comes after the agent that started a command has only the file to tell by whether it ran.
func TestProofTellsWhetherTheCommandRan(t *testing.T) {
	for line, text := range map[string]string{
		"": "", "true": "", "exit 3": "", "if": "", "echo; echo a": "\na", "echo a": "a",
		// It has no descriptor of the proof.
		"echo x >&4": "", "echo - 1<>/proc/self/fd/4": "",
	} {
		dir := t.TempDir()
		out, err := launch.CreateOutput(dir, "out")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "proof")
		c := command(t, line, out)
		c.Proof = proof(t, path)
		child, err := forker().Start(c)
		if err != nil {
			t.Fatal(err)
		}
		successor, err := launch.OpenOutput(dir, "out")
		if err != nil {
			t.Fatal(err)
		}
		if launch.Ran(path) {
			t.Errorf("%q ran behind its gate", line)
		}
		if err := child.Release(); err != nil {
			t.Fatal(err)
		}
		wait(t, child)
		if !launch.Ran(path) {
			t.Errorf("%q did not run", line)
		}
		if got := successor.Text(); text != "" && got != text {
			t.Errorf("%q said %q, want %q", line, got, text)
		}
		_, _ = out.Close(), successor.Close()
	}
}

// Whatever becomes of the output, the proof stands: a command may empty what it writes to, and its output may be
// dropped.
func TestProofDoesNotDependOnTheOutput(t *testing.T) {
	dir := t.TempDir()
	out := output(t)
	c := command(t, "echo x; truncate --size 0 /proc/self/fd/1; exec >&- 2>&-", out)
	c.Proof = proof(t, filepath.Join(dir, "emptied"))
	if status := do(t, c); status != 0 || out.Text() != "" || !launch.Ran(filepath.Join(dir, "emptied")) {
		t.Errorf("wait status %#x, output %q", status, out.Text())
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	c = command(t, "echo x", output(t))
	c.Output, c.Proof = null, proof(t, filepath.Join(dir, "dropped"))
	if status := do(t, c); status != 0 || !launch.Ran(filepath.Join(dir, "dropped")) {
		t.Errorf("wait status %#x", status)
	}
}

func TestProofOfAnAbandonedCommand(t *testing.T) {
	out, path := output(t), filepath.Join(t.TempDir(), "proof")
	c := command(t, "echo ran", out)
	c.Proof = proof(t, path)
	child, err := forker().Start(c)
	if err != nil {
		t.Fatal(err)
	}
	child.Abandon()
	wait(t, child)
	if launch.Ran(path) || out.Text() != "" {
		t.Errorf("it ran: %q", out.Text())
	}
}

func TestCommandThatCannotLeaveItsProof(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	mark := filepath.Join(t.TempDir(), "ran")
	c := command(t, "echo > "+mark, output(t))
	c.Proof = full
	if status := do(t, c); status.ExitStatus() != launch.UnrunStatus {
		t.Errorf("wait status %#x", status)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it ran")
	}
}

// A proof that was made has its room, and one that cannot be made leaves nothing.
func TestProofOnAFullDisk(t *testing.T) {
	dir := harness.SmallDisk(t, "64k")
	early := filepath.Join(dir, "early")
	c := command(t, "true", output(t))
	c.Proof = proof(t, early)
	if err := os.WriteFile(filepath.Join(dir, "all"), make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	late := filepath.Join(dir, "late")
	if _, err := launch.CreateProof(late); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("it was made: %v", err)
	}
	if _, err := os.Lstat(late); err == nil {
		t.Error("half of one was left")
	}
	if status := do(t, c); status != 0 || !launch.Ran(early) {
		t.Errorf("wait status %#x", status)
	}
}

func TestOpenOutputOfNoCommand(t *testing.T) {
	if _, err := launch.OpenOutput(t.TempDir(), "out"); err == nil {
		t.Error("it was opened")
	}
}

// TestExecuting: a command that cannot be executed never looks like one that runs.
func TestExecuting(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("exit 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, runs := range map[string]bool{
		"exec /nonexistent a": false, "exec nonexistent": false, "exec " + script: false, "exec sleep 60": true,
	} {
		child, err := forker().Start(command(t, line, output(t)))
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Release(); err != nil {
			t.Fatal(err)
		}
		pid := child.Identity().PID
		for launch.Executing(live(), pid) {
			runtime.Gosched()
		}
		info, err := live().Info(pid)
		if alive := err == nil && !info.Zombie(); alive != runs {
			t.Errorf("%q runs: %t, want %t", line, alive, runs)
		}
		if runs {
			if err := unix.Kill(child.Identity().PID, unix.SIGKILL); err != nil {
				t.Error(err)
			}
		}
		wait(t, child)
	}
}
