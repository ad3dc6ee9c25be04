package launch_test

import (
	"os"
	"path/filepath"
	"testing"

	"drover/internal/agent/launch"
)

// Whoever comes after the agent that started a command has only the file to tell by whether it ran.
func TestOutputTellsWhetherTheCommandRan(t *testing.T) {
	for line, text := range map[string]string{"": "", "true": "", "exit 3": "", "if": "", "echo; echo a": "\na", "echo a": "a"} {
		dir := t.TempDir()
		out, err := launch.CreateOutput(dir, "out")
		if err != nil {
			t.Fatal(err)
		}
		if err := out.Probe(); err != nil {
			t.Fatal(err)
		}
		child, err := forker().Start(command(t, line, out))
		if err != nil {
			t.Fatal(err)
		}
		successor, err := launch.OpenOutput(dir, "out")
		if err != nil {
			t.Fatal(err)
		}
		if out.Ran() || successor.Ran() {
			t.Errorf("%q ran behind its gate", line)
		}
		if err := child.Release(); err != nil {
			t.Fatal(err)
		}
		wait(t, child)
		if !out.Ran() || !successor.Ran() {
			t.Errorf("%q did not run", line)
		}
		if got := successor.Text(); line != "if" && got != text {
			t.Errorf("%q said %q, want %q", line, got, text)
		}
		_, _ = out.Close(), successor.Close()
	}
}

func TestOutputOfAnAbandonedCommand(t *testing.T) {
	out := output(t)
	child, err := forker().Start(command(t, "echo ran", out))
	if err != nil {
		t.Fatal(err)
	}
	child.Abandon()
	wait(t, child)
	if out.Ran() || out.Text() != "" {
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
	c.Output = full
	if status := do(t, c); status.ExitStatus() != launch.UnrunStatus {
		t.Errorf("wait status %#x", status)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it ran")
	}
}

func TestOpenOutputOfNoCommand(t *testing.T) {
	if out, err := launch.OpenOutput(t.TempDir(), "out"); err == nil {
		t.Errorf("opened %s", out.File().Name())
	}
}
