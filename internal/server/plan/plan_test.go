package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/server/plan"
)

func spec(change func(f *v1.Spec)) *process.Spec {
	f := v1.Spec{Run: "x", User: "u", Environment: v1.Variables{"A": "b"}}
	if change != nil {
		change(&f)
	}
	s := processfile.Canonical(f)
	return &s
}

// known is a process on host a in a state.
func known(name string, s *process.Spec, state string) plan.Known {
	k := plan.Known{Process: process.ID{Namespace: "n", Name: name}, Agent: "A", Host: "a", Spec: s}
	k.Status = process.Status{
		State: state, Hosted: state != "stopped" && state != "unhosted", Want: process.WantRunning,
	}
	switch state {
	case "stopped":
		k.Status.Want, k.Status.LastStartAt = process.WantStopped, 1
	case "running", "unhosted":
		k.Status.State, k.Status.Instance.PID = "running", 7
	}
	return k
}

// up gives a process a pid.
func up(k plan.Known) plan.Known {
	k.Status.Instance.PID = 7
	return k
}

// failed is a process whose single run has failed.
func failed(k plan.Known) plan.Known {
	k.Status.Cause.ID = process.CauseRunFailed
	return k
}

// untold is a process of a host that has not told a restored database what it has.
func untold(k plan.Known) plan.Known {
	k.Untold = true
	return k
}

// unbegun is a process that does not stay up and whose first start has waited without success.
func unbegun(k plan.Known) plan.Known {
	k.Status.Want, k.Status.Cause.ID = process.WantRunning, process.CauseWaitsForOthers
	return k
}

// neverStarted is a process that was only registered; the text says by whom.
func neverStarted(k plan.Known, text string) plan.Known {
	k.Status.LastStartAt = 0
	if text != "" {
		k.Status.Cause = process.Cause{ID: process.CauseNeverStarted, Text: text}
	}
	return k
}

// TestFieldsBesideCompat: only a spec of GSE or JOB names the directory /, and the name alone is no change.
func TestFieldsBesideCompat(t *testing.T) {
	own := &process.Spec{Start: "x", PIDFile: "/p"}
	for directory, want := range map[string]string{"/": "compat.contact", "/srv": "compat.contact directory"} {
		wire := &process.Spec{Start: "x", PIDFile: "/p", Directory: directory, Compat: &v1.Compat{Contact: "a"}}
		for _, fields := range [][]v1.FieldChange{plan.Fields(own, wire), plan.Fields(wire, own)} {
			var paths []string
			for _, f := range fields {
				paths = append(paths, f.Path)
			}
			if got := strings.Join(paths, " "); got != want {
				t.Errorf("%s: the fields are %q, want %q", directory, got, want)
			}
		}
	}
}

// TestChange: what becomes of a process, by its state and by what differs.
func TestChange(t *testing.T) {
	same := spec(nil)
	live := spec(func(f *v1.Spec) { f.Labels = map[string]string{"a": "b"} })
	atStart := spec(func(f *v1.Spec) { f.Environment = v1.Variables{"A": "c", "B": ""} })
	wire := &process.Spec{Compat: new(v1.Compat{}.Defaulted())}
	for _, tt := range []struct {
		name   string
		wanted *process.Spec
		known  []plan.Known
		o      plan.Options
		want   string
	}{
		{"new", same, nil, plan.Options{}, "create start; new"},
		{
			"new with a schedule", spec(func(f *v1.Spec) { f.Schedule = &v1.Schedule{Cron: "@daily"} }), nil,
			plan.Options{},
			"create host; new",
		},
		{"equal", same, []plan.Known{known("p", spec(nil), "running")}, plan.Options{}, "none; nothing to do"},
		{
			"equal by what the host had at the time of a copy", same,
			[]plan.Known{untold(known("p", spec(nil), "running"))},
			plan.Options{},
			"change start; the host has not told what it has since the database was restored from a copy",
		},
		{
			"equal but for its number", same,
			[]plan.Known{known("p", spec(nil).Numbered(7), "running")},
			plan.Options{},
			"none; nothing to do",
		},
		{
			"equal and stopped", same,
			[]plan.Known{known("p", same, "stopped")},
			plan.Options{},
			"kept; stopped: stays stopped",
		},
		{
			"equal and never started", same,
			[]plan.Known{neverStarted(known("p", same, "stopped"), "")},
			plan.Options{},
			"kept; registered and never started: stays stopped",
		},
		{
			"equal and registered by a person", same,
			[]plan.Known{neverStarted(known("p", same, "stopped"), "registered by ben and never started")},
			plan.Options{},
			"kept; registered by ben and never started: stays stopped",
		},
		{
			"equal and unhosted", same,
			[]plan.Known{known("p", same, "unhosted")},
			plan.Options{},
			"kept; not watched: stays as it is",
		},
		{
			"live", live,
			[]plan.Known{known("p", same, "running")},
			plan.Options{},
			"change update; labels.a live <nil> b",
		},
		{
			"at a start", atStart,
			[]plan.Known{known("p", same, "running")},
			plan.Options{},
			"change restart; environment.A restart b c, environment.B restart <nil> ",
		},
		{
			"without a restart", atStart,
			[]plan.Known{known("p", same, "running")},
			plan.Options{NoRestart: true},
			"change update; --no-restart: takes effect at the next start; environment.A restart b c, environment.B restart <nil> ",
		},
		{
			"changed and stopped", atStart,
			[]plan.Known{known("p", same, "stopped")},
			plan.Options{},
			"change update; stopped: stays stopped; environment.A restart b c, environment.B restart <nil> ",
		},
		{
			"registered, but never begun", same,
			[]plan.Known{unbegun(known("p", same, "stopped"))},
			plan.Options{},
			"change start; its start has not begun: starts anew",
		},
		{
			"registered, but never begun, and changed", live,
			[]plan.Known{unbegun(known("p", same, "stopped"))},
			plan.Options{},
			"change start; stopped: starts anew; labels.a live <nil> b",
		},
		{
			"backing off", live,
			[]plan.Known{known("p", same, "backoff")},
			plan.Options{},
			"change start; backoff: starts anew; labels.a live <nil> b",
		},
		{
			"backing off, so a relaunch may come first", atStart,
			[]plan.Known{known("p", same, "backoff")},
			plan.Options{},
			"change restart; backoff: starts anew; environment.A restart b c, environment.B restart <nil> ",
		},
		{
			"backing off, beside a copy", atStart,
			[]plan.Known{known("p", same, "backoff")},
			plan.Options{Beside: "adopt"},
			"change start; backoff: starts anew; environment.A restart b c, environment.B restart <nil> ",
		},
		{
			"backing off, without a restart", atStart,
			[]plan.Known{known("p", same, "backoff")},
			plan.Options{NoRestart: true},
			"change start; backoff: starts anew; environment.A restart b c, environment.B restart <nil> ",
		},
		{
			"given up, so no relaunch comes", atStart,
			[]plan.Known{known("p", same, "given-up")},
			plan.Options{},
			"change start; given-up: starts anew; environment.A restart b c, environment.B restart <nil> ",
		},
		{
			"being relaunched", atStart,
			[]plan.Known{known("p", same, "starting")},
			plan.Options{},
			"change restart; environment.A restart b c, environment.B restart <nil> ",
		},
		{
			"being relaunched, and nothing waits for a start", live,
			[]plan.Known{known("p", same, "starting")},
			plan.Options{},
			"change update; labels.a live <nil> b",
		},
		{
			"flapping and down", live,
			[]plan.Known{known("p", same, "flapping")},
			plan.Options{},
			"change start; flapping: starts anew; labels.a live <nil> b",
		},
		{
			"flapping and up", atStart,
			[]plan.Known{up(known("p", same, "flapping"))},
			plan.Options{},
			"change restart; environment.A restart b c, environment.B restart <nil> ",
		},
		{"finished", same, []plan.Known{known("p", same, "finished")}, plan.Options{}, "none; nothing to do"},
		{
			"finished and changed", live,
			[]plan.Known{known("p", same, "finished")},
			plan.Options{},
			"change update; labels.a live <nil> b",
		},
		{"failed", same, []plan.Known{failed(known("p", same, "finished"))}, plan.Options{}, "none; nothing to do"},
		{
			"failed and changed", live,
			[]plan.Known{failed(known("p", same, "finished"))},
			plan.Options{},
			"change start; its run has failed: starts anew; labels.a live <nil> b",
		},
		{"given up", same, []plan.Known{known("p", same, "given-up")}, plan.Options{}, "none; nothing to do"},
		{"elsewhere, unpruned", nil, []plan.Known{known("q", same, "running")}, plan.Options{}, ""},
		{
			"pruned", nil,
			[]plan.Known{known("q", same, "running")},
			plan.Options{Prune: plan.PruneOwn},
			"remove stop; removed (--prune)",
		},
		{
			"pruned and down", nil,
			[]plan.Known{known("q", same, "stopped")},
			plan.Options{Prune: plan.PruneOwn},
			"remove unregister; removed (--prune)",
		},
		{"of another caller", nil, []plan.Known{known("q", wire, "running")}, plan.Options{Prune: plan.PruneOwn}, ""},
		{
			"all", nil,
			[]plan.Known{known("q", wire, "running")},
			plan.Options{Prune: plan.PruneAll},
			"remove stop; removed (--prune)",
		},
	} {
		var wanted []plan.Wanted
		if tt.wanted != nil {
			wanted = append(wanted, plan.Wanted{
				Process: process.ID{Namespace: "n", Name: "p"}, Agent: "A", Host: "a", Spec: tt.wanted,
			})
		}
		changes, steps := plan.Make(wanted, tt.known, tt.o)
		if got := show(changes); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
		for _, c := range changes {
			if n := slices.IndexFunc(steps, func(s plan.Step) bool { return string(s.Op) == c.Op }); (n >= 0) != (c.Op != "") {
				t.Errorf("%s: the steps are %v", tt.name, steps)
			}
		}
	}
}

func show(changes []v1.Change) string {
	var all []string
	for _, c := range changes {
		parts := []string{strings.TrimSpace(c.Action + " " + c.Op)}
		if c.Reason != "" {
			parts = append(parts, c.Reason)
		}
		var fields []string
		for _, f := range c.Fields {
			fields = append(fields, fmt.Sprintf("%s %s %v %v", f.Path, f.Class, f.From, f.To))
		}
		if fields != nil {
			parts = append(parts, strings.Join(fields, ", "))
		}
		all = append(all, strings.Join(parts, "; "))
	}
	return strings.Join(all, " | ")
}

// TestHostsAreGrouped: hosts with the same change are one line, and a host that the file leaves out keeps its process.
func TestHostsAreGrouped(t *testing.T) {
	s := spec(nil)
	id := process.ID{Namespace: "n", Name: "p"}
	wanted := []plan.Wanted{
		{Process: id, Agent: "C", Host: "c", Spec: s},
		{Process: id, Agent: "B", Host: "b", Spec: s},
		{Process: id, Agent: "A", Host: "a", Spec: s},
	}
	other := known("p", s, "running")
	other.Agent, other.Host = "D", "d"
	changes, steps := plan.Make(wanted, []plan.Known{known("p", s, "running"), other}, plan.Options{})
	var got []string
	for _, c := range changes {
		got = append(got, c.Action+" "+strings.Join(c.Hosts, ","))
	}
	if want := "none a; create b,c; kept d"; strings.Join(got, "; ") != want || len(steps) != 2 {
		t.Errorf("got %v with %d steps, want %s", got, len(steps), want)
	}
}

// TestCopies: the number of copies in the file counts on its hosts, without prune, and equal changes of copies are one.
func TestCopies(t *testing.T) {
	same, other := spec(nil), spec(func(f *v1.Spec) { f.Environment = v1.Variables{"A": "c"} })
	wire := &process.Spec{Start: "x", Compat: new(v1.Compat{}.Defaulted())}
	wanted := func(entry string, s *process.Spec, numbers ...int) (all []plan.Wanted) {
		for _, n := range numbers {
			name := entry
			if n > 0 {
				name = process.CopyName(entry, n)
			}
			all = append(all, plan.Wanted{
				Process: process.ID{Namespace: "n", Name: name}, Agent: "A", Host: "a", Spec: s, Entry: entry,
			})
		}
		return all
	}
	on := func(agent, host string, k ...plan.Known) []plan.Known {
		for i := range k {
			k[i].Agent, k[i].Host = agent, host
		}
		return k
	}
	copies := func(state string, s *process.Spec, numbers ...int) (all []plan.Known) {
		for _, n := range numbers {
			all = append(all, known(process.CopyName("p", n), s, state))
		}
		return all
	}
	second := func(w []plan.Wanted) []plan.Wanted {
		all := slices.Clone(w)
		for _, one := range w {
			one.Agent, one.Host = "B", "b"
			all = append(all, one)
		}
		return all
	}
	one := wanted("p", same, 0)
	for _, tt := range []struct {
		name   string
		wanted []plan.Wanted
		known  []plan.Known
		want   string
	}{
		{"new", wanted("p", same, 1, 2, 3), nil, "create start p[1 2 3] on a"},
		{
			"more", wanted("p", same, 1, 2, 3),
			copies("running", same, 1, 2),
			"none p[1 2] on a | create start p[3] on a",
		},
		{
			"fewer", wanted("p", same, 1), copies("running", same, 1, 2, 3),
			"none p[1] on a | remove stop p[2 3] on a",
		},
		{
			"fewer, and down", wanted("p", same, 1),
			append(copies("running", same, 1), copies("stopped", same, 2)...),
			"none p[1] on a | remove unregister p[2] on a",
		},
		{
			"changed, one at rest", wanted("p", other, 1, 2, 3),
			append(copies("running", same, 1, 3), copies("stopped", same, 2)...),
			"change restart p[1 3] on a | change update p[2] on a",
		},
		{
			"equal, one at rest", wanted("p", same, 1, 2),
			append(copies("running", same, 1), copies("stopped", same, 2)...), "none p[1] on a | kept p[2] on a",
		},
		{
			"from one process to copies", wanted("p", same, 1, 2),
			[]plan.Known{known("p", same, "running")},
			"remove stop p on a | create start p[1 2] on a",
		},
		{
			"from copies to one process", one, copies("running", same, 1, 2),
			"create start p on a | remove stop p[1 2] on a",
		},
		{
			"by name, the rest stays", wanted("p@1", same, 0), copies("running", same, 1, 2), "none p[1] on a",
		},
		{
			"the process beside a copy by name", append(wanted("p", same, 0), wanted("p@2", same, 0)...),
			append(copies("running", same, 2, 3), known("p", same, "running")),
			"none p on a | none p[2] on a | remove stop p[3] on a",
		},
		{
			"the name of a copy in the compatible APIs", one,
			[]plan.Known{known("p", same, "running"), known("p@2", wire, "running")},
			"none p on a",
		},
		{
			"on a host that the file does not name", wanted("p", same, 1),
			append(copies("running", same, 1), on("B", "b", copies("running", same, 1, 2)...)...),
			"none p[1] on a | kept p[1 2] on b",
		},
		{
			"hosts with other copies", second(wanted("p", same, 1, 2, 3)),
			append(copies("running", same, 1, 2), on("B", "b", copies("running", same, 1)...)...),
			"none p[1 2] on a | none p[1] on b | create start p[3] on a | create start p[2 3] on b",
		},
		{
			"hosts with the same copies", second(wanted("p", same, 1, 2)), nil, "create start p[1 2] on a,b",
		},
	} {
		changes, steps := plan.Make(tt.wanted, tt.known, plan.Options{})
		var got []string
		n := 0
		for _, c := range changes {
			text := strings.TrimSpace(c.Action+" "+c.Op) + " " + c.Process
			if c.Copies != nil {
				text += fmt.Sprint(c.Copies)
			}
			got = append(got, text+" on "+strings.Join(c.Hosts, ","))
			if c.Op != "" {
				n += len(c.Hosts) * max(len(c.Copies), 1)
			}
		}
		if strings.Join(got, " | ") != tt.want || n != len(steps) {
			t.Errorf("%s: %d steps for %d, \n got %s\nwant %s", tt.name, len(steps), n, strings.Join(got, " | "), tt.want)
		}
		for i := 1; i < len(steps); i++ {
			if steps[i].Op == process.Stop && steps[i-1].Op == process.Start {
				t.Errorf("%s: a start comes before a stop", tt.name)
			}
		}
	}
}

// TestBeside: only a start carries what the caller wants beside a copy, and hosts with one spec stay one request.
func TestBeside(t *testing.T) {
	s, id := spec(nil), process.ID{Namespace: "n", Name: "p"}
	changed := known("p", spec(func(f *v1.Spec) { f.AlarmID = 7 }), "running")
	changed.Agent, changed.Host = "C", "c"
	_, steps := plan.Make([]plan.Wanted{
		{Process: id, Agent: "A", Host: "a", Spec: s},
		{Process: id, Agent: "B", Host: "b", Spec: s},
		{Process: id, Agent: "C", Host: "c", Spec: s},
	}, []plan.Known{changed}, plan.Options{Beside: process.TakeOver})
	if len(steps) != 3 || steps[0].Spec != steps[1].Spec || steps[0].Spec.Beside != process.TakeOver ||
		s.Beside != "" || steps[2].Op != process.Update || steps[2].Spec.Beside != "" {
		t.Errorf("steps %+v, the spec of the file %q", steps, s.Beside)
	}
}

// TestPIDs: each copy takes over the pid that is named for it, also if the copies have one spec.
func TestPIDs(t *testing.T) {
	s := spec(nil)
	var wanted []plan.Wanted
	for n := range 3 {
		wanted = append(wanted, plan.Wanted{
			Process: process.ID{Namespace: "n", Name: process.CopyName("p", n+1)}, Agent: "A", Host: "a", Spec: s, Entry: "p",
		})
	}
	_, steps := plan.Make(wanted, nil, plan.Options{
		Beside: process.Adopt, PIDs: map[string]plan.PID{"p@1": {41, 7}, "p@2": {42, 8}},
	})
	var got []string
	for _, step := range steps {
		got = append(got, string(step.Spec.Beside))
	}
	if want := []string{"adopt:41:7", "adopt:42:8", "adopt"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestCompare: two states of a namespace differ in what is new, changed and removed on each host. Numbers of revisions
// are no difference.
func TestCompare(t *testing.T) {
	s, other := spec(nil), spec(func(f *v1.Spec) { f.Labels = map[string]string{"a": "b"} })
	at := func(name, host string, s *process.Spec) plan.Known {
		k := known(name, s, "running")
		k.Agent, k.Host = strings.ToUpper(host), host
		return k
	}
	from := []plan.Known{at("p", "a", s), at("p", "b", s), at("p", "c", s), at("gone", "a", s)}
	to := []plan.Known{
		at("p", "a", s.Numbered(7)), at("p", "b", other), at("p", "c", other), at("new", "a", s), at("gone", "b", s),
	}
	var got []string
	for _, c := range plan.Compare(from, to) {
		got = append(got, c.Process+" "+strings.Join(c.Hosts, ",")+" "+show([]v1.Change{c}))
	}
	want := []string{
		"gone a remove; removed", "gone b create; new", "new a create; new", "p a none; no change",
		"p b,c change; labels.a live <nil> b",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if back := plan.Compare(to, to); slices.ContainsFunc(back, func(c v1.Change) bool { return c.Action != v1.ActionNone }) {
		t.Errorf("a state differs from itself: %v", back)
	}
}

// TestUnfiled: an apply makes the file count where a process has its spec by another way, whether it runs or not.
func TestUnfiled(t *testing.T) {
	s := spec(nil)
	other := spec(func(f *v1.Spec) { f.Labels = map[string]string{"a": "b"} })
	var wanted []plan.Wanted
	var have []plan.Known
	for name, k := range map[string]plan.Known{
		"a": known("a", s, "running"), "b": known("b", s, "stopped"), "c": known("c", other, "running"),
		"d": known("d", s, "running"),
	} {
		k.Unfiled = name != "d"
		have = append(have, k)
		wanted = append(wanted, plan.Wanted{Process: k.Process, Agent: "A", Host: "a", Spec: s})
	}
	changes, steps := plan.Make(wanted, have, plan.Options{})
	var got []string
	for _, c := range changes {
		got = append(got, fmt.Sprint(c.Process, " ", c.Files, " ", c.Reason))
	}
	want := []string{
		"a true nothing to do; the file counts from now on", "b true stopped by a person", "c false ", "d false nothing to do",
	}
	if len(steps) != 1 || len(got) != len(want) {
		t.Fatalf("%d steps, %q", len(steps), got)
	}
	for i := range want {
		if i != 1 && got[i] != want[i] || !strings.HasPrefix(got[i], want[i][:6]) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}

// TestGone: an apply with prune ends the claim of the file to what somebody has removed.
func TestGone(t *testing.T) {
	s := spec(nil)
	gone := plan.Known{Process: process.ID{Namespace: "shop", Name: "gone"}, Agent: "A", Host: "a", Gone: true}
	back := plan.Known{Process: process.ID{Namespace: "shop", Name: "back"}, Agent: "A", Host: "a", Gone: true}
	wanted := []plan.Wanted{{Process: back.Process, Agent: "A", Host: "a", Spec: s}}
	for prune, want := range map[plan.Prune]string{
		plan.PruneNone: "[back create start false new]",
		plan.PruneOwn:  "[back create start false new gone remove  true was already removed]",
	} {
		changes, steps := plan.Make(wanted, []plan.Known{gone, back}, plan.Options{Prune: prune})
		var got []string
		for _, c := range changes {
			got = append(got, fmt.Sprint(c.Process, " ", c.Action, " ", c.Op, " ", c.Files, " ", c.Reason))
		}
		if fmt.Sprint(got) != want || len(steps) != 1 {
			t.Errorf("%q: got %q and %d steps, want %q", prune, got, len(steps), want)
		}
	}
}

// TestOnDemand: an apply registers what runs on demand, and starts it neither then nor later.
func TestOnDemand(t *testing.T) {
	spec := func(change func(*v1.Spec)) *process.Spec {
		f := v1.Spec{Run: "./job", OnDemand: true}
		if change != nil {
			change(&f)
		}
		s := processfile.Canonical(f)
		return &s
	}
	id := process.ID{Namespace: "shop", Name: "job"}
	wanted := []plan.Wanted{{Process: id, Agent: "a", Host: "web", Spec: spec(nil)}}
	before := spec(func(f *v1.Spec) { f.Run = "./former" })
	running := process.Status{Known: true, Hosted: true, State: process.StateRunning, Want: process.WantRunning}
	running.Instance.PID = 7
	failed := process.Status{
		Known: true, Hosted: true, State: process.StateFinished, Want: process.WantRunning,
		Cause: process.Cause{ID: process.CauseRunFailed}, Instance: process.Instance{PID: -1},
	}
	rest := process.Status{Known: true, State: process.StateStopped, Want: process.WantStopped, Instance: process.Instance{PID: -1}}
	for name, c := range map[string]struct {
		known          []plan.Known
		action, reason string
		op             process.Op
	}{
		"new":             {nil, v1.ActionCreate, "new: runs when somebody starts it", process.Register},
		"registered":      {[]plan.Known{{Spec: spec(nil), Status: rest}}, v1.ActionNone, "nothing to do", ""},
		"failed":          {[]plan.Known{{Spec: spec(nil), Status: failed}}, v1.ActionNone, "nothing to do", ""},
		"running":         {[]plan.Known{{Spec: spec(nil), Status: running}}, v1.ActionNone, "nothing to do", ""},
		"changed":         {[]plan.Known{{Spec: before, Status: rest}}, v1.ActionChange, "", process.Update},
		"changed, failed": {[]plan.Known{{Spec: before, Status: failed}}, v1.ActionChange, "", process.Update},
		"changed, and runs": {
			[]plan.Known{{Spec: before, Status: running}}, v1.ActionChange, "on_demand: takes effect at the next start", process.Update,
		},
	} {
		for i := range c.known {
			c.known[i].Process, c.known[i].Agent, c.known[i].Host = id, "a", "web"
		}
		changes, _ := plan.Make(wanted, c.known, plan.Options{})
		if len(changes) != 1 || changes[0].Action != c.action || changes[0].Reason != c.reason || changes[0].Op != string(c.op) {
			t.Errorf("%s: the plan is %+v", name, changes)
		}
	}
}
