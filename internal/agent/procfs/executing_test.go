package procfs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"drover/internal/agent/procfs"
)

// TestEnvironmentWhileExecuting: a process that executes one program after the other has its environment at every look.
func TestEnvironmentWhileExecuting(t *testing.T) {
	script := filepath.Join(t.TempDir(), "again")
	//nolint:gosec // it is to be executed
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec \"$0\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(script)
	cmd.Env = []string{"MARK=1"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	fs := procfs.New("/proc")
	for i := range 5000 {
		env, err := fs.Environ(cmd.Process.Pid)
		if err != nil || !slices.Contains(env, "MARK=1") {
			t.Fatalf("look %d: the environment is %q, %v", i, env, err)
		}
	}
}
