package spec_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/spec"
)

// TestSpecSurvivesEncoding: a spec goes over the wire and to disk as it is, the caller's own JSON included.
func TestSpecSurvivesEncoding(t *testing.T) {
	zero := 0
	want := spec.Spec{
		ProcessName: "n", Directory: "/s", PIDFile: "/p", LogFile: "/l", User: "u", Start: "<&>", Stop: "b",
		Reload: &spec.Reload{Command: "d"}, VersionCommand: "f", Health: &spec.Health{Exec: "g", Grace: new(spec.Duration(0))},
		Thresholds: &spec.Thresholds{CPU: 0.5, Memory: 1}, AlarmID: 1 << 62, Nice: &zero,
		Groups: []string{}, Capabilities: []string{}, StopSignals: []spec.StopSignal{},
		Restart:     &spec.Restart{GiveUpAfter: new(spec.NeverGiveUp), SuccessCodes: []spec.Status{}, NeverOn: []spec.Status{"TERM", "2"}},
		Limits:      &spec.Limits{OpenFiles: spec.Unlimited, CoreSize: new(spec.LimitSize(0)), FileSize: new(spec.LimitSize(spec.Unlimited))},
		ConfigFiles: []spec.ConfigFile{{Path: "/x", MD5: "y"}},
		Compat: &spec.Compat{
			RestartCommand: "c", KillCommand: "e", ConfigPath: "/c", LogPath: "l", FuncID: "f", InstanceID: "i", Contact: "c",
			Resource: &spec.CompatResource{CPU: 101, FD: 2, Disk: 3, Net: 4}, Labels: `{"b":1e400,"a":null}`,
		},
		Revision: 7, Beside: spec.Adopt.WithPID(3, 4),
	}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got spec.Spec
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}
}

// TestSame: the revision and the order of the moment are no part of what a spec says; everything else is.
func TestSame(t *testing.T) {
	a := &spec.Spec{Run: "x", Labels: map[string]string{"a": "b"}}
	for name, b := range map[string]*spec.Spec{
		"a revision": a.Numbered(9), "an order": {Run: "x", Labels: a.Labels, Beside: spec.TakeOver},
		"an empty map": {Run: "x", Labels: a.Labels, Environment: spec.Variables{}},
	} {
		if !a.Same(b) || !b.Same(a) || a.Digest() != b.Digest() {
			t.Errorf("%s makes another spec", name)
		}
	}
	for name, b := range map[string]*spec.Spec{
		"a label": {Run: "x", Labels: map[string]string{"a": "c"}}, "a live field": {Run: "x", Labels: a.Labels, Stop: "s"},
		"an empty list": {Run: "x", Labels: a.Labels, StopSignals: []spec.StopSignal{}},
		"compat":        {Run: "x", Labels: a.Labels, Compat: &spec.Compat{}},
	} {
		if a.Same(b) || a.Digest() == b.Digest() {
			t.Errorf("%s makes no other spec", name)
		}
	}
	var none *spec.Spec
	if none.Same(a) || a.Same(nil) || none.Numbered(3) != nil {
		t.Error("no spec equals one")
	}
	if b := a.Numbered(9); b.Revision != 9 || a.Revision != 0 || b.Numbered(9) != b || b.Unnumbered().Revision != 0 || a.Unnumbered() != a {
		t.Errorf("the revisions are %d and %d", b.Revision, a.Revision)
	}
}

// TestStartDigest: only fields that take effect at a start count, each as it takes effect.
func TestStartDigest(t *testing.T) {
	a := spec.Spec{
		Run: "x", Environment: spec.Variables{"A": "1", "B": "2"}, Umask: "022", Capabilities: []string{"KILL"},
		Limits: &spec.Limits{Memory: 1, StackSize: 8 << 20},
	}
	for name, set := range map[string]func(s *spec.Spec){
		"the directory": func(s *spec.Spec) { s.Directory = "/" }, "the digits": func(s *spec.Spec) { s.Umask = "0022" },
		"the name": func(s *spec.Spec) { s.Capabilities = []string{"cap_kill"} },
		"memory":   func(s *spec.Spec) { s.Limits = &spec.Limits{Memory: 2, StackSize: 8 << 20, Strict: true} },
		"a log":    func(s *spec.Spec) { s.Log = &spec.Log{Keep: new(3)} }, "a stop": func(s *spec.Spec) { s.Stop = "x" },
		"no files":   func(s *spec.Spec) { s.EnvironmentFiles = []string{} },
		"a schedule": func(s *spec.Spec) { s.Schedule = &spec.Schedule{Cron: "x"} },
	} {
		b := a
		set(&b)
		if a.StartDigest() != b.StartDigest() || a.StartFields(&b) != nil {
			t.Errorf("%s needs a start: %q", name, a.StartFields(&b))
		}
	}
	for _, c := range []struct {
		set  func(s *spec.Spec)
		want []string
	}{
		{func(s *spec.Spec) { s.Run = "y" }, nil},
		{func(s *spec.Spec) { s.Run, s.Start, s.PIDFile = "", "y", "/p" }, []string{"pid_file"}},
		{func(s *spec.Spec) { s.User = "u" }, nil},
		{func(s *spec.Spec) { s.Directory = "/d" }, nil},
		{func(s *spec.Spec) { s.ProcessName, s.Once = "n", true }, []string{"once", "process_name"}},
		{func(s *spec.Spec) { s.OnDemand = true }, []string{"once"}},
		{
			func(s *spec.Spec) { s.Environment = spec.Variables{"A": "1", "B": "3", "C": ""} },
			[]string{"environment.B", "environment.C"},
		},
		{func(s *spec.Spec) { s.Environment, s.Groups = nil, []string{} }, []string{"environment.A", "environment.B", "groups"}},
		{func(s *spec.Spec) { s.Umask, s.Nice, s.Limits = "", new(0), nil }, []string{"limits.stack_size", "nice", "umask"}},
		{func(s *spec.Spec) { s.Log = &spec.Log{Pipe: true} }, []string{"log.pipe"}},
		{func(s *spec.Spec) { s.Capabilities = []string{} }, []string{"capabilities"}},
		{func(s *spec.Spec) { s.EnvironmentFiles, s.RuntimeDirectory = []string{"/e"}, "r" }, []string{"environment_files", "runtime_directory"}},
	} {
		b := a
		c.set(&b)
		if got := a.StartFields(&b); !slices.Equal(got, c.want) || !slices.Equal(b.StartFields(&a), c.want) {
			t.Errorf("the fields are %q, want %q", got, c.want)
		}
		if a.StartDigest() == b.StartDigest() {
			t.Errorf("%q need no start", c.want)
		}
	}
	wire := spec.Spec{ProcessName: "a", PIDFile: "/a", Directory: "/", Compat: &spec.Compat{}}
	other := spec.Spec{ProcessName: "b", PIDFile: "/b", Directory: "/", Once: true, Compat: &spec.Compat{OpTimeout: 9}}
	if got := wire.StartFields(&other); !slices.Equal(got, []string{"auto_type", "pid_path", "proc_name"}) {
		t.Errorf("a caller of GSE is told %q", got)
	}
}

// TestChangedLimits: all limits that a running process can get are told, by their names.
func TestChangedLimits(t *testing.T) {
	was := &spec.Spec{Limits: &spec.Limits{Memory: 1, OpenFiles: 9, CoreSize: new(spec.LimitSize(0)), StackSize: 1 << 20}}
	is := &spec.Spec{Limits: &spec.Limits{CPU: 50, Tasks: 3, OpenFiles: 9, CoreSize: new(spec.LimitSize(spec.Unlimited)), Processes: 5}}
	if got, want := spec.ChangedLimits(was, is), []string{"memory", "cpu", "tasks", "core_size", "processes"}; !slices.Equal(got, want) {
		t.Errorf("%q have changed, want %q", got, want)
	}
	if got := spec.ChangedLimits(was, &spec.Spec{}); !slices.Equal(got, []string{"memory", "open_files", "core_size"}) {
		t.Errorf("%q have changed", got)
	}
	if got := spec.ChangedLimits(&spec.Spec{}, &spec.Spec{Limits: &spec.Limits{Strict: true}}); len(got) > 0 {
		t.Errorf("%q have changed", got)
	}
	limits := was.RLimits()
	want := spec.RLimits{{spec.OpenFiles, 9}, {spec.CoreSize, 0}, {spec.StackSize, 1 << 20}}
	if !slices.Equal(limits, want) {
		t.Errorf("the limits are %v", limits)
	}
	more := limits.With(spec.OpenFiles, 5)
	if n, set := more.Get(spec.OpenFiles); n != 5 || !set || limits[0].Value != 9 {
		t.Errorf("%v of %v", more, limits)
	}
	if n, set := more.Get(spec.Processes); n != 0 || set {
		t.Errorf("processes is %d, %v", n, set)
	}
}

// TestHealth: the text of the check, and how long a watchdog waits.
func TestHealth(t *testing.T) {
	for text, h := range map[string]*spec.Health{
		"": nil, "./check": {Exec: "./check"}, "http://a": {HTTP: "http://a"}, "a:1": {TCP: "a:1"}, "watchdog": {Watchdog: true},
	} {
		s := spec.Spec{Health: h}
		if s.HealthCheck() != text || s.Asks() != (text != "") || s.Notifies() != (text == "watchdog") || s.Watched() != s.Notifies() {
			t.Errorf("%+v: %q", h, s.HealthCheck())
		}
		if want := map[bool]time.Duration{true: time.Minute}[text == "watchdog"]; s.WatchdogTime() != want {
			t.Errorf("%q: the watchdog waits for %s", text, s.WatchdogTime())
		}
	}
	s := spec.Spec{Health: &spec.Health{Watchdog: true, Every: new(spec.Duration(2 * time.Second))}}
	if s.WatchdogTime() != 2*time.Second {
		t.Errorf("the watchdog waits for %s", s.WatchdogTime())
	}
	if s = (spec.Spec{VersionCommand: "v"}); !s.Asks() || s.Notifies() {
		t.Error("drover does not ask for the version")
	}
	if s = (spec.Spec{Ready: &spec.Ready{Notify: true}}); s.Asks() || !s.Notifies() {
		t.Error("a process that notifies has no socket")
	}
}

// TestBeside: the parts of an order come back.
func TestBeside(t *testing.T) {
	for _, c := range []struct {
		beside spec.Beside
		wish   spec.Beside
		pid    int
		began  uint64
	}{
		{spec.Refuse, spec.Refuse, 0, 0},
		{spec.StartBeside, spec.StartBeside, 0, 0},
		{spec.Adopt.WithPID(12, 1<<63), spec.Adopt, 12, 1 << 63},
	} {
		if wish, pid, began := c.beside.Split(); wish != c.wish || pid != c.pid || began != c.began {
			t.Errorf("%s is %s, %d, %d", c.beside, wish, pid, began)
		}
	}
}
