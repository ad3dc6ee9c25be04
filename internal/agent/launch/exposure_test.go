package launch_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

// TestCommandsAreNotSpared: where the agent is set apart from what the kernel ends when memory runs out, a command is not. Only root can
// set it apart; for others the score is what it should be anyway.
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
	for _, score := range []string{"-100", "0", "300"} {
		want := "0\n"
		if score[0] != '-' {
			want = score + "\n"
		}
		if err := os.WriteFile(own, []byte(score), 0); err != nil && !errors.Is(err, fs.ErrPermission) {
			t.Fatal(err)
		}
		out := output(t)
		if status := do(t, command(t, "cat "+own, out)); status.ExitStatus() != 0 {
			t.Fatalf("ended with %d", status.ExitStatus())
		}
		text, err := os.ReadFile(out.File().Name())
		if err != nil {
			t.Fatal(err)
		}
		// The gate leaves an empty line first.
		if got := string(text); got != "\n"+want {
			t.Errorf("with a score of %s the command has %q, want %q", score, got, "\n"+want)
		}
	}
}
