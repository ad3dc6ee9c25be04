package launch_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"drover/internal/agent/launch"
	"drover/internal/process"
	"drover/internal/spec"
)

// TestNearest: a command gets what the host can give, and the rest is told.
func TestNearest(t *testing.T) {
	most, low := launch.AsSet("open_files", process.Unlimited), int64(16)
	beyond := most + 1
	e := spec.Execution{RLimits: spec.RLimits{{Name: spec.OpenFiles, Value: beyond}, {Name: spec.Processes, Value: low}}}
	got, notes := launch.Nearest(e)
	files, limited := got.RLimits.Get(spec.OpenFiles)
	if tasks, _ := got.RLimits.Get(spec.Processes); len(notes) != 1 || !limited || files > most || tasks != low {
		t.Errorf("%+v, %q", got.RLimits, notes)
	}
	e.Capabilities = []string{"NET_BIND_SERVICE", "CHOWN"}
	has := func(name string) bool {
		n, _ := process.Capability(name)
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(status), "CapPrm:\t")
		text, _, _ := strings.Cut(after, "\n")
		set, err := strconv.ParseUint(text, 16, 64)
		return err == nil && set&(1<<n) != 0
	}
	want := slices.DeleteFunc(slices.Clone(e.Capabilities), func(name string) bool { return !has(name) })
	if got, notes = launch.Nearest(e); !slices.Equal(got.Capabilities, want) || len(notes) != 1+len(e.Capabilities)-len(want) {
		t.Errorf("capabilities %v, want %v: %q", got.Capabilities, want, notes)
	}
	if files, _ := e.RLimits.Get(spec.OpenFiles); files != beyond {
		t.Error("it has changed the spec")
	}
	if _, notes := launch.Nearest(got); len(notes) > 0 {
		t.Errorf("what it gives it cannot give: %q", notes)
	}
}
