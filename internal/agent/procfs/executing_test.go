package procfs_test

import (
	"errors"
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

// TestEnvironmentOfAProcessThatIsStillExecuting: a process that waits for a processor in the middle of execve has no
// environment and no arguments, which does not mean that it was started without an environment.
func TestEnvironmentOfAProcessThatIsStillExecuting(t *testing.T) {
	for _, c := range []struct {
		cmdline, exe string
		want         error
	}{
		{"", "/bin/prog", procfs.ErrExecuting},
		{"/bin/prog\x00", "/bin/prog", nil},
		{"", "", nil}, // a kernel thread
	} {
		files := fixture(100, 'S')
		files["42/environ"], files["42/cmdline"] = "", c.cmdline
		delete(files, "42/exe->")
		if c.exe != "" {
			files["42/exe->"] = c.exe
		}
		if env, err := tree(t, files).Environ(42); !errors.Is(err, c.want) || len(env) > 0 {
			t.Errorf("%+v: %q, %v", c, env, err)
		}
	}
}
