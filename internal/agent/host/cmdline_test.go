package host_test

import (
	"testing"

	"drover/internal/agent/launch"
)

// TestCommandLine: what is shown of a command that runs is what somebody has written, and of another process all.
func TestCommandLine(t *testing.T) {
	h := open(t, t.TempDir())
	const line = "sleep 1000; echo done # with a comment"
	child, err := h.Launch("run", line, spec("/", "sh", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Discard("run")
	defer child.Abandon()
	i, err := h.Instance(child.Identity())
	if err != nil {
		t.Fatal(err)
	}
	if i.Cmdline != line {
		t.Errorf("it is shown as %q, want %q", i.Cmdline, line)
	}
	for _, other := range []string{"/bin/sh -c echo", "sleep 1000", ""} {
		if got := launch.Ungated(other); got != other {
			t.Errorf("of %q is shown %q", other, got)
		}
	}
}
