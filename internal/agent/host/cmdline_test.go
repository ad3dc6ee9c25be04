package host_test

import (
	"testing"

	"drover/internal/agent/launch"
	"drover/internal/process"
	"drover/internal/test/harness"
)

// TestCommandLine: what is shown of a command that runs is what somebody has written, and of another process all.
func TestCommandLine(t *testing.T) {
	h := open(t, t.TempDir())
	const line = "sleep 1000; echo done # with a comment"
	child, err := h.Launch(process.ID{}, "run", line, spec("/", "sh", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Discard("run")
	defer child.Abandon()
	// Until it has executed its shell it has no command line of its own.
	harness.Eventually(t, "the command line to be shown", func() bool {
		i, _, err := h.Instance(child.Identity())
		return err == nil && i.Cmdline == line
	})
	for _, other := range []string{"/bin/sh -c echo", "sleep 1000", ""} {
		if got := launch.Ungated(other); got != other {
			t.Errorf("of %q is shown %q", other, got)
		}
	}
}
