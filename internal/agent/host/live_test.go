package host_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/record"
	"drover/internal/process"
	"drover/internal/test/harness"
)

// napper copies sleep to a directory, under a name of its own.
func napper(t *testing.T, dir string) string {
	t.Helper()
	from, err := os.Open("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(dir, "napper")
	to, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDiffersOfAWrapper: a script changes what it executes, so that is no difference.
func TestDiffersOfAWrapper(t *testing.T) {
	h, dir := open(t, t.TempDir()), t.TempDir()
	path, wrapper := napper(t, dir), filepath.Join(dir, "wrapper")
	script := "#!/bin/sh\nexport EXTRA=1\nunset A\nexec " + path + " 1000\n"
	if err := harness.WriteProgram(wrapper, []byte(script)); err != nil {
		t.Fatal(err)
	}
	id := process.ID{Namespace: "shop", Name: "web"}
	for _, line := range []string{wrapper, "export EXTRA=1; unset A; exec " + path + " 1000"} {
		s := &process.Spec{
			Directory:   dir,
			User:        "root",
			Run:         line,
			Environment: map[string]string{"A": "1"},
			Compat:      &v1.Compat{},
		}
		child, err := h.Launch(id, "run-1", process.Replacing(line), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Release(); err != nil {
			t.Fatal(err)
		}
		pid := child.Identity()
		t.Cleanup(func() { _ = unix.Kill(pid.PID, unix.SIGKILL) })
		harness.Eventually(t, "the program", func() bool {
			info, err := live().Info(pid.PID)
			return err == nil && info.Exe == path
		})
		if fields, alive := h.Differs(id, s, record.Runtime{Process: &pid, Run: "run-1"}); !alive || len(fields) > 0 {
			t.Errorf("%q: alive %t, %v", line, alive, fields)
		}
	}
}

// TestOldRelease: a process whose path leads to another release now runs an old one, whether that is still there or not.
func TestOldRelease(t *testing.T) {
	h, dir := open(t, t.TempDir()), t.TempDir()
	place := func(release string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, release, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
		return napper(t, filepath.Join(dir, release, "bin"))
	}
	first, second, current := place("1"), place("2"), filepath.Join(dir, "current")
	if err := os.Symlink("1", current); err != nil {
		t.Fatal(err)
	}
	id := process.ID{Namespace: "shop", Name: "web"}
	s := &process.Spec{
		Directory:   current,
		User:        "root",
		Run:         "./bin/napper 1000",
		Environment: map[string]string{"A": "topsecret"},
		Compat:      &v1.Compat{},
	}
	child, err := h.Launch(id, "run-1", process.Replacing(s.Run), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Release(); err != nil {
		t.Fatal(err)
	}
	pid := child.Identity()
	defer unix.Kill(pid.PID, unix.SIGKILL) //nolint:errcheck // it may have ended
	harness.Eventually(t, "the program", func() bool {
		info, err := live().Info(pid.PID)
		return err == nil && info.Exe == first
	})
	want := func(what string, want ...process.LiveField) {
		t.Helper()
		got, alive := h.Differs(id, s, record.Runtime{Process: &pid, Run: "run-1"})
		if !alive || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: alive %t, %+v, want %+v", what, alive, got, want)
		}
	}
	want("the first release")
	s.Environment = map[string]string{"A": "other"}
	want("another value", process.LiveField{Path: "environment.A", Problem: "it gets a new value at the next start"})
	if err := errors.Join(os.Remove(current), os.Symlink("2", current)); err != nil {
		t.Fatal(err)
	}
	want("the second release", process.LiveField{Path: "executable", Want: second, Have: first})
	if err := os.RemoveAll(filepath.Join(dir, "1")); err != nil {
		t.Fatal(err)
	}
	want("the first one is gone",
		process.LiveField{Path: "executable", Want: second, Have: first + " (removed from disk)"})
}

// TestDiffers: how a running process differs from its spec, without the values of its environment.
func TestDiffers(t *testing.T) {
	h, dir := open(t, t.TempDir()), t.TempDir()
	path := napper(t, dir)
	id := process.ID{Namespace: "shop", Name: "web"}
	line := path + " 1000"
	s := &process.Spec{
		Directory:   dir,
		User:        "root",
		Run:         line,
		Environment: map[string]string{"A": "topsecret"},
		Limits:      &v1.Limits{OpenFiles: 200},
		Compat:      &v1.Compat{},
	}
	child, err := h.Launch(id, "run-1", process.Replacing(line), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Release(); err != nil {
		t.Fatal(err)
	}
	pid := child.Identity()
	defer unix.Kill(pid.PID, unix.SIGKILL) //nolint:errcheck // it may have ended
	rt := record.Runtime{Process: &pid, Run: "run-1"}
	want := func(what string, s *process.Spec, rt record.Runtime, want ...string) {
		t.Helper()
		fields, alive := h.Differs(id, s, rt)
		var got []string
		for _, f := range fields {
			if f.Problem != "" {
				got = append(got, f.Path+": "+f.Problem)
				continue
			}
			got = append(got, fmt.Sprintf("%s: %s, not %s", f.Path, f.Have, f.Want))
		}
		if !alive || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%s: alive %t, got %q, want %q", what, alive, got, want)
		}
		if strings.Contains(fmt.Sprint(got), "secret") {
			t.Errorf("%s: a value of the environment is told", what)
		}
	}
	harness.Eventually(t, "the program in the place of the shell at the gate", func() bool {
		info, err := live().Info(pid.PID)
		return err == nil && info.Exe == path
	})
	want("as it should be", s, rt)
	misnamed := *s
	misnamed.ProcessName = "napper"
	want("the name of the spec", &misnamed, rt)
	if seen := h.Look(&misnamed, rt, instance.Ownership{}); !seen.Alive() || seen.Note != "" {
		t.Errorf("the name of the spec: %+v", seen)
	}
	misnamed.ProcessName = "postgres"
	want("another name", &misnamed, rt, "process_name: napper, not postgres")
	note := fmt.Sprintf(`process_name is "postgres", but the executable of pid %d is "napper"`, pid.PID)
	if seen := h.Look(&misnamed, rt, instance.Ownership{}); !seen.Alive() || seen.Note != note {
		t.Errorf("another name: %+v, want the note %s", seen, note)
	}

	if err := unix.Prlimit(pid.PID, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 50, Max: 50}, nil); err != nil {
		t.Fatal(err)
	}
	want("a limit", s, rt, "limits.open_files: 50, not 200")
	other := *s
	other.Run, other.Limits = path+" 2000", nil
	other.Environment = map[string]string{"B": "topsecret"}
	want("line and environment", &other, rt, "run: "+line+", not "+path+" 2000", "environment.B: not set, not set",
		"environment.A: set, not not set")
	unread := *s
	unread.EnvironmentFiles = []string{dir + "/none"}
	want("a file that is not there", &unread, rt, "limits.open_files: 50, not 200",
		"environment_files: drover could not look: open "+dir+"/none: no such file or directory")
	other.Run = "exec " + path + " $((1000))"
	other.Environment = s.Environment
	want("a line for a shell", &other, rt)
	napper(t, dir)
	want("another executable", s, rt, "executable: replaced on disk, not "+path,
		"limits.open_files: 50, not 200")
	if err := os.Rename(path, path+".kept"); err != nil {
		t.Fatal(err)
	}
	want("no executable", s, rt, "executable: a restart fails until the file is back", "limits.open_files: 50, not 200")
	if err := os.Rename(path+".kept", path); err != nil {
		t.Fatal(err)
	}
	rt.Outside, rt.Limits = true, map[string]string{"memory": "there is no group"}
	want("somebody else's process", s, rt, "executable: replaced on disk, not "+path,
		"limits.memory: it takes effect at the next start: there is no group")
	other.User = "nobody"
	want("another account", &other, rt, "user: uid 0, not nobody", "executable: replaced on disk, not "+path,
		"limits.memory: it takes effect at the next start: there is no group")
	_ = unix.Kill(pid.PID, unix.SIGKILL)
	harness.Eventually(t, "its end", func() bool { _, alive := h.Differs(id, s, rt); return !alive })
}
