package lifecycle_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// script returns a process whose reload command is the given one: the shortest way to run any command.
func script(t *testing.T, s *harness.Server, name, command string) (*harness.Process, string) {
	t.Helper()
	p, dir := harness.Odd(t, s, binaries.oddd, name, "plain")
	p.Control["reload_cmd"] = command
	p.Policy = harness.Object{"start_check_secs": 1, "op_timeout": 1}
	return p, dir
}

// cut waits until drover has cut the output of a script. A write at the very moment of a cut may be lost.
const cut = "until [ $(stat -L -c %s /proc/$$/fd/1) -le 1048576 ]; do :; done; "

func TestCommands(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	t.Run("write 100 MB", func(t *testing.T) {
		t.Parallel()
		p, _ := script(t, s, "talkative", "echo begin; head -c 100000000 /dev/zero | tr '\\0' x; "+cut+"echo end; exit 3")
		p.Policy = harness.Object{"start_check_secs": 1, "op_timeout": 60}
		p.Operate(0).Want(t, "start", 0)
		r := p.Operate(8)
		const most = 66 << 10
		if !strings.Contains(r.Msg, "begin\nx") || !strings.Contains(r.Msg, "xend") || len(r.Msg) > most {
			t.Errorf("the result has %d bytes: %.100q", len(r.Msg), r.Msg)
		}
	})
	t.Run("run in an environment that is exactly known", func(t *testing.T) {
		t.Parallel()
		p, dir := script(t, s, "environment",
			"env >env.txt; umask >umask.txt; pwd >pwd.txt; ls -l /proc/self/fd >fd.txt; cat >stdin.txt; "+
				"grep -E '^Sig(Blk|Ign)' /proc/self/status >signals.txt; ps -o sid= -p $$ >sid.txt; echo $$ >>sid.txt")
		p.Operate(8)
		var names []string
		for line := range strings.Lines(read(t, dir, "env.txt")) {
			name, _, _ := strings.Cut(line, "=")
			if name != "PWD" && name != "_" && name != "OLDPWD" && name != "SHLVL" { // these the shell itself sets
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if want := []string{
			"DROVER_HOST", "DROVER_NAME", "DROVER_NAMESPACE", "DROVER_PROCESS", "HOME", "LANG", "LOGNAME", "PATH",
			"SHELL", "TZ", "USER",
		}; !slices.Equal(names, want) {
			t.Errorf("environment %v, want %v", names, want)
		}
		if got := strings.TrimSpace(read(t, dir, "umask.txt")); strings.TrimLeft(got, "0") != "22" {
			t.Errorf("umask %s", got)
		}
		if got := strings.TrimSpace(read(t, dir, "pwd.txt")); got != dir {
			t.Errorf("ran in %s, want %s", got, dir)
		}
		// stdin, stdout (fd.txt), stderr, the directory that ls reads
		if n := strings.Count(read(t, dir, "fd.txt"), " -> "); n != 4 {
			t.Errorf("inherited more than three descriptors:\n%s", read(t, dir, "fd.txt"))
		}
		if got := read(t, dir, "stdin.txt"); got != "" {
			t.Errorf("stdin held %q", got)
		}
		for line := range strings.Lines(read(t, dir, "signals.txt")) {
			if !strings.HasSuffix(strings.TrimSpace(line), "\t0000000000000000") {
				t.Errorf("signals are blocked or ignored: %s", line)
			}
		}
		if ids := strings.Fields(read(t, dir, "sid.txt")); len(ids) != 2 || ids[0] != ids[1] {
			t.Errorf("session and pid of the shell %v, want the same", ids)
		}
	})
	t.Run("run as another account", func(t *testing.T) {
		t.Parallel()
		p, dir := script(t, s, "account", "id -un >id.txt; id -G >>id.txt; echo $USER $LOGNAME >>id.txt")
		p.Identity["user"] = "nobody"
		p.Operate(8)
		if got := read(t, dir, "id.txt"); got != "nobody\n65534\nnobody nobody\n" {
			t.Errorf("ran as %q, want nobody with its own group only", got)
		}
	})
	t.Run("that fail say so with their output", func(t *testing.T) {
		t.Parallel()
		p, _ := script(t, s, "failing", "echo on stdout; echo on stderr >&2; exit 3")
		r := p.Operate(8).Want(t, "reload", 65535)
		for _, part := range []string{
			"Script exit code non-zero. Error msessage: [", "on stdout", "on stderr",
			"exit status 3",
		} {
			if !strings.Contains(r.Msg, part) {
				t.Errorf("text %q lacks %q", r.Msg, part)
			}
		}
		if r.Item["result"] != r.Msg {
			t.Errorf("content says %q, error_msg %q", r.Item["result"], r.Msg)
		}
	})
	t.Run("that write a lot are cut", func(t *testing.T) {
		t.Parallel()
		p, _ := script(t, s, "talker", "echo first; head -c 5000000 /dev/zero | tr '\\0' x; "+cut+"echo; echo last; exit 1")
		p.Policy = harness.Object{"op_timeout": 30}
		r := p.Operate(8).Want(t, "reload", 65535)
		if len(r.Msg) > 70000 || !strings.Contains(r.Msg, "[first") || !strings.Contains(r.Msg, "last]") {
			t.Errorf("text of %d bytes, want both ends and at most 64 KiB of output: %.80q … %q", len(r.Msg), r.Msg,
				r.Msg[max(0, len(r.Msg)-80):])
		}
	})
	t.Run("that take too long are ended with all that they started", func(t *testing.T) {
		t.Parallel()
		p, dir := script(t, s, "slow", "setsid sh -c 'echo $$ >child.pid; sleep 1000' & echo $$ >self.pid; sleep 1000")
		r := p.Operate(8).Want(t, "reload", 65535)
		if !strings.Contains(r.Msg, "timed out after 1 s") {
			t.Errorf("text %q", r.Msg)
		}
		for _, file := range []string{"child.pid", "self.pid"} {
			if harness.Alive(harness.ReadPID(t, filepath.Join(dir, file))) {
				t.Errorf("%s is alive", file)
			}
		}
	})
	t.Run("that end well keep their helpers", func(t *testing.T) {
		t.Parallel()
		p, dir := script(t, s, "helper", "setsid sh -c 'echo $$ >helper.pid; exec sleep 1000' & true")
		p.Operate(0).Want(t, "start", 0)
		p.Operate(8).Want(t, "reload", 0)
		if !harness.Alive(harness.ReadPID(t, filepath.Join(dir, "helper.pid"))) {
			t.Error("the helper was ended")
		}
	})
	t.Run("of a start that fails leave nothing behind", func(t *testing.T) {
		t.Parallel()
		p, dir := harness.Odd(t, s, binaries.oddd, "halfway", "plain")
		p.Control["start_cmd"] = p.Control["start_cmd"].(string) + "; exit 5"
		p.Operate(0).Want(t, "start", 65535)
		for _, pid := range harness.PIDs(t, dir) {
			if harness.Alive(pid) {
				t.Errorf("pid %d is alive after a failed start", pid)
			}
		}
		if r := p.Query(); r.PID != -1 || r.Hosted {
			t.Errorf("pid %d, hosted %v after a failed start", r.PID, r.Hosted)
		}
	})
}

func TestEmptyCommands(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	t.Run("restart stops and starts", func(t *testing.T) {
		t.Parallel()
		p, dir := harness.Odd(t, s, binaries.oddd, "restart", "plain")
		p.Operate(7).Want(t, "restart of nothing", 0)
		first := harness.ReadPID(t, dir+"/oddd.pid")
		r := p.Operate(7).Want(t, "restart", 0)
		second := harness.ReadPID(t, dir+"/oddd.pid")
		if first == second || harness.Alive(first) || !harness.Alive(second) || !r.Hosted {
			t.Errorf("pid %d then %d, hosted %v", first, second, r.Hosted)
		}
		if log := read(t, dir, "sig.log"); !strings.Contains(log, fmt.Sprint(first)) {
			t.Errorf("no SIGTERM was noted for pid %d: %s", first, log)
		}
	})
	t.Run("restart without any command touches nothing", func(t *testing.T) {
		t.Parallel()
		p, dir := harness.Odd(t, s, binaries.oddd, "nothing", "plain")
		p.Operate(0).Want(t, "start", 0)
		pid := harness.ReadPID(t, dir+"/oddd.pid")
		p.Control = harness.Object{}
		p.Operate(7).Want(t, "restart", 65535)
		if !harness.Alive(pid) {
			t.Error("the process was ended")
		}
		p.Operate(0).Want(t, "start while it runs", 828)
		p.Operate(1).Want(t, "stop", 0)
		for op, field := range map[int]string{0: "start_cmd is empty", 8: "reload_cmd is empty"} {
			if r := p.Operate(op).Want(t, field, 65535); !strings.Contains(r.Msg, field) {
				t.Errorf("op %d says %q, want %q", op, r.Msg, field)
			}
		}
	})
}

func TestBadConfiguration(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	for name, c := range map[string]struct {
		identity harness.Object
		name     string
		text     string
	}{
		"missing setup_path": {
			identity: harness.Object{"setup_path": "/no/such/place"},
			text:     "setup_path /no/such/place",
		},
		"unknown user":         {identity: harness.Object{"user": "nobody-of-that-name"}, text: "user"},
		"empty user":           {identity: harness.Object{"user": ""}, text: "spec.identity.user"},
		"relative pid_path":    {identity: harness.Object{"pid_path": "run/x.pid"}, text: "spec.identity.pid_path"},
		"control character":    {name: "a\nb", text: "meta.name"},
		"name beyond 255 byte": {name: strings.Repeat("n", 256), text: "meta.name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, dir := harness.Odd(t, s, binaries.oddd, "bad", "plain")
			p.Name = strings.ReplaceAll(name, " ", "-")
			if c.name != "" {
				p.Name = c.name
			}
			maps.Copy(p.Identity, c.identity)
			r := p.Operate(0).Want(t, "start", 65535)
			if !strings.Contains(r.Msg, c.text) {
				t.Errorf("text %q does not name %q", r.Msg, c.text)
			}
			if n := harness.Starts(t, dir); n != 0 {
				t.Errorf("something was run %d times", n)
			}
		})
	}
	p, _ := harness.Odd(t, s, binaries.oddd, "wrong-op", "plain")
	p.Operate(5).Want(t, "op 5", 832)
}

func TestPIDFiles(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	// Each case runs the daemon, then changes the pid file and asks under another name, so that nothing but the file
	// tells.
	ask := func(t *testing.T, change func(dir string, pid int) string, found bool) {
		t.Helper()
		p, dir := harness.Odd(t, s, binaries.oddd, "owner-"+filepath.Base(t.Name()), "plain")
		run(t, "/bin/sh", "-c", p.Control["start_cmd"].(string))
		pid := harness.ReadPID(t, dir+"/oddd.pid")
		p.Name = "asker-" + filepath.Base(t.Name())
		p.Identity["pid_path"] = change(dir, pid)
		if r := p.Query(); (r.PID == pid) != found || !found && r.PID != -1 {
			t.Errorf("pid %d with pid_path %s, the daemon is %d: want it found %v", r.PID, p.Identity["pid_path"], pid,
				found)
		}
	}
	text := func(format string) func(string, int) string {
		return func(dir string, pid int) string {
			path := filepath.Join(dir, "changed.pid")
			if strings.Contains(format, "%d") {
				format = fmt.Sprintf(format, pid)
			}
			if err := os.WriteFile(path, []byte(format), 0o644); err != nil {
				panic(err)
			}
			return path
		}
	}
	for name, c := range map[string]struct {
		change func(string, int) string
		found  bool
	}{
		"padded":              {text("  %d  \n"), true},
		"without newline":     {text("%d"), true},
		"with more lines":     {text("%d\n/var/lib/thing\n12345\n"), true},
		"empty":               {text(""), false},
		"words":               {text("not a pid\n"), false},
		"zero":                {text("0\n"), false},
		"minus one":           {text("-1\n"), false},
		"one":                 {text("1\n"), false},
		"huge number":         {text("9223372036854775808\n"), false},
		"huge":                {text(strings.Repeat("x", 1<<20)), false},
		"missing":             {func(dir string, _ int) string { return dir + "/none.pid" }, false},
		"directory":           {func(dir string, _ int) string { return dir }, true},
		"directory and slash": {func(dir string, _ int) string { return dir + "/" }, true},
		"a link": {func(dir string, _ int) string {
			_ = os.Symlink(dir+"/oddd.pid", dir+"/link.pid")
			return dir + "/link.pid"
		}, true},
		"of somebody else": {text("%d\n"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ask(t, c.change, c.found)
		})
	}
	t.Run("names a stranger", func(t *testing.T) {
		t.Parallel()
		p, dir := harness.Odd(t, s, binaries.oddd, "stranger", "plain")
		self := os.Getpid()
		if err := os.WriteFile(dir+"/oddd.pid", fmt.Appendf(nil, "%d\n", self), 0o644); err != nil {
			t.Fatal(err)
		}
		if r := p.Query(); r.PID != -1 {
			t.Errorf("pid %d is this test, not the daemon", r.PID)
		}
		p.Operate(1).Want(t, "stop", 829)
		p.Operate(9).Want(t, "kill", 829)
	})
	t.Run("under two names is one process", func(t *testing.T) {
		t.Parallel()
		a, dir := harness.Odd(t, s, binaries.oddd, "first", "plain")
		b, _ := harness.Odd(t, s, binaries.oddd, "second", "plain")
		b.Identity, b.Control = a.Identity, a.Control
		a.Operate(0).Want(t, "start", 0)
		b.Operate(0).Want(t, "start of the other", 828)
		if r := b.Operate(3).Want(t, "host the other", 65535); !strings.Contains(r.Msg, "hosted as odd/first") {
			t.Errorf("text %q", r.Msg)
		}
		b.Operate(1).Want(t, "stop of the other", 0)
		if r := a.Query(); r.PID != -1 || r.Hosted {
			t.Errorf("the first is pid %d, hosted %v after the other was stopped", r.PID, r.Hosted)
		}
		if n := harness.Starts(t, dir); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
