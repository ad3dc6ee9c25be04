package launch_test

import (
	"os"
	"testing"

	"drover/internal/agent/launch"
)

// TestCommandsAreNotSpared: where the agent is set apart from what the kernel ends when memory runs out, a command is
// not; where it is more exposed than others, so is a command. To set a process apart takes a capability, so what undoes
// that is tried on one that is exposed.
func TestCommandsAreNotSpared(t *testing.T) {
	const own = "/proc/self/oom_score_adj"
	before, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(own, before, 0); err != nil {
			t.Error(err)
		}
	})
	for _, test := range []struct{ score, own, want string }{
		{"300", "", "300\n"},
		{"300", "0\n", "300\n"},
		{"300", "-500\n", "0\n"},
	} {
		if err := os.WriteFile(own, []byte(test.score), 0); err != nil {
			t.Fatal(err)
		}
		out := output(t)
		child, err := forker().Start(command(t, "cat "+own, out))
		if err != nil {
			t.Fatal(err)
		}
		launch.Expose(child.Identity().PID, []byte(test.own))
		if err := child.Release(); err != nil {
			t.Fatal(err)
		}
		if status := wait(t, child); status.ExitStatus() != 0 {
			t.Fatalf("ended with %d", status.ExitStatus())
		}
		text, err := os.ReadFile(out.File().Name())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(text), test.want; got != want {
			t.Errorf("under a score of %s, of an agent with %q, the command has %q, want %q", test.score, test.own, got, want)
		}
	}
}
