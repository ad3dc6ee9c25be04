package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/agent/host"
	"drover/internal/agent/instance"
	"drover/internal/agent/launch"
	"drover/internal/process"
)

// TestPreflight: it finds without an effect what a launch would find, and what the kernel would refuse later.
func TestPreflight(t *testing.T) {
	var root string
	h := open(t, t.TempDir(), func(c *host.Config) { root = c.RuntimeRoot })
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bad.env"), "A=1\nno assignment\n")
	if err := os.MkdirAll(filepath.Join(root, "taken"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		set   func(*process.Spec)
		lines []instance.Line
		want  string
		cause process.CauseID
		runs  bool // a launch finds it only when it is too late
	}{
		"nothing": {},
		"user":    {func(s *process.Spec) { s.User = "no-such-user" }, nil, "user: user \"no-such-user\" is unknown on this host", process.CauseNoUser, false},
		"group": {
			func(s *process.Spec) { s.Group = "no-such-group" }, nil, "group: group \"no-such-group\" is unknown on this host",
			process.CauseNoUser, false,
		},
		"directory": {
			func(s *process.Spec) { s.Directory = dir + "/none" }, nil, "cannot enter directory " + dir + "/none: no such file or directory",
			process.CauseNoDirectory, false,
		},
		"file": {
			func(s *process.Spec) { s.EnvironmentFiles = []string{dir + "/bad.env"} }, nil,
			"environment_files: " + dir + "/bad.env: line 2 is not NAME=value", process.CauseNoVariables, false,
		},
		"directory as file": {
			func(s *process.Spec) { s.EnvironmentFiles = []string{dir} }, nil,
			"environment_files: " + dir + " is not a regular file", process.CauseNoVariables, false,
		},
		"runtime directory": {
			func(s *process.Spec) { s.RuntimeDirectory = "taken" }, nil,
			"runtime_directory: " + root + "/taken exists, and drover has not made it", process.CauseNoDirectory, false,
		},
		"program": {nil, []instance.Line{{Field: "run", Line: "exec ./none"}}, `run: "./none" was not found`, process.CauseCommandMissing, true},
		"made before": {
			nil,
			[]instance.Line{{Field: "before_start", Line: "true"}, {Field: "run", Line: "exec ./none", Later: true}},
			"", "", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &process.Spec{Directory: dir, User: launch.OwnName(), Run: "true"}
			s.RuntimeDirectory = "fresh"
			if c.set != nil {
				c.set(s)
			}
			id := process.ID{Namespace: "ns", Name: name}
			err := h.Preflight(id, s, c.lines, false)
			if got := textOf(err); got != c.want || process.CauseOf(err) != c.cause {
				t.Errorf("%q [%s], want %q [%s]", got, process.CauseOf(err), c.want, c.cause)
			}
			if _, err := os.Stat(filepath.Join(root, "fresh")); err == nil {
				t.Error("it has made the runtime directory")
			}
			if c.runs {
				return
			}
			child, launched := h.Launch(id, "run-"+strings.ReplaceAll(name, " ", "-"), "true", s)
			if textOf(launched) != c.want {
				t.Errorf("a launch says %v", launched)
			}
			if launched == nil {
				child.Abandon()
			}
			h.AtRest(id)
		})
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
