package host_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/agent/host"
	"drover/internal/process"
)

// TestRuntimeDirectory: it is made for the process, survives the agent and its crash, and goes when the process is at
// rest; drover takes nobody else's directory, and follows no link when it removes one.
func TestRuntimeDirectory(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	marks := func(c *host.Config) { c.RuntimeMarks, c.RuntimeRoot = dir+".marks", root }
	h := open(t, dir, marks)
	id, other := process.ID{Namespace: "shop", Name: "api"}, process.ID{Namespace: "shop", Name: "db"}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	runs := 0
	launch := func(h *host.Host, id process.ID, name string) error {
		runs++
		s := spec("/", "true", "")
		s.RuntimeDirectory = name
		child, err := h.Launch(id, strings.Repeat("r", runs), "[ \"$RUNTIME_DIRECTORY\" = "+filepath.Join(root, name)+" ]", s)
		if err == nil {
			child.Abandon()
		}
		return err
	}
	must(t, launch(h, id, "shop"))
	path := filepath.Join(root, "shop")
	must(t, os.WriteFile(filepath.Join(path, "socket"), nil, 0o600))
	kept := filepath.Join(root, "kept")
	must(t, os.WriteFile(kept, nil, 0o600))
	must(t, os.Symlink(root, filepath.Join(path, "link")))

	for name, taken := range map[string]struct {
		id   process.ID
		name string
	}{"of another process": {other, "shop"}, "of nobody known": {other, "kept"}} {
		if err := launch(h, taken.id, taken.name); err == nil || process.CauseOf(err) != process.CauseNoDirectory {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, launch(h, id, "shop")) // a relaunch finds what is there
	if _, err := os.Stat(filepath.Join(path, "socket")); err != nil {
		t.Error(err)
	}

	next := open(t, dir, marks)
	must(t, launch(next, id, "renamed"))
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of the former name: %v", err)
	}
	next.AtRest(id)
	next.AtRest(other)
	if _, err := os.Lstat(filepath.Join(root, "renamed")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("at rest: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("what the link led to: %v", err)
	}
}

// TestRuntimeDirectoryOfAnAdoptedProcess: drover takes over the directory that the former supervisor has made for the
// account, and no other one.
func TestRuntimeDirectoryOfAnAdoptedProcess(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	h := open(t, dir, func(c *host.Config) { c.RuntimeMarks, c.RuntimeRoot = dir+".marks", root })
	launch := func(id process.ID, s *process.Spec) error {
		child, err := h.Launch(id, "run-"+id.Name, "true", s)
		if err == nil {
			child.Abandon()
		}
		return err
	}
	own, foreign := process.ID{Namespace: "shop", Name: "own"}, process.ID{Namespace: "shop", Name: "foreign"}
	for _, id := range []process.ID{own, foreign} {
		if err := os.MkdirAll(filepath.Join(root, id.Name, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(filepath.Join(root, "foreign"), 65534, 65534); err != nil {
		t.Skip("needs root: ", err)
	}
	for id, want := range map[process.ID]bool{own: true, foreign: false} {
		s := spec("/", "true", "")
		s.RuntimeDirectory = id.Name
		if err := h.Preflight(id, s, nil, true); (err == nil) != want {
			t.Errorf("preflight of %s, which drover is to take over: %v", id.Name, err)
		}
		if err := h.Preflight(id, s, nil, false); err == nil {
			t.Errorf("preflight of %s, which drover does not take over, passes", id.Name)
		}
		h.AdoptPlaces(id, s)
		if err := launch(id, s); (err == nil) != want {
			t.Errorf("%s: %v", id.Name, err)
		}
		if _, err := os.Stat(filepath.Join(root, id.Name, "sub")); err != nil {
			t.Errorf("the directory has lost what was in it: %v", err)
		}
		h.AtRest(id)
		if _, err := os.Stat(filepath.Join(root, id.Name)); (err == nil) == want {
			t.Errorf("%s at rest: %v", id.Name, err)
		}
	}
}
