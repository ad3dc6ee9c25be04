package host_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	v1 "drover/api/v1"
	"drover/internal/agent/cgroup"
	"drover/internal/agent/host"
	"drover/internal/agent/instance"
	"drover/internal/agent/pidfd"
	"drover/internal/agent/pidns"
	"drover/internal/process"
	"drover/internal/test/harness"
)

// outputs are the runs of which an output is kept.
func outputs(t *testing.T, dir string) []string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

func TestLaunch(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir)
	child, err := h.Launch(process.ID{}, "run-1", "echo to stdout; echo to stderr >&2; pwd", spec("/usr", "sh", ""))
	if err != nil {
		t.Fatal(err)
	}
	if h.Ran("run-1") {
		t.Error("it is said to have run at its gate")
	}
	if !live().Same(child.Identity()) {
		t.Error("it is not alive at its gate")
	}
	release(t, child)
	if !h.Ran("run-1") {
		t.Error("it is not known to have run")
	}
	if got := strings.Fields(h.Output("run-1")); !slices.Equal(got, []string{"to", "stdout", "to", "stderr", "/usr"}) {
		t.Errorf("output %q", got)
	}
	h.Discard("run-1")
	if left := outputs(t, dir); len(left) > 0 {
		t.Errorf("outputs of %v are left", left)
	}
	h.Discard("run-1") // once more does no harm
	if got := h.Output("run-1"); got != "" {
		t.Errorf("output after it was dropped: %q", got)
	}
}

func TestLaunchFails(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir)
	nobody := spec("/", "sh", "")
	nobody.User = "no-such-user"
	_, err := h.Launch(process.ID{}, "run-1", "true", nobody)
	if problem, ok := errors.AsType[*process.Error](err); !ok ||
		!strings.HasPrefix(problem.Text, "spec.identity.user: ") || !strings.Contains(problem.Text, "no-such-user") {
		t.Errorf("no such user: %v", err)
	}
	_, err = h.Launch(process.ID{}, "run-2", "true", spec("/no/such/directory", "sh", ""))
	if problem, ok := errors.AsType[*process.Error](err); !ok || !strings.Contains(problem.Text, "setup_path") {
		t.Errorf("no such directory: %#v", err)
	}
	h.Discard("run-2")
	h.Sweep(nothing)
	if left := outputs(t, dir); len(left) > 0 {
		t.Errorf("outputs of %v are left", left)
	}
}

// TestAbandonedRun: the next agent can tell a command that never ran from one that did, and read what that has written.
func TestAbandonedRun(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	child, err := first.Launch(process.ID{}, "unrun", "true", spec("/", "sh", ""))
	if err != nil {
		t.Fatal(err)
	}
	handle, err := pidfd.Open(child.Identity().PID)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(handle), "child")
	defer file.Close()
	child.Abandon()
	if err := pidns.AwaitEnd(handle); err != nil {
		t.Fatal(err)
	}
	run(t, first, "ran", "echo hello")
	run(t, first, "silent", "true")

	second := open(t, dir)
	for id, want := range map[string]bool{"unrun": false, "ran": true, "silent": true} {
		if got := second.Ran(id); got != want {
			t.Errorf("%s has run: %v", id, got)
		}
	}
	if got := strings.TrimSpace(second.Output("ran")); got != "hello" {
		t.Errorf("output %q", got)
	}
}

// TestOutputThatCannotBeKept: a command runs all the same.
func TestOutputThatCannotBeKept(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"no directory": func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			write(t, dir, "a file in its place")
		},
		"a full disk": func(t *testing.T, dir string) {
			t.Helper()
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			write(t, filepath.Join(dir, "filler"), strings.Repeat("x", 4096))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, mark := filepath.Join(t.TempDir(), "outputs"), filepath.Join(t.TempDir(), "mark")
			h := open(t, dir)
			spoil(t, dir)
			run(t, h, "run-1", "echo hello; echo ran >"+mark)
			if text, err := os.ReadFile(mark); err != nil || string(text) != "ran\n" {
				t.Errorf("it has not run: %q, %v", text, err)
			}
			if !h.Ran("run-1") {
				t.Error("it is not believed to have run")
			}
			if got := h.Output("run-1"); got != "" {
				t.Errorf("output %q", got)
			}
			h.Discard("run-1")
		})
	}
}

// TestEndTree: what a command has left behind is found by its run alone, and nothing else is touched.
func TestEndTree(t *testing.T) {
	h := open(t, t.TempDir())
	mine, other := daemon(t, h, "run-1", "mine", ">/dev/null 2>&1"), daemon(t, h, "run-2", "other", ">/dev/null 2>&1")
	outside := start(t, harness.Sleeper(t, t.TempDir(), "outside"))
	end := func(root instance.Identity, run string) {
		t.Helper()
		// Without control groups, and for what was started by somebody else, nobody can be sure.
		if _, left, err := h.EndTree(t.Context(), instance.Scope{Root: root, Run: run}, 0); err != nil &&
			!errors.Is(err, instance.ErrBestEffort) || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
	}
	end(instance.Identity{}, "run-1")
	for who, want := range map[instance.Identity]bool{mine: false, other: true, outside.Identity: true} {
		if got := live().Same(who); got != want {
			t.Errorf("pid %d is alive: %v, want %v", who.PID, got, want)
		}
	}
	end(outside.Identity, "")
	if live().Same(outside.Identity) {
		t.Error("the root of a tree without a run is alive")
	}
	end(other, "run-2")
	if live().Same(other) {
		t.Error("the root of a tree with a run is alive")
	}
	end(other, "run-2") // once more
}

// TestEndTreeOfCommands: a scope has what the commands around a process have left, with control groups and without, and
// whether or not the run of the process is known.
func TestEndTreeOfCommands(t *testing.T) {
	for _, grouped := range []bool{true, false} {
		h := open(t, t.TempDir())
		if !grouped {
			ungroup(t, h)
		}
		for _, run := range []string{"", "run-1"} {
			main := daemon(t, h, "run-1", "main", ">/dev/null 2>&1")
			left := []instance.Identity{
				daemon(t, h, "run-2", "left", ">/dev/null 2>&1"), daemon(t, h, "run-3", "left", ">/dev/null 2>&1"),
			}
			if _, pids, err := h.EndTree(t.Context(), instance.Scope{Run: run, LeftoverRuns: []string{"run-2", "run-3", "run-4"}}, 0); err != nil &&
				(grouped || !errors.Is(err, instance.ErrBestEffort)) || len(pids) > 0 {
				t.Errorf("left %v, %v", pids, err)
			}
			if live().Same(left[0]) || live().Same(left[1]) || live().Same(main) != (run == "") {
				t.Errorf("groups %v, run %q: what was left lives: %v %v; the process lives: %v", grouped, run,
					live().Same(left[0]), live().Same(left[1]), live().Same(main))
			}
			if _, _, err := h.EndTree(t.Context(), instance.Scope{Run: "run-1"}, 0); err != nil && !errors.Is(err, instance.ErrBestEffort) {
				t.Error(err)
			}
			for _, run := range []string{"run-1", "run-2", "run-3"} {
				h.Discard(run)
			}
		}
	}
}

// TestSweep drops what nobody needs, keeps what is in use, and cuts what a daemon still writes to, with control groups
// and without.
func TestSweep(t *testing.T) {
	t.Run("groups", func(t *testing.T) { sweep(t, func(*testing.T, *host.Host) {}) })
	t.Run("no groups", func(t *testing.T) { sweep(t, ungroup) })
}

func sweep(t *testing.T, prepare func(*testing.T, *host.Host)) {
	dir, name := t.TempDir(), treeName()
	h := open(t, dir, func(cfg *host.Config) { cfg.Name = name })
	prepare(t, h)
	tree, err := cgroup.Open(live(), name)
	if err != nil {
		t.Fatal(err)
	}
	groups := func(want ...string) {
		t.Helper()
		if got, err := tree.IDs(); err != nil || h.Groups() != cgroup.ModeNone && !slices.Equal(got, want) {
			t.Errorf("groups %v are left, want %v (%v)", got, want, err)
		}
	}
	run(t, h, "over", "echo over")
	h.Output("over")
	run(t, h, "unread", "echo unread")
	writer := daemon(t, h, "writer", "writer", "2>&1")
	h.Output("writer")
	silent := daemon(t, h, "silent", "silent", ">/dev/null 2>&1")
	h.Output("silent")
	grow(t, filepath.Join(dir, "writer"), 3<<20)
	write(t, filepath.Join(dir, "from-an-earlier-agent"), "x")

	needed := map[string]bool{"writer": true, "silent": true}
	h.Sweep(func() map[string]bool { return needed })
	if got, want := outputs(t, dir), []string{"silent", "unread", "writer"}; !slices.Equal(got, want) {
		t.Errorf("outputs %v are kept, want %v", got, want)
	}
	groups("silent", "unread", "writer")
	if info, err := os.Stat(filepath.Join(dir, "writer")); err != nil || info.Size() > 1<<20 {
		t.Errorf("the output of a daemon is not cut: %v, %v", info.Size(), err)
	}
	if got := strings.TrimSpace(h.Output("unread")); got != "unread" {
		t.Errorf("the output that nobody has read is %q", got)
	}
	if !live().Same(writer) || !live().Same(silent) {
		t.Error("a sweep has ended a daemon")
	}

	// A group that is not empty says by itself that its run is in use; where there are none, its mark does.
	h.Sweep(nothing)
	if got, want := outputs(t, dir), []string{"silent", "writer"}; !slices.Equal(got, want) {
		t.Errorf("outputs %v are kept, want %v", got, want)
	}
	groups("silent", "writer")
	for _, run := range []string{"writer", "silent"} {
		if _, left, err := h.EndTree(t.Context(), instance.Scope{Run: run}, 0); err != nil &&
			!errors.Is(err, instance.ErrBestEffort) || len(left) > 0 {
			t.Fatalf("left %v, %v", left, err)
		}
	}
	h.Sweep(nothing)
	if left := outputs(t, dir); len(left) > 0 {
		t.Errorf("outputs of %v are left", left)
	}
	groups()
}

func grow(t *testing.T, path string, size int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.Repeat("0123456789abcde\n", size/16)); err != nil {
		t.Fatal(err)
	}
}

// TestSweepLeavesNewRunsAlone: a sweep that goes on while commands are launched takes nothing away from them.
func TestSweepLeavesNewRunsAlone(t *testing.T) {
	h := open(t, t.TempDir())
	stop, swept := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				swept <- n
				return
			default:
				h.Sweep(nothing)
				n++
			}
		}
	}()
	deadline := time.Now().Add(2 * time.Second)
	for i := 0; i < 300 && time.Now().Before(deadline); i++ {
		id := fmt.Sprintf("run-%d", i)
		run(t, h, id, "echo "+id)
		if got := strings.TrimSpace(h.Output(id)); got != id {
			t.Errorf("output of %s is %q", id, got)
		}
	}
	close(stop)
	if n := <-swept; n == 0 {
		t.Error("nothing was swept")
	}
}

// TestLaunchNamesAllThatLacks: one attempt tells all faults of the host, and the cause is that of the first.
func TestLaunchNamesAllThatLacks(t *testing.T) {
	h, dir := open(t, t.TempDir()), t.TempDir()
	none, odd := filepath.Join(dir, "none"), filepath.Join(dir, "odd")
	if err := os.WriteFile(odd, []byte("A=1\nb c\n=d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := spec("/", "sh", "")
	s.Compat, s.Directory = nil, none
	s.Group, s.Groups = "no-group", []string{"no-a", "root", "no-b"}
	s.EnvironmentFiles = []string{none, odd, "-" + none, "-" + odd}
	for user, want := range map[string]struct {
		cause process.CauseID
		texts []string
	}{
		"": {process.CauseNoUser, []string{
			`group: group "no-group" is unknown on this host`, `groups: group "no-a" is unknown on this host`,
			`groups: group "no-b" is unknown on this host`,
			"cannot enter directory " + none + ": no such file or directory",
			"environment_files: open " + none + ": no such file or directory",
			"environment_files: " + odd + ": line 2 is not NAME=value, line 3 does not begin with the name of a variable",
			"environment_files: " + odd + ": line 2 is not NAME=value, line 3 does not begin with the name of a variable",
		}},
		"nobody-here": {process.CauseNoUser, []string{
			`user: user "nobody-here" is unknown on this host`, `group: group "no-group" is unknown on this host`,
			`groups: group "no-a" is unknown on this host`, `groups: group "no-b" is unknown on this host`,
			"cannot enter directory " + none + ": no such file or directory",
		}},
	} {
		s.User = user
		_, err := h.Launch(process.ID{Namespace: "ns", Name: "a"}, "run-1", "true", s)
		if err == nil || err.Error() != strings.Join(want.texts, "; ") || process.CauseOf(err) != want.cause {
			t.Errorf("%q: %v [%s], want %q", user, err, process.CauseOf(err), want.texts)
		}
	}
}

// TestLaunchNamesTheField: a fault names the field of the process file, and that of GSE for a spec of GSE.
func TestLaunchNamesTheField(t *testing.T) {
	h := open(t, t.TempDir())
	none := filepath.Join(t.TempDir(), "none")
	for _, tt := range []struct {
		change func(s *process.Spec)
		want   string
	}{
		{func(s *process.Spec) { s.Directory = none }, "cannot enter directory " + none + ": "},
		{func(s *process.Spec) { s.User = "nobody-here" }, `user: user "nobody-here" is unknown`},
		{func(s *process.Spec) { s.Group = "no-group" }, `group: group "no-group" is unknown`},
		{func(s *process.Spec) { s.Groups = []string{"no-group"} }, `groups: group "no-group" is unknown`},
		{func(s *process.Spec) { s.EnvironmentFiles = []string{none} }, "environment_files: open " + none + ": "},
		{func(s *process.Spec) { s.Compat, s.Directory = &v1.Compat{}, none }, "cannot enter setup_path " + none + ": "},
		{func(s *process.Spec) { s.Compat, s.User = &v1.Compat{}, "nobody-here" }, `spec.identity.user: user "nobody-here" is`},
	} {
		s := spec("/", "sh", "")
		s.Compat = nil
		tt.change(s)
		if _, err := h.Launch(process.ID{Namespace: "ns", Name: "a"}, "run-1", "true", s); err == nil ||
			!strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}
