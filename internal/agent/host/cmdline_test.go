package host_test

import (
	"testing"

	"drover/internal/process"
	"drover/internal/test/harness"
)

// TestCommandLine: what is shown of a command at its gate is what somebody has written.
func TestCommandLine(t *testing.T) {
	h := open(t, t.TempDir())
	const line = "sleep 1000; echo done # with a comment"
	child, err := h.Launch(process.ID{}, "run", line, spec("/", "sh", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Discard("run")
	defer child.Abandon()
	// Until it has executed its gate it has no command line of its own.
	harness.Eventually(t, "the command line to be shown", func() bool {
		i, _, err := h.Instance(child.Identity())
		return err == nil && i.Cmdline == "/bin/sh -c "+line
	})
}
