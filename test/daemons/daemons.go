// Package daemons builds oddd, the daemon with bad manners, for tests. It owns nothing that runs: whoever starts one
// has to see to its end, and starts it in a PID namespace of its own.
package daemons

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// LongName is a file name that doesn't fit into the 15 characters that the kernel keeps of a command's name.
const LongName = "oddd-with-a-very-long-name"

// Build compiles oddd to the file name in dir and returns its path. It fails the test if that is not possible.
func Build(t testing.TB, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "drover/test/daemons/oddd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build oddd: %v\n%s", err, out)
	}
	return path
}
