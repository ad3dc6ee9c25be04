package spec_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/spec"
)

func TestDefaulted(t *testing.T) {
	defaults := spec.Compat{StartCheckBegin: 5, StopCheck: 5, StartRetries: 4, StartInterval: 10, OpTimeout: 60}
	with := func(set func(c *spec.Compat)) spec.Compat {
		c := defaults
		set(&c)
		return c
	}
	for _, c := range []struct {
		name     string
		in, want spec.Compat
	}{
		{"nothing set", spec.Compat{}, defaults},
		{
			"everything negative",
			spec.Compat{
				StartCheckBegin: -1, StartCheckEnd: -1, StopCheck: -1, StartRetries: -1, StartInterval: -1,
				OpTimeout: -1,
			},
			defaults,
		},
		{
			"everything set",
			spec.Compat{
				StartCheckBegin: 1, StartCheckEnd: 2, StopCheck: 3, StartRetries: 4,
				StartInterval: 5, OpTimeout: 6, Crontab: "* * * * *", CycleTime: 7,
			},
			spec.Compat{
				StartCheckBegin: 1, StartCheckEnd: 2, StopCheck: 3, StartRetries: 4,
				StartInterval: 5, OpTimeout: 6, Crontab: "* * * * *", CycleTime: 7,
			},
		},
		{
			"a window without a begin",
			spec.Compat{StartCheckEnd: 9},
			with(func(c *spec.Compat) { c.StartCheckBegin, c.StartCheckEnd = 5, 9 }),
		},
		{
			"a window that ends before the default begin",
			spec.Compat{StartCheckBegin: -3, StartCheckEnd: 3},
			with(func(c *spec.Compat) { c.StartCheckBegin, c.StartCheckEnd = 3, 3 }),
		},
		{
			"a begin without an end",
			spec.Compat{StartCheckBegin: 9, StartCheckEnd: -1},
			with(func(c *spec.Compat) { c.StartCheckBegin = 9 }),
		},
	} {
		got := c.in.Defaulted()
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got): %s", c.name, diff)
		}
		if again := got.Defaulted(); again != got {
			t.Errorf("%s: defaulted twice it is %+v", c.name, again)
		}
	}
}

// TestCompatCounts: a process of GSE or JOB has the times of Compat, whatever other fields say.
func TestCompatCounts(t *testing.T) {
	s := spec.Spec{
		Start: "x", PIDFile: "/p", Compat: &spec.Compat{
			OpTimeout: 7, StartCheckBegin: 2, StartCheckEnd: 9, StopCheck: 3, StartRetries: 6, StartInterval: 8,
			RestartCommand: "r", KillCommand: "k", FuncID: "f", InstanceID: "i", LogPath: "l",
		},
		Timeouts: &spec.Timeouts{Start: long(1), Stop: long(1), Reload: long(1), Version: long(1)},
		Restart:  &spec.Restart{When: spec.Never, Delay: long(1)},
	}
	const second = time.Second
	begin, end := s.StartCheck()
	for name, got := range map[string]bool{
		"begin": begin == 2*second, "end": end == 9*second, "check": s.CheckTime() == 9*second,
		"command": s.CommandLimit() == 7*second, "reload": s.ReloadLimit() == 7*second, "stop check": s.StopCheck() == 3*second,
		"version": s.VersionLimit() == 5*second, "health": s.HealthLimit() == 5*second, "stop": s.StopLimit() == time.Minute,
		"restart command": s.RestartCommand() == "r", "kill command": s.KillCommand() == "k", "func": s.FuncID() == "f",
		"instance": s.InstanceID() == "i", "log": s.LogPath() == "l", "no name": !s.ByName(), "directory": s.Dir() == "",
		"own restarts": !s.OwnRestarts(), "field": s.Field("file", "wire") == "wire",
	} {
		if !got {
			t.Errorf("%s is another one", name)
		}
	}
	want := spec.RestartPolicy{
		When: spec.Always, Delay: 8 * second, MaxDelay: 8 * second, Factor: 1, ResetAfter: time.Minute, GiveUpAfter: 6,
		SuccessCodes: []spec.Status{"0"},
	}
	if diff := cmp.Diff(want, s.Restarts()); diff != "" {
		t.Error(diff)
	}
	s.Compat.OpTimeout = 4 // shorter than the limits of a question
	if s.VersionLimit() != 4*second || s.HealthLimit() != 4*second {
		t.Errorf("a question may last %s and %s", s.VersionLimit(), s.HealthLimit())
	}
}

// TestOwnCounts: a process of a file has its own times, and those of Compat only where it has none.
func TestOwnCounts(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		spec       spec.Spec
		begin, end time.Duration
		alive      time.Duration
		apart      bool
		within     time.Duration
	}{
		{spec.Spec{}, second, 0, second, false, 30 * second},
		{spec.Spec{Ready: &spec.Ready{Alive: long(4)}}, 4 * second, 0, 4 * second, false, 30 * second},
		{spec.Spec{Ready: &spec.Ready{Alive: long(4), Within: long(30)}}, 4 * second, 0, 4 * second, false, 30 * second},
		{spec.Spec{Ready: &spec.Ready{Alive: long(4), Within: long(9)}}, second, 0, 4 * second, true, 9 * second},
		{spec.Spec{Ready: &spec.Ready{Alive: long(4), OnTimeout: "stop"}}, second, 0, 4 * second, true, 30 * second},
		{spec.Spec{Ready: &spec.Ready{Alive: long(0)}}, second, 0, 0, true, 30 * second},
		{spec.Spec{Ready: &spec.Ready{Alive: new(spec.Duration(1500 * time.Millisecond))}}, second, 0, 1500 * time.Millisecond, true, 30 * second},
		{spec.Spec{Ready: &spec.Ready{TCP: "a:1"}}, second, 30 * second, 0, false, 30 * second},
		{spec.Spec{Ready: &spec.Ready{Exec: "x", Within: long(5)}}, second, 5 * second, 0, false, 5 * second},
	} {
		begin, end := c.spec.StartCheck()
		alive, apart := c.spec.Alive()
		if begin != c.begin || end != c.end || alive != c.alive || apart != c.apart || c.spec.Within() != c.within {
			t.Errorf("%+v: from %s to %s; alive for %s, %v; within %s", c.spec.Ready, begin, end, alive, apart, c.spec.Within())
		}
	}
	s := spec.Spec{
		Run: "x", Timeouts: &spec.Timeouts{Start: long(3)},
		Restart: &spec.Restart{
			When: spec.OnFailure, Delay: long(600), Factor: new(1.5), Jitter: new(spec.Percent(0)),
			GiveUpAfter: new(spec.Count(2)), SuccessCodes: []spec.Status{}, NeverOn: []spec.Status{"INT"},
		},
	}
	want := spec.RestartPolicy{
		When: spec.OnFailure, Delay: 600 * second, MaxDelay: 600 * second, Factor: 1.5, ResetAfter: time.Minute,
		GiveUpAfter: 2, SuccessCodes: []spec.Status{}, NeverOn: []spec.Status{"INT"},
	}
	if diff := cmp.Diff(want, s.Restarts()); diff != "" {
		t.Error(diff)
	}
	if s.CommandLimit() != 3*second || s.ReloadLimit() != 3*second || s.VersionLimit() != 3*second || s.HealthLimit() != 3*second {
		t.Error("a limit is longer than that of the start command, its default")
	}
	s.Once = true
	if p := s.Restarts(); p.GiveUpAfter != 4 || p.Delay != 10*second || s.OwnRestarts() {
		t.Errorf("a single run has the policy %+v", p)
	}
}

func long(seconds int) *spec.Duration {
	return new(spec.Duration(time.Duration(seconds) * time.Second))
}

// TestSetters: what a call of GSE or JOB says stands in the field of files, and in Compat if a file cannot say it.
func TestSetters(t *testing.T) {
	set := func(set func(s *spec.Spec)) *spec.Spec {
		s := &spec.Spec{Compat: &spec.Compat{}}
		set(s)
		return s
	}
	every := new(spec.Duration(time.Minute))
	for _, c := range []struct{ got, want *spec.Spec }{
		{set(func(s *spec.Spec) { s.SetLogPath("/l") }), &spec.Spec{LogFile: "/l", Compat: &spec.Compat{}}},
		{set(func(s *spec.Spec) { s.SetLogPath("l") }), &spec.Spec{Compat: &spec.Compat{LogPath: "l"}}},
		{set(func(s *spec.Spec) { s.SetReload("r") }), &spec.Spec{Reload: &spec.Reload{Command: "r"}, Compat: &spec.Compat{}}},
		{set(func(s *spec.Spec) { s.SetReload("r"); s.SetReload("") }), &spec.Spec{Compat: &spec.Compat{}}},
		{set(func(s *spec.Spec) { s.SetHealth("h") }), &spec.Spec{Health: &spec.Health{Exec: "h"}, Compat: &spec.Compat{}}},
		{set(func(s *spec.Spec) { s.SetHealth("h"); s.SetHealth("") }), &spec.Spec{Compat: &spec.Compat{}}},
		{
			set(func(s *spec.Spec) { s.SetResource(spec.CompatResource{CPU: 30.5, Mem: 100}) }),
			&spec.Spec{Thresholds: &spec.Thresholds{CPU: 30.5, Memory: 100}, Compat: &spec.Compat{}},
		},
		{
			set(func(s *spec.Spec) { s.SetResource(spec.CompatResource{CPU: 101, Mem: 1, FD: 2}) }),
			&spec.Spec{
				Thresholds: &spec.Thresholds{Memory: 1},
				Compat:     &spec.Compat{Resource: &spec.CompatResource{CPU: 101, FD: 2}},
			},
		},
		{
			set(func(s *spec.Spec) { s.SetResource(spec.CompatResource{CPU: -1}) }),
			&spec.Spec{Compat: &spec.Compat{Resource: &spec.CompatResource{CPU: -1}}},
		},
		{set(func(s *spec.Spec) { s.SetResource(spec.CompatResource{}) }), &spec.Spec{Compat: &spec.Compat{}}},
		{
			set(func(s *spec.Spec) { s.SetKind(spec.Resident, "a", 60) }),
			&spec.Spec{Compat: &spec.Compat{Crontab: "a", CycleTime: 60}},
		},
		{
			set(func(s *spec.Spec) { s.SetKind(spec.SingleRun, "", 60) }),
			&spec.Spec{Once: true, Compat: &spec.Compat{CycleTime: 60}},
		},
		{
			set(func(s *spec.Spec) { s.SetKind(spec.Periodic, "a", 60) }),
			&spec.Spec{Schedule: &spec.Schedule{Cron: "a", Every: every}, Compat: &spec.Compat{}},
		},
		{
			set(func(s *spec.Spec) { s.SetKind(spec.Periodic, "", 0) }),
			&spec.Spec{Schedule: &spec.Schedule{}, Compat: &spec.Compat{}},
		},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("(-want +got): %s", diff)
		}
	}
}

// TestLabels: labels of GSE come back as their compact JSON, byte for byte, and stand in fields if these can say them.
func TestLabels(t *testing.T) {
	for text, fields := range map[string]bool{
		`{"a":"b"}`: true, `{"a":"b","é":""}`: true, `{"drover.stop_scope":"process"}`: true,
		`{"a":"b","drover.stop_scope":"process"}`: true, `{"a":"\u003c"}`: true,
		`{"a":"<"}`: false, `{"b":"1","a":"2"}`: false, `{"a":"1","a":"2"}`: false, `{"a":1}`: false, `{"a":"\u0062"}`: false,
		`{}`: false, `[1,{"a":null}]`: false, `"x"`: false, `1e400`: false, `{"drover.stop_scope":"tree"}`: false,
		`{"drover.stop_scope":1}`: false, `{"a":"1","drover.stop_scope":"x"}`: false, `{"b":1e400,"a":null}`: false,
	} {
		s := spec.Spec{Compat: &spec.Compat{}}
		s.SetLabels(json.RawMessage(" " + text + "\n"))
		if got := string(s.LabelsJSON()); got != text || (s.Compat.Labels == "") != fields {
			t.Errorf("%s comes back as %s, in fields: %v", text, got, s.Compat.Labels == "")
		}
		scope := map[bool]spec.StopScope{false: spec.ScopeTree, true: spec.ScopeProcess}
		if want := scope[text == `{"drover.stop_scope":"process"}` || text == `{"a":"b","drover.stop_scope":"process"}`]; s.Scope() != want {
			t.Errorf("%s: the scope is %s", text, s.Scope())
		}
		value, wrong := s.ScopeLabel()
		want := map[string]string{
			`{"drover.stop_scope":"tree"}`: "tree", `{"drover.stop_scope":1}`: "1", `{"a":"1","drover.stop_scope":"x"}`: "x",
		}[text]
		if value != want && value != string(spec.ScopeProcess) || wrong != (want != "") {
			t.Errorf("%s: the label of the scope is %q, %v", text, value, wrong)
		}
	}
	s := spec.Spec{Compat: &spec.Compat{}}
	s.SetLabels(nil)
	if s.LabelsJSON() != nil || s.Compat.Labels != "" {
		t.Errorf("no labels are %s", s.LabelsJSON())
	}
	file := spec.Spec{Labels: map[string]string{"b": "1", "a": "<"}, StopScope: spec.ScopeProcess}
	if got, want := string(file.LabelsJSON()), `{"a":"\u003c","b":"1","drover.stop_scope":"process"}`; got != want {
		t.Errorf("the labels of a file are %s, want %s", got, want)
	}
}
