package drift_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/server/drift"
	"drover/internal/server/store"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// spec returns a spec of a revision.
func spec(revision int64, change func(f *v1.Spec)) *process.Spec {
	f := v1.Spec{Run: "./web", Environment: v1.Variables{"A": "topsecret"}}
	if change != nil {
		change(&f)
	}
	s := processfile.Canonical(f)
	return s.Numbered(revision)
}

// placed is a spec that somebody has placed.
func placed(through string, s *process.Spec) *store.Placement {
	return &store.Placement{Revision: s.Revision, Spec: s, Through: through, App: "shop", User: "anna", At: epoch}
}

// have is what a host has, in a state.
func have(s *process.Spec, state string) *store.Observed {
	o := &store.Observed{Spec: s, Status: process.Status{
		Known: true, Hosted: true, State: state, Want: process.WantRunning, Instance: process.Instance{PID: 7},
	}}
	if state == process.StateStopped {
		o.Status.Hosted, o.Status.Want, o.Status.Instance.PID = false, process.WantStopped, -1
		o.Status.Cause = process.Cause{Text: "stopped by ben", Since: epoch.UnixMilli()}
	}
	return o
}

// ran is what a host has whose process was started by a revision.
func ran(s *process.Spec, revision int64) *store.Observed {
	o := have(s, "running")
	o.Status.Instance.Revision = revision
	return o
}

func TestOf(t *testing.T) {
	first := spec(3, nil)
	second := spec(4, func(f *v1.Spec) {
		f.Environment, f.Labels = v1.Variables{"A": "other"}, map[string]string{"x": "y"}
	})
	file, latest := placed(v1.ThroughApply, first), placed(v1.ThroughApply, second)
	config := have(first, process.StateRunning)
	config.Status.Config = []process.Drift{{Path: "/etc/a", Want: "aa", Have: "bb", Since: epoch.UnixMilli()}}
	unread := have(first, process.StateRunning)
	unread.Status.Config = []process.Drift{{Path: "/etc/a", Want: "aa", Problem: "no such file", Since: epoch.UnixMilli()}}
	old := have(second, process.StateRunning)
	old.Status.Instance.Revision = 3
	unhosted := have(first, process.StateRunning)
	unhosted.Status.Hosted = false
	registered := have(first, process.StateStopped)
	registered.Status.Cause = process.Cause{}
	job := placed(v1.ThroughApply, spec(3, func(f *v1.Spec) { f.OnDemand = true }))
	removed := *file
	removed.Ended = &store.Revision{Through: v1.ThroughOperation, App: "ops", User: "ben", At: epoch}
	pruned := *file
	pruned.Ended = &store.Revision{Through: v1.ThroughApply, App: "ops", User: "ben", At: epoch}
	const again = "drover register shop/web --hosts 'web 1' --revision 3"
	const chosen = "drover register shop/web --hosts 'web 1' --selection"
	selected := &store.Selection{Spec: first.Unnumbered(), App: "shop", User: "anna", At: epoch}
	later := &store.Selection{Spec: second.Unnumbered(), App: "shop", User: "anna", At: epoch.Add(time.Hour)}
	for name, tt := range map[string]struct {
		c    drift.Case
		want []string // kind, field, want>have, who, mend
	}{
		"as the file says": {drift.Case{Placed: file, Filed: file, Have: have(first, process.StateRunning)}, nil},
		"of no file": {
			drift.Case{Placed: placed(v1.ThroughGSE, second), Have: have(first, process.StateStopped)}, nil,
		},
		"missed": {
			drift.Case{Placed: latest, Filed: latest, Have: have(first, "running")},
			[]string{
				"missed environment.A ***>*** shop/anna drover register shop/web --hosts 'web 1' --revision 4 --replace",
				"missed labels.x y><nil> shop/anna drover register shop/web --hosts 'web 1' --revision 4 --replace",
			},
		},
		"never arrived": {
			drift.Case{Placed: file, Filed: file}, []string{
				"missed  <nil>><nil> shop/anna " + again + " && drover start shop/web --hosts 'web 1' --take-over",
			},
		},
		"selected, and nothing came": {
			drift.Case{Selected: selected},
			[]string{"missed  <nil>><nil> shop/anna " + chosen + " && drover start shop/web --hosts 'web 1' --take-over"},
		},
		"selected, and of another caller": {
			drift.Case{Selected: selected, Placed: placed(v1.ThroughGSE, second), Have: have(second, "running")},
			[]string{
				"changed environment.A ***>*** shop/anna " + chosen + " --replace",
				"changed labels.x <nil>>y shop/anna " + chosen + " --replace",
			},
		},
		"selected, and as the selection says": {
			drift.Case{Selected: selected, Placed: latest, Filed: latest, Have: have(first, "running")}, nil,
		},
		"selected, and left out by a rollout": {
			drift.Case{Selected: later, Placed: file, Filed: file, Have: have(first, "running")},
			[]string{
				"missed environment.A ***>*** shop/anna " + chosen + " --replace: the host has revision 3, which the file " +
					"in force has replaced",
				"missed labels.x y><nil> shop/anna " + chosen + " --replace: the host has revision 3, which the file in " +
					"force has replaced",
			},
		},
		"selected, and ahead by a rollout": {
			drift.Case{Selected: selected, Placed: latest, Filed: latest, Have: have(second, "running")},
			[]string{
				"changed environment.A ***>*** shop/anna " + chosen + " --replace",
				"changed labels.x <nil>>y shop/anna " + chosen + " --replace",
			},
		},
		"an undo has brought back a change by hand": {
			drift.Case{Placed: placed(v1.ThroughUndo, second), Filed: file, Have: have(second, "running")},
			[]string{
				"changed environment.A ***>*** shop/anna " + again + " --replace: revision 4, an undo, has brought back a " +
					"change that no file made",
				"changed labels.x <nil>>y shop/anna " + again + " --replace: revision 4, an undo, has brought back a change " +
					"that no file made",
			},
		},
		"selected, and removed by a person": {
			drift.Case{Selected: selected, Filed: &removed},
			[]string{"person  <nil>><nil> ops/ben " + chosen + " && drover start shop/web --hosts 'web 1' --take-over"},
		},
		"removed by a person, and not selected any more": {drift.Case{Filed: &removed, Unwanted: true}, nil},
		"not there, and not selected any more":           {drift.Case{Placed: file, Filed: file, Unwanted: true}, nil},
		"selected, and dropped by a selection before": {
			drift.Case{Selected: selected, Filed: &pruned},
			[]string{"missed  <nil>><nil> shop/anna " + chosen + " && drover start shop/web --hosts 'web 1' --take-over"},
		},
		"changed, and runs with the spec of the file": {
			drift.Case{
				Placed: placed(v1.ThroughGSE, second), Filed: file, Have: old, Started: first,
				Live: []process.LiveField{{Path: "labels.x", Want: "y"}},
			},
			[]string{
				"changed environment.A ***>*** shop/anna " + again + " --replace",
				"changed labels.x <nil>>y shop/anna " + again + " --replace",
			},
		},
		"changed, and runs with a third spec": {
			drift.Case{
				Placed: placed(v1.ThroughGSE, second), Filed: file, Have: old,
				Started: spec(2, func(f *v1.Spec) { f.Run = "./web -v" }),
			},
			[]string{
				"changed environment.A ***>*** shop/anna " + again + " --replace",
				"changed labels.x <nil>>y shop/anna " + again + " --replace",
				"process run ./web>./web -v / " + again + " --replace && drover restart shop/web --hosts 'web 1'",
			},
		},
		"started with a spec that a restored database does not know": {
			drift.Case{Placed: file, Filed: file, Have: ran(first, 99)},
			[]string{"process  <nil>><nil> / drover restart shop/web --hosts 'web 1'"},
		},
		"the same, and the host says how they differ": {
			drift.Case{
				Placed: file, Filed: file, Have: ran(first, 99),
				Live: []process.LiveField{{Path: "run", Want: "./web", Have: "./web -v"}},
			},
			[]string{"process run ./web>./web -v / drover restart shop/web --hosts 'web 1'"},
		},
		"started by GSE, without a revision": {drift.Case{Placed: file, Filed: file, Have: ran(first, 0)}, nil},
		"changed by GSE": {
			drift.Case{Placed: placed(v1.ThroughGSE, second), Filed: file, Have: have(second, "running")},
			[]string{
				"changed environment.A ***>*** shop/anna " + again + " --replace",
				"changed labels.x <nil>>y shop/anna " + again + " --replace",
			},
		},
		"stopped by a person": {
			drift.Case{Placed: file, Filed: file, Have: have(first, process.StateStopped)},
			[]string{"person  <nil>><nil> / drover start shop/web --hosts 'web 1'"},
		},
		"never started": {
			drift.Case{Placed: file, Filed: file, Have: registered},
			[]string{"person  <nil>><nil> / drover start shop/web --hosts 'web 1' --take-over: registered and never started"},
		},
		"unhosted by a person": {
			drift.Case{Placed: file, Filed: file, Have: unhosted, Unhosted: &process.Event{
				At: epoch.UnixMilli(), Actor: process.Actor{App: "ops", User: "ben"},
			}},
			[]string{"person  <nil>><nil> ops/ben drover host shop/web --hosts 'web 1'"},
		},
		"unhosted by nobody knows whom": {
			drift.Case{Placed: file, Filed: file, Have: unhosted},
			[]string{"person  <nil>><nil> / drover host shop/web --hosts 'web 1'"},
		},
		"removed by a person": {
			drift.Case{Filed: &removed},
			[]string{"person  <nil>><nil> ops/ben " + again + " && drover start shop/web --hosts 'web 1' --take-over"},
		},
		"removed by a file": {drift.Case{Filed: &pruned}, nil},
		"removed by a file, and still there": {
			drift.Case{Filed: &pruned, RemovedBy: pruned.Ended, Have: have(second, "running")},
			[]string{
				"missed  <nil>><nil> ops/ben drover stop shop/web --hosts 'web 1' && drover unregister shop/web --hosts 'web 1'",
			},
		},
		"removed by a file, and brought by a selection": {
			drift.Case{Selected: selected, RemovedBy: pruned.Ended, Have: have(first, "running")}, nil,
		},
		"on demand": {drift.Case{Placed: job, Filed: job, Have: have(job.Spec, process.StateStopped)}, nil},
		"finished":  {drift.Case{Placed: file, Filed: file, Have: have(first, process.StateFinished)}, nil},
		"a configuration file": {
			drift.Case{Placed: file, Filed: file, Have: config}, []string{"config config_files./etc/a aa>bb / "},
		},
		"runs with an earlier spec": {
			drift.Case{
				Placed: latest, Filed: latest, Have: old, Started: first,
			},
			[]string{"process environment.A ***>*** / drover restart shop/web --hosts 'web 1'"},
		},
		"nobody could look": {
			drift.Case{Placed: file, Filed: file, Have: unread, Live: []process.LiveField{
				{Path: "environment_files", Problem: "drover could not look: it is gone"},
			}},
			[]string{
				"process environment_files <nil>><nil> / drover restart shop/web --hosts 'web 1': drover could not look: it is gone",
				"config config_files./etc/a aa><nil> / : drover could not look: no such file",
			},
		},
		"the running process": {
			drift.Case{Placed: file, Filed: file, Have: have(first, "running"), Live: []process.LiveField{
				{Path: "user", Want: "shop", Have: "uid 0"},
				{Path: "environment.B", Have: "set"},
			}},
			[]string{
				"process user shop>uid 0 / drover restart shop/web --hosts 'web 1'",
				"process environment.B <nil>>set / drover restart shop/web --hosts 'web 1'",
			},
		},
		"an old release": {
			drift.Case{Placed: file, Filed: file, Have: have(first, "running"), Live: []process.LiveField{
				{Path: "executable", Want: "/2/web", Have: "/1/web (removed from disk)"},
				{Path: "environment.B", Problem: "it gets a new value at the next start"},
			}},
			[]string{
				"process executable /2/web>/1/web (removed from disk) / drover restart shop/web --hosts 'web 1': " +
					"it runs an old release: its path leads to a new file now",
				"process environment.B <nil>><nil> / drover restart shop/web --hosts 'web 1': " +
					"it gets a new value at the next start",
			},
		},
		"a restart would fail": {
			drift.Case{Placed: latest, Filed: latest, Have: old, Started: first, Live: []process.LiveField{
				{Path: "user", Want: "shop", Have: "uid 0"},
				{Path: "executable", Want: "/web", Have: "removed from disk", Problem: "a restart fails"},
			}},
			[]string{
				"process environment.A ***>*** / ",
				"process user shop>uid 0 / ",
				"process executable /web>removed from disk / ",
			},
		},
	} {
		tt.c.Process, tt.c.Host = process.ID{Namespace: "shop", Name: "web"}, "web 1"
		var got []string
		for _, d := range drift.Of(tt.c) {
			if d.Namespace != "shop" || d.Name != "web" || d.Host != "web 1" || d.Text == "" {
				t.Errorf("%s: %+v", name, d)
			}
			one := fmt.Sprintf("%s %s %v>%v %s/%s %s", d.Kind, d.Field, d.Want, d.Have, d.App, d.User, d.Mend)
			if strings.HasPrefix(d.Text, "drover could not") || strings.Contains(d.Text, "replaced") ||
				strings.Contains(d.Text, "undo") || strings.Contains(d.Text, "never") || strings.Contains(d.Text, "new ") {
				one += ": " + d.Text
			}
			got = append(got, one)
			if strings.Contains(fmt.Sprint(d), "secret") || strings.Contains(fmt.Sprint(d), "other") {
				t.Errorf("%s: a value of the environment is shown: %+v", name, d)
			}
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tt.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, tt.want)
		}
	}
}
