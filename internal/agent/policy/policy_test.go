package policy_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/agent/policy"
	"drover/internal/process"
)

func checker(t *testing.T, text string) (*policy.Checker, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.conf")
	write(t, path, text)
	return policy.New(path, slog.New(slog.NewTextHandler(t.Output(), nil))), path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func spec(user, dir, start string) *process.Spec {
	return &process.Spec{ProcessName: "p", User: user, Directory: dir, Start: start, Compat: &v1.Compat{}}
}

func id(namespace string) process.ID { return process.ID{Namespace: namespace, Name: "p"} }

// refused fails the test unless an error is a refusal by policy with the words.
func refused(t *testing.T, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("error is %v, want one about %q", err, words)
		return
	}
	if known, ok := errors.AsType[*process.Error](err); !ok || known.Fault != process.Failed ||
		known.Cause != process.CausePolicy {
		t.Errorf("error is %#v, want one of the policy", err)
	}
}

func TestWithoutAFileEverythingIsAllowed(t *testing.T) {
	k := policy.New(filepath.Join(t.TempDir(), "none", "policy.conf"), slog.New(slog.DiscardHandler))
	if err := k.Allow(id("a"), process.Kill, spec("root", "/", "rm -rf /")); err != nil {
		t.Error(err)
	}
	if k.Summary() != "" || k.Err() != nil {
		t.Errorf("it says %q, %v", k.Summary(), k.Err())
	}
}

// A file that says nothing at all was not meant to: its disk was full, or it is still being written.
func TestAnEmptyFileAllowsNothing(t *testing.T) {
	for _, text := range []string{"", " \n\n"} {
		k, _ := checker(t, text)
		refused(t, k.Allow(id("a"), process.Start, spec("root", "/", "x")), "is empty")
	}
	k, _ := checker(t, "# nothing is narrowed\n")
	if err := k.Allow(id("a"), process.Start, spec("root", "/", "x")); err != nil {
		t.Error(err)
	}
}

func TestALinkThatLeadsNowhereAllowsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.conf")
	if err := os.Symlink(path+".missing", path); err != nil {
		t.Fatal(err)
	}
	k := policy.New(path, slog.New(slog.DiscardHandler))
	refused(t, k.Allow(id("a"), process.Start, spec("root", "/", "x")), "broken link")
}

// pathsIn is a spec that works in a directory, with the paths that are read for it.
func pathsIn(dir, pid, log, conf string) *process.Spec {
	s := spec("a", dir, "./run")
	s.PIDFile, s.LogFile = pid, log
	if conf != "" {
		s.ConfigFiles = []v1.ConfigFile{{Path: conf}}
	}
	return s
}

func readyAt(dir, tcp, http string) *process.Spec {
	s := spec("a", dir, "./run")
	s.Ready = &v1.Ready{TCP: tcp, HTTP: http}
	return s
}

func TestEachLineNarrows(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, text string
		ns         string
		op         process.Op
		spec       *process.Spec
		refusal    string // empty where it is allowed
	}{
		{"user", "users app www-*\n", "n", process.Start, spec("www-data", "/", "x"), ""},
		{
			"other user", "\n# who\nusers app www-*", "n", process.Start, spec("root", "/", "x"),
			`line 3: user "root" is not among app www-*`,
		},
		{"user of a query", "users app", "n", process.Query, spec("root", "/", "x"), ""},
		{"stored user", "users app", "n", process.Register, spec("root", "/", "x"), "line 1"},
		{"two lines add up", "users app\nusers root", "n", process.Start, spec("root", "/", "x"), ""},
		{"namespace", "namespaces biz-*", "biz-7", process.Start, spec("a", "/", "x"), ""},
		{"other namespace", "namespaces biz-*", "ops", process.Query, nil, `namespace "ops" is not among biz-*`},
		{"operation", "operations read stop", "n", process.Stop, spec("a", "/", "x"), ""},
		{
			"other operation", "operations read stop", "n", process.Start, spec("a", "/", "x"),
			"start is not among the operations query stop",
		},
		{"group", "operations operate", "n", process.Retry, spec("a", "/", "x"), ""},
		{"observing", "observe-only", "n", process.Query, nil, ""},
		{"observing registers", "observe-only", "n", process.Register, spec("a", "/", "x"), ""},
		{
			"observing starts nothing", "observe-only", "n", process.Start, spec("a", "/", "x"),
			"line 1: drover only observes here, and does not start",
		},
		{"observing hosts nothing", "observe-only", "n", process.Host, spec("a", "/", "x"), "only observes"},
		{"observing ends nothing", "observe-only", "n", process.Kill, spec("a", "/", "x"), "only observes"},
		{"path", "paths " + dir, "n", process.Start, spec("a", dir, "./run --all"), ""},
		{"a newline at the end", "paths " + dir, "n", process.Start, spec("a", dir, "./run --all\n"), ""},
		{"two lines", "paths " + dir, "n", process.Start, spec("a", dir, "./run\n./run\n"), "holds '\\n'"},
		{"path of the program", "paths " + dir, "n", process.Start, spec("a", dir, dir+"/bin/run x"), ""},
		{
			"other directory", "paths " + dir, "n", process.Start, spec("a", "/usr", dir+"/run"),
			`setup_path "/usr" is not below ` + dir,
		},
		{
			"a name that only begins alike", "paths " + dir, "n", process.Start, spec("a", dir+"x", dir+"/run"),
			"setup_path",
		},
		{"upwards", "paths " + dir, "n", process.Start, spec("a", dir, dir+"/../../bin/sh"), "which is not below"},
		{
			"upwards and down again", "paths " + dir, "n", process.Start, spec("a", dir, dir+"/x/../run"),
			"which is not below",
		},
		{
			"a relative way upwards", "paths " + dir, "n", process.Start, spec("a", dir, "./x/../../run"),
			"which is not below",
		},
		{"a directory upwards", "paths " + dir, "n", process.Start, spec("a", dir+"/x/..", "./run"), "setup_path"},
		{"pid file", "paths " + dir, "n", process.Stop, pathsIn(dir, dir+"/d.pid", "d.log", dir+"/d.conf"), ""},
		{
			"pid file elsewhere", "paths " + dir, "n", process.Stop, pathsIn(dir, "/run/d.pid", "", ""),
			`pid_path "/run/d.pid" is not below`,
		},
		{"log elsewhere", "paths " + dir, "n", process.Start, pathsIn(dir, "", "/var/log/auth.log", ""), "log_path"},
		{"log upwards", "paths " + dir, "n", process.Start, pathsIn(dir, "", "../x.log", ""), "log_path"},
		{"configuration elsewhere", "paths " + dir, "n", process.Start, pathsIn(dir, "", "", "/etc/shadow"), "config"},
		{
			"readiness of the host", "paths " + dir, "n", process.Start, readyAt(dir, "127.0.0.1:80", "http://localhost/"),
			"",
		},
		{
			"readiness of another host", "paths " + dir, "n", process.Start, readyAt(dir, "192.0.2.7:22", ""),
			"ready.tcp leads to",
		},
		{
			"readiness of a name", "paths " + dir, "n", process.Start, readyAt(dir, "", "http://metadata.internal/"),
			"ready.http leads to",
		},
		{
			"other program", "paths " + dir, "n", process.Start, spec("a", dir, "/bin/sh -c x"),
			`start_cmd runs "/bin/sh"`,
		},
		{
			"a builtin", "paths " + dir, "n", process.Start, spec("a", dir, "eval x"),
			"begins with the path of a program",
		},
		{"a second command", "paths " + dir, "n", process.Start, spec("a", dir, "./run; rm -rf /"), `holds ';'`},
		{"a substitution", "paths " + dir, "n", process.Start, spec("a", dir, "./run $(id)"), `holds '$'`},
		{"a variable first", "paths " + dir, "n", process.Start, spec("a", dir, "LD_PRELOAD=/x ./run"), "begins with"},
		{
			"a blank that is none to a shell", "paths " + dir, "n", process.Start,
			spec("a", dir, dir+"/run\u00a0/../../bin/sh"), "which is not below",
		},
		{
			"another such blank", "paths " + dir, "n", process.Start, spec("a", dir, dir+"/run\v/../../bin/sh -c x"),
			"which is not below",
		},
		{"a quoted program", "paths " + dir, "n", process.Start, spec("a", dir, `"`+dir+`/../x"`), "begins with"},
		{"everywhere", "paths /", "n", process.Start, spec("a", "/usr", "/bin/true"), ""},
	} {
		k, path := checker(t, c.text)
		err := k.Allow(id(c.ns), c.op, c.spec)
		if c.refusal == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		refused(t, err, c.refusal)
		if err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v does not name the file", c.name, err)
		}
	}
}

// TestEveryCommandIsJudged: one that is run later, or only asks, is no way around.
func TestEveryCommandIsJudged(t *testing.T) {
	dir := t.TempDir()
	k, _ := checker(t, "paths "+dir)
	for field, change := range map[string]func(*process.Spec){
		"run":               func(s *process.Spec) { s.Run = "kill 1" },
		"before_start":      func(s *process.Spec) { s.BeforeStart = &v1.Before{Run: "kill 1"} },
		"before_stop":       func(s *process.Spec) { s.BeforeStop = &v1.BeforeStop{Run: "kill 1"} },
		"environment_files": func(s *process.Spec) { s.EnvironmentFiles = []string{"/etc/shadow"} },
		"LD_PRELOAD":        func(s *process.Spec) { s.Environment = map[string]string{"LD_PRELOAD": "/tmp/x.so"} },
		"health.tcp":        func(s *process.Spec) { s.Health = &v1.Health{TCP: "192.0.2.7:22"} },
		"stop_cmd":          func(s *process.Spec) { s.Stop = "kill 1" },
		"restart_cmd":       func(s *process.Spec) { s.Compat.RestartCommand = "kill 1" },
		"reload_cmd":        func(s *process.Spec) { s.Reload = &v1.Reload{Command: "kill 1"} },
		"kill_cmd":          func(s *process.Spec) { s.Compat.KillCommand = "kill 1" },
		"version_cmd":       func(s *process.Spec) { s.VersionCommand = "kill 1" },
		"health_cmd":        func(s *process.Spec) { s.Health = &v1.Health{Exec: "kill 1"} },
		"ready.exec":        func(s *process.Spec) { s.Ready = &v1.Ready{Exec: "kill 1"} },
	} {
		s := spec("a", dir, "./run")
		change(s)
		refused(t, k.Allow(id("n"), process.Start, s), field)
		refused(t, k.MayAsk(id("n"), s), field)
	}
	if err := k.MayAsk(id("n"), spec("a", dir, "./run")); err != nil {
		t.Error(err)
	}
	k, _ = checker(t, "observe-only")
	refused(t, k.MayAsk(id("n"), spec("a", dir, "./run")), "runs no command")
}

// TestVariables: where paths are given, a spec has only the variables that the policy names: each interpreter has some
// that run other programs.
func TestVariables(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ policy, name, refusal string }{
		{"paths " + dir, "PS4", "environment has PS4, which no line variables names"},
		{"paths " + dir + "\nvariables APP_* HOME", "NODE_OPTIONS", "environment has NODE_OPTIONS"},
		{"paths " + dir + "\nvariables APP_* HOME", "APP_ENV", ""},
		{"paths " + dir + "\nvariables APP_*\nvariables HOME", "HOME", ""},
		{"variables APP_*", "PERL5DB", "environment has PERL5DB"},
		{"variables APP_*", "APP_", ""},
		{"users a", "PS4", ""},
	} {
		k, _ := checker(t, c.policy)
		s := spec("a", dir, "./run")
		s.Environment = map[string]string{c.name: "x"}
		for _, err := range []error{k.Allow(id("n"), process.Start, s), k.MayAsk(id("n"), s)} {
			if c.refusal != "" {
				refused(t, err, c.refusal)
			} else if err != nil {
				t.Errorf("%q, %s: %v", c.policy, c.name, err)
			}
		}
	}
}

// TestNoMoreThanTheAccount: where accounts are given, a spec gives them no further rights.
func TestNoMoreThanTheAccount(t *testing.T) {
	k, _ := checker(t, "users a")
	below := -1
	for field, s := range map[string]process.Spec{
		"group":            {Group: "docker"},
		"groups":           {Groups: []string{"docker"}},
		"capabilities":     {Capabilities: []string{"SYS_ADMIN"}},
		"nice":             {Nice: &below},
		"oom_score_adjust": {OOMScoreAdjust: &below},
	} {
		s.User, s.Directory, s.Start = "a", "/srv", "./run"
		refused(t, k.Allow(id("n"), process.Start, &s), field)
	}
	s := spec("a", "/srv", "./run")
	s.Groups, s.Capabilities, s.NoNewPrivileges = []string{}, []string{}, true
	if err := k.Allow(id("n"), process.Start, s); err != nil {
		t.Error(err)
	}
	s.User = "" // the account of the agent
	refused(t, k.Allow(id("n"), process.Start, s), "user")
}

// TestALinkLeadsOut: a path counts by where it is and by where it leads to.
func TestALinkLeadsOut(t *testing.T) {
	base := t.TempDir()
	for _, dir := range []string{"allowed", "elsewhere"} {
		if err := os.Mkdir(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	allowed := filepath.Join(base, "allowed")
	for link, to := range map[string]string{
		"allowed/sh": "/bin/sh", "allowed/inner": allowed, "alias": allowed,
		"allowed/out": filepath.Join(base, "elsewhere"),
	} {
		if err := os.Symlink(to, filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	k, _ := checker(t, "paths "+allowed)
	refused(t, k.Allow(id("n"), process.Start, spec("a", allowed, "./sh")), "which is not below")
	refused(t, k.Allow(id("n"), process.Start, spec("a", allowed, "out/x")), "which is not below")
	refused(t, k.Allow(id("n"), process.Start, spec("a", filepath.Join(base, "alias"), "./x")), "setup_path")
	if err := k.Allow(id("n"), process.Start, spec("a", allowed, "inner/x")); err != nil {
		t.Error(err)
	}
	// A link that leads so far that nobody follows it leads nowhere.
	deep := strings.Repeat("d/", 600)
	if err := errors.Join(os.MkdirAll(filepath.Join(allowed, deep), 0o700),
		os.Symlink(deep+"out", filepath.Join(allowed, "far")),
		os.Symlink(filepath.Join(base, "elsewhere"), filepath.Join(allowed, deep, "out"))); err != nil {
		t.Fatal(err)
	}
	refused(t, k.Allow(id("n"), process.Start, spec("a", allowed, "far/x")), "which is not below")
	refused(t, k.Allow(id("n"), process.Start, spec("a", filepath.Join(allowed, "far"), "")), "setup_path")
	k, _ = checker(t, "paths "+filepath.Join(base, "alias"))
	if err := k.Allow(id("n"), process.Start, spec("a", filepath.Join(base, "alias"), "./x")); err != nil {
		t.Error(err)
	}
}

// TestABrokenFileAllowsNothing: whatever is wrong with it, and what is wrong is said.
func TestABrokenFileAllowsNothing(t *testing.T) {
	for text, words := range map[string]string{
		"user app":            `line 1: "user" is unknown`,
		"\nusers":             "line 2: users: expected at least one value",
		"paths opt":           `path "opt" is not absolute`,
		"operations fly":      `unknown operation "fly"`,
		"observe-only really": `unexpected "really" after observe-only`,
		"# " + strings.Repeat("x", 65<<10) + "\n": "larger than",
	} {
		k, _ := checker(t, text)
		refused(t, k.Allow(id("n"), process.Query, nil), words)
		refused(t, k.MayAsk(id("n"), nil), "nothing is allowed")
		if k.Err() == nil || !strings.HasPrefix(k.Summary(), "nothing is allowed: ") {
			t.Errorf("%.20q: it says %q, %v", text, k.Summary(), k.Err())
		}
	}
	k, path := checker(t, "users app")
	if err := os.Chmod(path, 0o622); err != nil {
		t.Fatal(err)
	}
	refused(t, k.Allow(id("n"), process.Query, nil), "other users may write")
	k = policy.New(t.TempDir(), slog.New(slog.DiscardHandler))
	refused(t, k.Allow(id("n"), process.Query, nil), "not a regular file")
}

// TestAChangeCountsAtOnce: nobody has to restart or signal the agent.
func TestAChangeCountsAtOnce(t *testing.T) {
	k, path := checker(t, "operations read")
	refused(t, k.Allow(id("n"), process.Start, spec("a", "/", "x")), "not among the operations")
	if got := k.Summary(); got != "operations query" {
		t.Errorf("it says %q", got)
	}
	write(t, path, "operations read start\n")
	if err := k.Allow(id("n"), process.Start, spec("a", "/", "x")); err != nil {
		t.Error(err)
	}
	write(t, path, "operation read start\n")
	refused(t, k.Allow(id("n"), process.Start, spec("a", "/", "x")), "nothing is allowed")
	write(t, path, "observe-only\nnamespaces n\n")
	refused(t, k.Allow(id("n"), process.Start, spec("a", "/", "x")), "only observes")
	if got := k.Summary(); got != "observe only; namespaces n" {
		t.Errorf("it says %q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := k.Allow(id("n"), process.Start, spec("a", "/", "x")); err != nil {
		t.Errorf("without a file: %v", err)
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"*", "", true},
		{"a*", "abc", true},
		{"*c", "abc", true},
		{"a*c", "abbc", true},
		{"a*c", "abb", false},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"*a*b*", "xxaxxbxx", true},
		{"", "a", false},
		{"ü?", "üß", true},
		{"**", "x", true},
	} {
		k, _ := checker(t, "namespaces x"+c.pattern)
		if got := k.Allow(id("x"+c.text), process.Query, nil) == nil; got != c.want {
			t.Errorf("%q matches %q: %v, want %v", c.pattern, c.text, got, c.want)
		}
	}
}
