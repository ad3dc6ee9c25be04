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
	for _, test := range []struct{ score, line, want string }{
		{"300", "", "300\n"},
		{"300", launch.ExposureFor([]byte("0\n")), "300\n"},
		{"300", launch.ExposureFor([]byte("-500\n")), "0\n"},
	} {
		if err := os.WriteFile(own, []byte(test.score), 0); err != nil {
			t.Fatal(err)
		}
		out := output(t)
		if status := do(t, command(t, test.line+"cat "+own, out)); status.ExitStatus() != 0 {
			t.Fatalf("ended with %d", status.ExitStatus())
		}
		text, err := os.ReadFile(out.File().Name())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(text), test.want; got != want {
			t.Errorf("with %q, under a score of %s, the command has %q, want %q", test.line, test.score, got, want)
		}
	}
}
