package supervisor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// copy is the spec of a foreground process that is ready after some time.
func (r *rig) copy(name string, ready time.Duration) *process.Spec {
	r.Script("exec ./"+name, operationtest.Script{Takes: 1000 * time.Hour})
	return &process.Spec{
		Run: "./" + name, Directory: "/opt", User: "root",
		Ready:    &v1.Ready{Alive: lasting(ready), Within: lasting(20 * time.Second)},
		Timeouts: &v1.Timeouts{Stop: lasting(time.Second)}, StopSignals: []v1.StopSignal{{Signal: "KILL"}},
	}
}

// TestAfterCopies: a process that is after another one waits for all copies of it, but not for one that somebody has
// stopped. The stop of all goes backwards.
func TestAfterCopies(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		specs := map[string]*process.Spec{
			"api@1": r.copy("api@1", time.Second), "api@2": r.copy("api@2", 5*time.Second), "web": r.spec("web"),
		}
		specs["web"].After = map[string]string{"api": string(process.AfterReady)}
		r.ordered(process.Start, specs, "web", "api@1", "api@2")
		r.pass(3 * time.Second)
		if lines := r.Lines(); len(lines) != 2 || slices.Contains(lines, "start web") {
			t.Errorf("%q", lines)
		}
		r.pass(10 * time.Second)
		if lines := r.Lines(); len(lines) != 3 || lines[2] != "start web" {
			t.Errorf("%q", lines)
		}
		for _, name := range []string{"api@1", "api@2", "web"} {
			r.state(name, "running", true)
		}
		r.do(process.Stop, "api@2", nil)
		if s := r.state("api@2", "stopped", false); !strings.Contains(strings.Join(s.Cause.Evidence, " "), "after it: ns/web") {
			t.Errorf("what is after a copy: %+v", s.Cause)
		}
		r.do(process.Stop, "web", nil)
		r.ordered(process.Start, nil, "web")
		r.pass(10 * time.Second)
		r.state("web", "running", true) // api@1 does the work
		r.ordered(process.Stop, nil, "api@1", "web")
		r.pass(time.Minute)
		lines := r.Lines()
		if last := lines[len(lines)-1]; last != "stop web" {
			t.Errorf("the last command is %q", last)
		}
		r.state("api@1", "stopped", false)
		waits := r.ordered(process.Start, nil, "web")["web"]
		r.pass(30 * time.Second)
		r.expect(waits, process.Failed, "not begun after a wait of 30s: ns/api@1 is not ready (stopped), ns/api@2 is not ready (stopped)")
	})
}

// TestCopiesWaitForEachOther: a process that is after a copy of a process that is after it waits in a circle.
func TestCopiesWaitForEachOther(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		specs := map[string]*process.Spec{"api@1": r.copy("api@1", 0), "api@2": r.copy("api@2", 0), "db": r.spec("db")}
		specs["db"].After = map[string]string{"api": string(process.AfterReady)}
		specs["api@2"].After = map[string]string{"db": string(process.AfterReady)}
		for _, name := range []string{"api@1", "api@2", "db"} {
			r.do(process.Register, name, specs[name])
		}
		r.do(process.Start, "api@1", nil)
		item := r.ordered(process.Start, nil, "api@2", "db")["api@2"]
		r.pass(time.Second)
		r.expect(item, process.Failed, "not begun: the processes wait for each other: ns/api@2 → ns/db → ns/api@2"+
			"; drover starts it as soon as its `after` is met")
	})
}

// TestRemovalsComeFirst: what starts waits for what is being removed from its namespace, which may be the same process
// under another name. It does not wait for another stop.
func TestRemovalsComeFirst(t *testing.T) {
	for _, removes := range []bool{true, false} {
		bubble(t, func(t *testing.T, r *rig) {
			first := r.copy("old", 0)
			first.Stop, first.Timeouts = "stop it", &v1.Timeouts{Stop: lasting(6 * time.Second)}
			r.Script("stop it", operationtest.Script{Takes: 5 * time.Second})
			r.do(process.Start, "old", first)
			stop, start := r.accept(process.Stop, "old", nil), r.accept(process.Start, "fresh", r.copy("fresh", 0))
			stop.Ordered, start.Ordered, stop.Removes = true, true, removes
			r.Submit([]record.Entry{stop, start})
			r.pass(3 * time.Second)
			if removes {
				r.ran("exec ./old", "stop it")
			} else {
				r.state("fresh", "running", true)
			}
			r.pass(10 * time.Second)
			r.state("fresh", "running", true)
			r.state("old", "stopped", false)
			next := r.accept(process.Start, "next", r.copy("next", 0)) // the removal is over
			next.Ordered = true
			r.Submit([]record.Entry{next})
			r.pass(time.Second)
			r.state("next", "running", true)
		})
	}
}

// TestRemovalLooksFirst: a process runs on if one could not start that makes use of its removal, such as its copies.
func TestRemovalLooksFirst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.kill()
		r.preflight = func(id process.ID, s *process.Spec, _ []instance.Line, _ bool) error {
			if s.RuntimeDirectory != "" || id.Name != "api@1" {
				return nil
			}
			return process.Errorf(process.Failed, "cannot enter directory /srv").Because(process.CauseNoDirectory)
		}
		r.begin()
		r.do(process.Start, "api", r.copy("api", 0))
		r.state("api", "running", true)
		copied := r.copy("api@1", 0)
		copied.RuntimeDirectory = "api"
		stop, start := r.accept(process.Stop, "api", nil), r.accept(process.Start, "api@1", copied)
		stop.Ordered, start.Ordered, stop.Removes = true, true, true
		r.Submit([]record.Entry{stop, start})
		r.pass(10 * time.Second)
		want := "preflight failed: ns/api@1, which starts after its end: cannot enter directory /srv; nothing was done: pid "
		if o, ok := r.sink.outcome(stop.Item); !ok || !strings.HasPrefix(o.Text, want) || o.Fault != process.Failed {
			t.Errorf("%+v, want %s", o, want)
		}
		r.state("api", "running", true)
		for _, e := range r.sink.all(id("api")) {
			if e.Kind == process.EventStopped {
				t.Errorf("it was stopped: %+v", e)
			}
		}
	})
}

// TestCopiesReplace: a start waits for the stop of what it replaces: of the process by its copies, and of the copies by
// the process. Each needs the same port.
func TestCopiesReplace(t *testing.T) {
	for _, names := range [][2]string{{"api", "api@1"}, {"api@2", "api"}} {
		bubble(t, func(t *testing.T, r *rig) {
			old, fresh := names[0], names[1]
			first := r.copy(old, 0)
			first.Stop, first.Timeouts = "stop it", &v1.Timeouts{Stop: lasting(6 * time.Second)}
			r.Script("stop it", operationtest.Script{Takes: 5 * time.Second})
			r.do(process.Start, old, first)
			stop, start := r.accept(process.Stop, old, nil), r.accept(process.Start, fresh, r.copy(fresh, 0))
			stop.Ordered, start.Ordered = true, true
			r.Submit([]record.Entry{stop, start})
			r.pass(8 * time.Second)
			r.ran("exec ./"+old, "stop it")
			r.pass(10 * time.Second)
			r.ran("exec ./"+old, "stop it", "exec ./"+fresh)
			r.state(fresh, "running", true)
			r.state(old, "stopped", false)
			if o, ok := r.sink.outcome(start.Item); !ok || o.Fault != process.None {
				t.Errorf("%+v", o)
			}
		})
	}
}
