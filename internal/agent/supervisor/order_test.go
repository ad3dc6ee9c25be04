package supervisor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/agent/supervisor"
	"drover/internal/process"
)

// ordered has operations accepted that wait for each other, and returns their items.
func (r *rig) ordered(op process.Op, specs map[string]*process.Spec, names ...string) (items map[string]string) {
	r.t.Helper()
	items = map[string]string{}
	var entries []record.Entry
	for _, name := range names {
		e := r.accept(op, name, specs[name])
		e.Ordered = true
		entries, items[name] = append(entries, e), e.Item
	}
	r.Submit(entries)
	return items
}

// chain are the specs of a, b after a, and c after b; each is alive at once.
func (r *rig) chain() map[string]*process.Spec {
	specs := map[string]*process.Spec{}
	for _, name := range []string{"a", "b", "c"} {
		specs[name] = r.spec(name)
		specs[name].Ready = &v1.Ready{Alive: lasting(0), Within: lasting(20 * time.Second)}
	}
	specs["b"].After = map[string]string{"a": string(process.AfterReady)}
	specs["c"].After = map[string]string{"ns/b": string(process.AfterStarted)}
	return specs
}

// TestStartsWaitInOrder: what is given at once starts in order and stops in reverse, however long each one takes.
func TestStartsWaitInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		specs := r.chain()
		slow := operationtest.Script{Takes: 40 * time.Second, End: func(run string) { r.Spawn("a", file("a"), run) }}
		r.Script(line("start", "a"), slow)
		items := r.ordered(process.Start, specs, "c", "b", "a")
		r.pass(30 * time.Second)
		r.ran("start a")
		for _, name := range []string{"b", "c"} {
			if s, _, ok := r.Snapshot(id(name)); ok && s.Known {
				t.Errorf("%s is %+v", name, s)
			}
		}
		r.pass(time.Minute)
		for _, item := range items {
			if o, ok := r.sink.outcome(item); !ok || o.Fault != process.None {
				t.Errorf("%+v, %v", o, ok)
			}
		}
		r.ran("start a", "start b", "start c")
		r.ordered(process.Stop, nil, "a", "b", "c")
		r.pass(time.Minute)
		r.ran("start a", "start b", "start c", "stop c", "stop b", "stop a")
	})
}

// TestOrderInVain: a start waits as long as its readiness may take, and then says for what; nothing is started.
func TestOrderInVain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		specs := r.chain()
		r.do(process.Register, "a", specs["a"])
		r.do(process.Register, "b", specs["b"])
		item := r.ordered(process.Start, nil, "b")["b"]
		r.pass(10 * time.Second)
		if s, _, _ := r.Snapshot(id("b")); s.Cause.ID != process.CauseWaitsForOthers ||
			!strings.Contains(s.Cause.Text, "ns/a is not ready (stopped)") {
			t.Errorf("while it waits: %+v", s.Cause)
		}
		r.pass(11 * time.Second)
		r.expect(item, process.Failed, "not begun after a wait of 20s: ns/a is not ready (stopped)")
		if slices.Contains(r.Lines(), "start b") {
			t.Error("it was started")
		}
		if s := r.state("a", "stopped", false); !slices.Contains(s.Cause.Evidence, "these processes are after it: ns/b") {
			t.Errorf("what waits for it: %+v", s.Cause)
		}
		// Operations of GSE and JOB do not wait.
		r.do(process.Start, "b", nil)
	})
}

// TestCrasherIsNeverReady: nobody after a process that crashes again and again takes one of its short runs for
// readiness.
func TestCrasherIsNeverReady(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		crasher, b := r.own("a", evenly(5*time.Second, time.Minute)), r.spec("b")
		crasher.Ready = &v1.Ready{Alive: lasting(time.Second)}
		b.Ready = &v1.Ready{Alive: lasting(0), Within: lasting(40 * time.Second)}
		b.After = map[string]string{"a": string(process.AfterReady)}
		r.do(process.Start, "a", crasher)
		r.do(process.Register, "b", b)
		var crashes atomic.Bool
		crashes.Store(true)
		r.Script(line("start", "a"), operationtest.Script{End: func(run string) {
			r.Spawn("a", file("a"), run)
			if crashes.Load() {
				time.AfterFunc(300*time.Millisecond, func() { r.Kill(file("a")) })
			}
		}})
		r.Kill(file("a"))
		r.pass(time.Second)
		item := r.ordered(process.Start, nil, "b")["b"]
		r.pass(30 * time.Second)
		if lines := r.Lines(); slices.Contains(lines, "start b") || len(lines) < 4 {
			t.Errorf("ran %q", lines)
		}
		crashes.Store(false)
		r.pass(30 * time.Second)
		r.expect(item, process.None, "success")
	})
}

// TestOrderIsLeft: a stop does not wait behind a start that waits, and a kill neither.
func TestOrderIsLeft(t *testing.T) {
	for _, op := range []process.Op{process.Stop, process.Kill} {
		bubble(t, func(t *testing.T, r *rig) {
			specs := r.chain()
			r.do(process.Register, "a", specs["a"])
			r.do(process.Register, "b", specs["b"])
			item := r.ordered(process.Start, nil, "b")["b"]
			r.pass(time.Second)
			r.submit(op, "b", nil)
			r.pass(time.Second)
			if o, ok := r.sink.outcome(item); !ok || o.Fault != process.Failed {
				t.Errorf("%s: %+v, %v", op, o, ok)
			}
		})
	}
}

// TestOrderOfACircle: processes that wait for each other, by two files, are told so at once; their stops go on.
func TestOrderOfACircle(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		specs := r.chain()
		specs["a"].After = map[string]string{"c": string(process.AfterReady)}
		for name, spec := range specs {
			r.do(process.Register, name, spec)
		}
		item := r.ordered(process.Start, nil, "a")["a"]
		synctest.Wait()
		r.expect(item, process.Failed, "not begun: the processes wait for each other: ns/a → ns/c → ns/b → ns/a")
		for name := range specs {
			specs[name].Compat = nil // it is hosted, although its start fails
		}
		r.ordered(process.Start, specs, "a", "b", "c")
		r.pass(time.Minute) // it would not end if they woke each other
		before, _, _ := r.Snapshot(id("b"))
		if before.Cause.Text !=
			"it waits: ns/a is not ready (backoff); they wait for each other: ns/b → ns/a → ns/c → ns/b" {
			t.Errorf("it waits because of %q", before.Cause.Text)
		}
		r.pass(time.Minute)
		if s, _, _ := r.Snapshot(id("b")); s.Cause.Since != before.Cause.Since {
			t.Error("each look begins the wait anew")
		}
		r.do(process.Start, "a", nil) // which ends the wait of the others
		r.pass(time.Minute)
		for name := range specs {
			r.state(name, "running", true)
		}
		for _, item := range r.ordered(process.Stop, nil, "a", "b", "c") {
			r.pass(5 * time.Second)
			r.pass(5 * time.Second)
			if o, ok := r.sink.outcome(item); !ok || o.Fault != process.None {
				t.Errorf("%+v, %v", o, ok)
			}
		}
	})
}

// TestOrderAfterAReboot: what a failed process holds back is only what is after it, and why says so; it goes on when
// the other is up. A relaunch after a crash does not wait.
func TestOrderAfterAReboot(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		specs := r.chain()
		specs["c"].After = nil
		for _, name := range []string{"a", "b", "c"} {
			r.do(process.Start, name, specs[name])
		}
		r.reboot()
		r.Kill(file("c"))
		fails := operationtest.Script{Takes: time.Second, Code: 1}
		r.Script(line("start", "a"), fails)
		r.begin()
		r.pass(2 * time.Second)
		r.state("c", "running", true)
		r.pass(10 * time.Minute)
		s := r.state("b", "backoff", true)
		if s.Cause.ID != process.CauseWaitsForOthers || !strings.Contains(s.Message, "ns/a is not ready") {
			t.Errorf("%+v", s)
		}
		// The agent's own restart changes nothing.
		r.kill()
		r.begin()
		r.pass(time.Minute)
		r.state("b", "backoff", true)
		r.spec("a")
		r.do(process.Start, "a", nil)
		r.pass(5 * time.Second)
		r.state("b", "running", true)

		r.do(process.Stop, "a", nil)
		r.Kill(file("b"))
		r.pass(5 * time.Second)
		r.state("b", "running", true)
	})
}

// TestHostStartsWhatIsDown: a host starts a process of a process file at once, whatever follows its ends, but after the
// processes that it is after. It does not begin a single run.
func TestHostStartsWhatIsDown(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*process.Spec)
		runs   bool
	}{
		"when never": {func(s *process.Spec) { s.Compat, s.Restart = nil, &v1.Restart{When: process.Never} }, true},
		"a delay":    {func(s *process.Spec) { s.Restart = new(evenly(10*time.Minute, time.Minute)) }, true},
		"once":       {func(s *process.Spec) { s.Once = true }, false},
		"after":      {func(s *process.Spec) { s.After = map[string]string{"db": string(process.AfterStarted)} }, false},
	} {
		bubble(t, func(t *testing.T, r *rig) {
			r.do(process.Register, "db", r.spec("db"))
			s := r.copy("web", 0)
			c.change(s)
			r.do(process.Register, "web", s)
			r.do(process.Host, "web", nil)
			r.pass(5 * time.Second)
			if !c.runs && name == "once" {
				if s := r.state("web", "stopped", false); s.Want != process.WantStopped {
					t.Errorf("%s: %+v", name, s)
				}
				return
			}
			if !c.runs {
				if s := r.state("web", "backoff", true); s.Cause.ID != process.CauseWaitsForOthers {
					t.Errorf("%s: %+v", name, s.Cause)
				}
				r.do(process.Start, "db", nil)
				r.pass(time.Second)
			}
			if s := r.state("web", "running", true); s.Restarts != 0 {
				t.Errorf("%s: the start counts as a restart: %+v", name, s)
			}
			if e := r.lastEvent(process.EventStarted); e.PID == 0 || (e.Cause.Text != "") != (name == "after") {
				t.Errorf("%s: %+v", name, e)
			}
		})
	}
}

// TestShutdown: what runs ends in the reverse of its order by its own stop, nothing starts meanwhile, and what is wanted
// stays: the next agent starts all of it in order, as no relaunch, also what is never relaunched.
func TestShutdown(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		specs := r.chain()
		specs["b"].Compat, specs["b"].Restart = nil, &v1.Restart{When: process.Never}
		r.ordered(process.Start, specs, "a", "b", "c")
		r.pass(time.Minute)
		want := []string{"start a", "start b", "start c", "stop c", "stop b", "stop a"}
		var told []string
		r.Shutdown(t.Context(), func(e supervisor.Ended) {
			told = append(told, fmt.Sprint(e.ID, " ", e.Left, " ", e.Text))
		})
		r.ran(want...)
		for i, name := range []string{"c", "b", "a"} {
			if len(told) != 3 || !strings.HasPrefix(told[i], "ns/"+name+" false pid ") ||
				!strings.HasSuffix(told[i], " was ended because the host shuts down") {
				t.Errorf("told %q", told)
			}
		}
		late := r.submit(process.Start, "a", specs["a"])
		r.pass(10 * time.Minute)
		r.ran(want...)
		for _, name := range []string{"a", "b", "c"} {
			if rec, _ := r.disk.record(id(name)); !rec.Hosted || rec.Want != process.WantRunning || rec.GivenUp {
				t.Errorf("%s is stored as %+v", name, rec)
			}
			if s, _, _ := r.Snapshot(id(name)); s.Cause.ID != process.CauseRebooted || s.State == "running" {
				t.Errorf("%s is %+v", name, s)
			}
			got := r.sink.history(id(name))
			if last := got[len(got)-1]; last != "taken-down stopping→starting host-rebooted" {
				t.Errorf("the events of %s are %q", name, got)
			}
		}
		if o, ok := r.sink.outcome(late); ok {
			t.Errorf("the late start has ended: %+v", o)
		}

		// The host has not gone down after all.
		r.kill()
		r.begin()
		r.pass(time.Minute)
		r.ran(append(want, "start a", "start b", "start c")...)
		for _, name := range []string{"a", "b", "c"} {
			if s := r.state(name, "running", true); s.Restarts != 0 {
				t.Errorf("%s was relaunched: %+v", name, s)
			}
		}
	})
}

// TestShutdownLeaves: what does not end in time, or at all, is named, and what it is after still gets its turn.
func TestShutdownLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		specs := r.chain()
		r.ordered(process.Start, specs, "a", "b", "c")
		r.pass(time.Minute)
		r.Script(line("stop", "b"), operationtest.Script{Takes: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		left := map[string]string{}
		r.Shutdown(ctx, func(e supervisor.Ended) {
			if e.Left {
				left[e.ID.Name] = e.Text
			}
		})
		if d := cmp.Diff(map[string]string{
			"a": "the time was over before its turn", "b": "it has not ended in time",
		}, left); d != "" {
			t.Errorf("left (-want +got):\n%s", d)
		}
	})
}

// TestShutdownDuringAStart: a start and a relaunch under way do not leave anything running.
func TestShutdownDuringAStart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		r.Script(line("start", "a"), operationtest.Script{
			Takes: 5 * time.Second, End: func(run string) { r.Spawn("a", file("a"), run) },
		})
		r.Kill(file("a")) // the relaunch takes 5 s
		r.submit(process.Start, "b", r.spec("b"))
		r.pass(500 * time.Millisecond)
		r.Shutdown(t.Context(), func(e supervisor.Ended) {
			if e.Left {
				t.Errorf("left: %+v", e)
			}
		})
		r.pass(10 * time.Minute)
		for _, name := range []string{"a", "b"} {
			if s, _, _ := r.Snapshot(id(name)); s.State == "running" || !s.Hosted {
				t.Errorf("%s is %+v", name, s)
			}
		}
	})
}
