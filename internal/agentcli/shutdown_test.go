package agentcli_test

import (
	"errors"
	"strings"
	"testing"

	"drover/internal/command"
)

// TestShutdownWithoutAgent: nobody takes a host without an agent for one whose processes have ended.
func TestShutdownWithoutAgent(t *testing.T) {
	dir := t.TempDir()
	if out, err := call(t, "shutdown", "--data-dir", dir); err == nil ||
		!strings.Contains(err.Error(), "cannot open the data directory") {
		t.Errorf("%q, %v", out, err)
	}
	wrong := (*command.UsageError)(nil)
	if _, err := call(t, "shutdown", "--data-dir", dir, "--timeout", "0s"); !errors.As(err, &wrong) {
		t.Errorf("without time: %v", err)
	}
}
