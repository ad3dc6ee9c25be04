package host_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/agent/launch"
	"drover/internal/process"
	"drover/internal/test/harness"
)

// kept keeps all runs but one.
func kept(run string) bool { return run != left }

const left = "0123456789ab-left"

// TestCopies: a process with the account and the executable counts if it has the command line or the directory.
func TestCopies(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	sleeper := harness.Sleeper(t, dir, "daemon")
	harness.Sleeper(t, dir, "another")
	script := filepath.Join(dir, "work.sh")
	if err := harness.WriteProgram(script, []byte("#!/bin/sh\nwhile :; do sleep 1000; done\n")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sleeper, filepath.Join(elsewhere, "link")); err != nil {
		t.Fatal(err)
	}
	const loop = "while :; do sleep 1000; done"
	for _, c := range []struct {
		name string
		// in is the directory of the copy, args are its program and arguments.
		in   string
		args []string
		// run is the command line of the spec, whose directory is dir.
		run        string
		found, own bool
		// named says that the pid makes it found, as its executable is that of the spec.
		named     bool
		user, env string
	}{
		{name: "the same", in: dir, args: []string{"./daemon", "600"}, run: "./daemon 600", found: true, own: true},
		{name: "quoted", in: dir, args: []string{"./daemon", "600"}, run: `"./daemon" '600'`, found: true, own: true},
		{name: "elsewhere with the same line", in: elsewhere, args: []string{sleeper, "600"}, run: "./daemon 600", found: true, own: true},
		{name: "another line in the directory", in: dir, args: []string{"./daemon", "601"}, run: "./daemon 600", found: true},
		{name: "another line elsewhere", in: elsewhere, args: []string{sleeper, "601"}, run: "./daemon 600", named: true},
		{name: "a link", in: dir, args: []string{"./daemon", "600"}, run: elsewhere + "/link 600", found: true, own: true},
		{name: "another program", in: dir, args: []string{"./another", "600"}, run: "./daemon 600"},
		{name: "a shell that becomes the process", in: dir, args: []string{"./daemon", "600"}, run: `exec ./daemon "$TIME"`, found: true},
		{name: "a line for a shell", in: dir, args: []string{"./daemon", "600"}, run: "cd /; ./daemon 600"},
		{name: "a script", in: dir, args: []string{"./work.sh", "a"}, run: "./work.sh a", found: true, own: true},
		{name: "a script with other words", in: elsewhere, args: []string{script, "b"}, run: "./work.sh a", named: true},
		{name: "an interpreter", in: dir, args: []string{"/bin/sh", script, "a"}, run: "/bin/sh work.sh a", found: true},
		{name: "an interpreter with another script", in: dir, args: []string{"/bin/sh", script}, run: "/bin/sh other.sh"},
		{name: "a line of a shell", in: dir, args: []string{"/bin/sh", "-c", loop}, run: `/bin/sh -c "` + loop + `"`, found: true, own: true},
		{name: "another line of a shell", in: dir, args: []string{"/bin/sh", "-c", loop}, run: "/bin/sh -c date", named: true},
		{
			name: "of another drover", in: dir, args: []string{"./daemon", "600"}, run: "./daemon 600",
			env: launch.MarkVariable + "=0123456789ab-1",
		},
		{name: "another account", in: dir, args: []string{"./daemon", "600"}, run: "./daemon 600", user: "nobody"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open(t, t.TempDir())
			cmd := exec.Command(c.args[0], c.args[1:]...)
			cmd.Dir = c.in
			if c.env != "" {
				cmd.Env = []string{c.env}
			}
			harness.Begin(t, cmd)
			for line := []byte(nil); len(line) == 0; { // Start returns before the kernel has set it
				line, _ = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid))
			}
			s := &process.Spec{Directory: dir, User: c.user, Run: c.run, Compat: &v1.Compat{}}
			all := h.Copies(s, 0, kept)
			found := len(all) == 1 && all[0].ID.PID == cmd.Process.Pid
			if found != c.found || len(all) > 1 || found && all[0].SameLine != c.own {
				t.Errorf("copies %+v, want pid %d: %v", all, cmd.Process.Pid, c.found)
			}
			if named := h.Copies(s, cmd.Process.Pid, kept); (len(named) == 1) != (c.found || c.named) {
				t.Errorf("with its pid: copies %+v, want %v", named, c.found || c.named)
			}
			if children := h.Copies(s, -os.Getpid(), kept); (len(children) == 1) != (c.found || c.named) {
				t.Errorf("with its parent: copies %+v, want %v", children, c.found || c.named)
			}
			if others := h.Copies(s, -math.MaxInt32, kept); len(others) != 0 {
				t.Errorf("with another parent: copies %+v", others)
			}
			if others := h.Copies(s, os.Getpid(), kept); len(others) != 0 {
				t.Errorf("with another pid: copies %+v", others)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			// A child that a shell has just forked looks like the shell until it executes its program.
			harness.Eventually(t, "no copy after its end", func() bool { return len(h.Copies(s, 0, kept)) == 0 })
		})
	}
}

// TestCopiesOfASupervisor: the process that a supervisord has started may run another program and as another account
// than the spec says, if drover starts it as root. That holds for no other process, also for one of a child of
// supervisord.
func TestCopiesOfASupervisor(t *testing.T) {
	dir := t.TempDir()
	other := harness.Sleeper(t, dir, "other")
	// A child tells its pid, and becomes the program.
	const child = `SUPERVISOR_GROUP_NAME=g SUPERVISOR_PROCESS_NAME=`
	become := other + " 600"
	if os.Getuid() == 0 {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // nobody executes the program
			t.Fatal(err)
		}
		become = "setpriv --reuid 65534 --clear-groups " + become
	}
	supervisord := filepath.Join(dir, "supervisord")
	script := "#!/bin/sh\ncd " + dir + "\n" +
		child + "one " + become + " &\necho $! >one\n" + child + "two " + become + " &\necho $! >two\n" +
		"sh -c '" + become + " & echo $! >below; echo $$ >shell; wait' &\nwait\n"
	if err := harness.WriteProgram(supervisord, []byte(script)); err != nil {
		t.Fatal(err)
	}
	harness.Begin(t, exec.Command(supervisord))
	pids := map[string]int{}
	for _, name := range []string{"one", "two", "below", "shell"} {
		harness.Eventually(t, "the pid of "+name, func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, name))
			pids[name], _ = strconv.Atoi(strings.TrimSpace(string(text)))
			exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pids[name]))
			return exe == other || name == "shell" && pids[name] > 0
		})
	}
	h := open(t, t.TempDir())
	s := spec(dir, "", "")
	s.User, s.Run = "", "./daemon 600"
	for name, want := range map[string]int{"one": 1, "two": 1, "below": 0} {
		if all := h.Copies(s, pids[name], kept); len(all) != want || want == 1 && all[0].ID.PID != pids[name] {
			t.Errorf("%s: copies %+v, want %d", name, all, want)
		}
	}
	id, err := live().Identify(pids["one"])
	if err != nil {
		t.Fatal(err)
	}
	if k := h.ForeignSupervisor(id); k == nil || k.Program != "g:one" || h.SupervisedPID(*k) != id.PID {
		t.Errorf("supervisor %+v of pid %d", k, id.PID)
	}
	if os.Getuid() != 0 {
		return
	}
	s.User = "daemon"
	if all := h.Copies(s, pids["one"], kept); len(all) != 0 {
		t.Errorf("of another account, which drops no rights: copies %+v", all)
	}
}

// TestCopiesByName: for a daemon without a pid file, a copy is whatever has its name and runs in or from its directory.
func TestCopiesByName(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	foreign := harness.Sleeper(t, elsewhere, "uniqd")
	h := open(t, t.TempDir())
	cmd := exec.Command(foreign, "600")
	cmd.Dir = dir
	harness.Begin(t, cmd)
	mine := daemon(t, h, "0123456789ab-1", "uniqd", ">/dev/null 2>&1")
	for name, c := range map[string]struct {
		directory, user, name, pidFile string
		found                          bool
	}{
		"in the directory":    {directory: dir, name: "uniqd", found: true},
		"from the directory":  {directory: elsewhere, name: "uniqd", found: true},
		"in or from the root": {directory: "/", name: "uniqd", found: true},
		"elsewhere":           {directory: t.TempDir(), name: "uniqd"},
		"another name":        {directory: dir, name: "uniq"},
		"another account":     {directory: dir, name: "uniqd", user: "nobody"},
		"with a pid file":     {directory: elsewhere, name: "uniqd", pidFile: "/run/uniqd.pid"},
	} {
		s := spec(c.directory, c.name, c.pidFile)
		s.Start, s.Compat = "uniqd &", nil
		if c.user != "" {
			s.User = c.user
		}
		all := h.Copies(s, 0, kept)
		if found := len(all) == 1 && all[0].ID.PID == cmd.Process.Pid; found != c.found || len(all) > 1 {
			t.Errorf("%s: copies %+v, want pid %d: %v, and not pid %d of drover", name, all, cmd.Process.Pid, c.found, mine.PID)
		}
	}
}

// TestCopiesOfOwnRuns: what this drover has started is a copy if no process that it knows keeps its run. Without
// control groups nothing proves that it was this drover.
func TestCopiesOfOwnRuns(t *testing.T) {
	for _, grouped := range []bool{true, false} {
		h := open(t, t.TempDir())
		if !grouped {
			ungroup(t, h)
		}
		daemon(t, h, "0123456789ab-1", "owned", ">/dev/null 2>&1")
		mine := daemon(t, h, left, "owned", ">/dev/null 2>&1")
		s := spec("/", "owned", "")
		s.Start, s.Compat = "owned &", nil
		if !grouped {
			if all := h.Copies(s, 0, kept); len(all) != 0 {
				t.Errorf("without groups: copies %+v", all)
			}
			continue
		}
		// Nobody knows a process while it executes its program.
		harness.Eventually(t, "the one that was left", func() bool {
			all := h.Copies(s, 0, kept)
			return len(all) == 1 && all[0].ID == mine && all[0].Run == left
		})
	}
}

// BenchmarkCopies looks for copies among processes that may be some.
func BenchmarkCopies(b *testing.B) {
	const many = 200
	dir, elsewhere := b.TempDir(), b.TempDir()
	sleeper := harness.Sleeper(b, dir, "daemon")
	child := process.Spec{Run: "./daemon 600", Compat: &v1.Compat{}}
	daemon := process.Spec{Start: "./daemon 600", ProcessName: "daemon", Compat: &v1.Compat{}}
	for _, c := range []struct {
		name, in, env string
		spec          process.Spec
	}{
		{"child/elsewhere", elsewhere, "", child},
		{"child/of another drover", dir, launch.MarkVariable + "=0123456789ab-1", child},
		{"daemon/elsewhere", elsewhere, "", daemon},
		{"daemon/of another drover", dir, launch.MarkVariable + "=0123456789ab-1", daemon},
	} {
		b.Run(c.name, func(b *testing.B) {
			for range many {
				cmd := exec.Command(sleeper, "601")
				cmd.Dir, cmd.Env = c.in, append(os.Environ(), c.env)
				harness.Begin(b, cmd)
			}
			h := open(b, b.TempDir())
			c.spec.Directory, c.spec.PIDFile = dir, "daemon.pid"
			for b.Loop() {
				if all := h.Copies(&c.spec, 0, kept); len(all) != 0 {
					b.Fatalf("copies %+v", all)
				}
			}
		})
	}
}
