package supervisor_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
	"drover/internal/spec"
)

// every returns a process that is run every so many seconds by a command that takes some time and leaves nothing
// behind.
func (r *rig) every(name string, cycle int, takes time.Duration, schedule v1.Schedule) *process.Spec {
	s := r.spec(name)
	schedule.Every = new(v1.Duration(time.Duration(cycle) * time.Second))
	s.Schedule, s.Stop = &schedule, ""
	s.Compat.StartCheckBegin = 1
	r.Script(line("start", name), operationtest.Script{Takes: takes, Output: "done"})
	return s
}

func TestRunsByTheTimetable(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.every("a", 60, 2*time.Second, v1.Schedule{})
		at := r.starts("a", operationtest.Script{Takes: 2 * time.Second, Output: "done"})
		r.do(process.Host, "a", s)
		r.state("a", "scheduled", true)
		r.pass(61 * time.Second)
		r.state("a", "running", true)
		r.pass(130 * time.Second)
		if want := []float64{60, 120, 180}; !slices.Equal(*at, want) {
			t.Errorf("run at %v, want %v", *at, want)
		}
		got := r.state("a", "scheduled", true)
		if len(got.Runs) != 3 || got.Runs[0].Exit == nil || got.Runs[0].Ended-got.Runs[0].Started != 2000 ||
			got.Runs[0].Output != "done" || got.Cause.ID != process.CauseWaitsForSchedule {
			t.Errorf("status %+v", got)
		}
		if got.NextRun == 0 || !strings.Contains(got.Message, "next run at ") || got.Restarts != 0 {
			t.Errorf("status %+v", got)
		}
		want := []string{"hosted stopped→scheduled"}
		for range 3 {
			want = append(want, "run-started starting→running", "run-ended running→scheduled finished")
		}
		if d := cmp.Diff(want, r.sink.history(id("a"))); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		// Twelve runs later only the last ten are remembered, over a restart of the agent too.
		r.pass(12 * time.Minute)
		r.kill()
		r.begin()
		if n := len(r.state("a", "scheduled", true).Runs); n != 10 {
			t.Errorf("%d runs are remembered", n)
		}
	})
}

func TestRunThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Host, "a", r.every("a", 60, time.Second, v1.Schedule{}))
		r.Script(line("start", "a"), operationtest.Script{Takes: time.Second, Code: 4, Output: "oh"})
		r.pass(70 * time.Second)
		got := r.state("a", "scheduled", true)
		if got.Cause.ID != process.CauseRunFailed || !strings.Contains(got.Message, "exit status 4") ||
			got.Runs[0].Exit.Code != 4 {
			t.Errorf("status %+v", got)
		}
		r.Script(line("start", "a"),
			operationtest.Script{Refuse: process.Errorf(process.Failed,
				"cannot enter /opt").Because(process.CauseNoDirectory)})
		r.pass(time.Minute)
		got = r.state("a", "scheduled", true)
		if got.Cause.ID != process.CauseNoDirectory || len(got.Runs) != 2 || got.Runs[0].Ended == 0 ||
			!strings.Contains(got.Runs[0].Output, "cannot enter /opt") {
			t.Errorf("status %+v", got)
		}
		if d := cmp.Diff("run-failed starting→scheduled no-such-directory", r.sink.history(id("a"))[3]); d != "" {
			t.Error(d)
		}
	})
}

// TestATimetableBeginsWhenItIsGiven: what was due before, or while nobody wanted it, is not made up for.
func TestATimetableBeginsWhenItIsGiven(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.every("a", 3600, time.Second, v1.Schedule{Missed: process.MissedRun})
		r.do(process.Host, "a", s)
		r.pass(90 * time.Minute)
		r.do(process.Unhost, "a", nil)
		r.pass(10 * time.Hour)
		r.do(process.Host, "a", s)
		r.pass(time.Minute)
		r.ran("start a")
		// Another table, of which many runs would have been due.
		r.pass(50 * time.Minute)
		r.do(process.Host, "a", r.every("a", 600, time.Second, v1.Schedule{Missed: process.MissedRun}))
		r.pass(time.Minute)
		r.ran("start a")
		// The same one again leaves it as it is, and so does an agent that is restarted all the time.
		for range 3 {
			r.pass(2 * time.Minute)
			r.do(process.Host, "a", r.every("a", 600, time.Second, v1.Schedule{Missed: process.MissedRun}))
			r.kill()
			r.begin()
		}
		r.pass(3*time.Minute + 10*time.Second)
		r.ran("start a", "start a")
		if told := r.sink.history(id("a")); slices.ContainsFunc(told, func(e string) bool {
			return strings.Contains(e, "missed")
		}) {
			t.Errorf("events %q", told)
		}
	})
}

func TestMissedRuns(t *testing.T) {
	for _, c := range []struct {
		missed process.Missed
		runs   int
		events []string
	}{
		{process.MissedSkip, 1, []string{"run-missed unknown→unknown run-missed"}},
		{process.MissedRun, 2, []string{"run-started starting→running", "run-ended running→scheduled finished"}},
	} {
		t.Run(string(c.missed), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.do(process.Host, "a", r.every("a", 3600, time.Second, v1.Schedule{Missed: c.missed}))
				r.pass(61 * time.Minute)
				r.kill()
				r.pass(3*time.Hour + 5*time.Minute)
				r.begin()
				r.pass(time.Minute)
				if n := len(r.Lines()); n != c.runs {
					t.Errorf("%d runs, want %d", n, c.runs)
				}
				got := r.sink.history(id("a"))
				for i, e := range got {
					if strings.HasPrefix(e, "run-missed") {
						got[i] = c.events[0] // whatever the state was
					}
				}
				if d := cmp.Diff(c.events, got); d != "" {
					t.Errorf("events (-want +got):\n%s", d)
				}
				r.pass(56 * time.Minute)
				if n := len(r.Lines()); n != c.runs+1 {
					t.Errorf("%d runs in the end, want %d", n, c.runs+1)
				}
			})
		})
	}
}

func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		overlap process.Overlap
		at      []float64
		told    string
	}{
		{process.OverlapSkip, []float64{60, 240}, "run-skipped"},
		{process.OverlapWait, []float64{60, 210}, "run-started"},
		{process.OverlapReplace, []float64{60, 120, 180, 240}, "taken-down"},
	} {
		t.Run(string(c.overlap), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				s := r.every("a", 60, 0, v1.Schedule{Overlap: c.overlap})
				at := r.starts("a", operationtest.Script{Takes: 150 * time.Second})
				r.do(process.Host, "a", s)
				r.pass(250 * time.Second)
				if !slices.Equal(*at, c.at) {
					t.Errorf("run at %v, want %v", *at, c.at)
				}
				told := r.sink.history(id("a"))
				if !slices.ContainsFunc(told, func(e string) bool { return strings.HasPrefix(e, c.told) }) {
					t.Errorf("events %q", told)
				}
				if got := r.state("a", "running", true); got.Runs[0].Ended != 0 || len(got.Runs) > 1 &&
					got.Runs[1].Ended == 0 {
					t.Errorf("runs %+v", got.Runs)
				}
			})
		})
	}
}

// TestRunThatCannotBeReplaced: the run that was to take the place of one that will not go is left out, and told of; it
// is begun neither when that one has ended after all, nor by the agent's next life.
func TestRunThatCannotBeReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.every("a", 60, 95*time.Second, v1.Schedule{Overlap: process.OverlapReplace})
		s.Stop = line("stop", "a")
		at := r.starts("a", operationtest.Script{Takes: 95 * time.Second})
		r.Script(line("stop", "a"), operationtest.Script{Code: 1})
		r.OnEndTree = func(operationtest.End) ([]int, error) { return []int{7}, nil }
		r.do(process.Host, "a", s)
		r.pass(130 * time.Second)
		got := r.state("a", "running", true)
		if got.Cause.ID != process.CauseStopFailed || !slices.Equal(*at, []float64{60}) {
			t.Errorf("run at %v, then %+v", *at, got.Cause)
		}
		if r.disk.history(id("a")).Owed {
			t.Error("the run is still owed")
		}
		told := r.sink.all(id("a"))
		if !slices.ContainsFunc(told, func(e process.Event) bool {
			return e.Kind == process.EventRunSkipped && strings.Contains(e.Cause.Text, "could not be ended")
		}) {
			t.Errorf("events %q", r.sink.history(id("a")))
		}
		r.pass(30 * time.Second) // the run has ended
		r.state("a", "scheduled", true)
		r.kill()
		r.begin()
		r.pass(10 * time.Second)
		r.state("a", "scheduled", true)
		r.pass(15 * time.Second)
		if !slices.Equal(*at, []float64{60, 180}) {
			t.Errorf("run at %v", *at)
		}
	})
}

// TestRunThatCouldNotStart: a run goes on if the one that would replace it could not start, and is replaced once that could.
func TestRunThatCouldNotStart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.kill()
		var there atomic.Bool
		r.preflight = func(process.ID, *process.Spec, []instance.Line, bool) error {
			if there.Load() {
				return nil
			}
			return process.Errorf(process.Failed, `run: "./job" was not found`)
		}
		r.begin()
		s := r.every("a", 60, 0, v1.Schedule{Overlap: process.OverlapReplace})
		at := r.starts("a", operationtest.Script{Takes: time.Hour})
		r.do(process.Host, "a", s)
		r.pass(130 * time.Second)
		got := r.state("a", "running", true)
		if want := `: preflight failed: run: "./job" was not found; pid `; !strings.Contains(got.Cause.Text, want) ||
			got.Cause.ID != process.CauseRunSkipped || !slices.Equal(*at, []float64{60}) {
			t.Errorf("run at %v, then %+v", *at, got.Cause)
		}
		there.Store(true)
		r.pass(60 * time.Second)
		if r.state("a", "running", true); !slices.Equal(*at, []float64{60, 180}) {
			t.Errorf("run at %v", *at)
		}
	})
}

// TestOwedRunThatWaitsForTheServer: the run that is held back until the server has spoken is the one that is owed, and
// no second one.
func TestOwedRunThatWaitsForTheServer(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.every("a", 60, 0, v1.Schedule{Overlap: process.OverlapReplace})
		s.Stop = line("stop", "a")
		at := r.starts("a", operationtest.Script{Takes: time.Hour})
		r.Script(line("stop", "a"), operationtest.Script{Takes: 5 * time.Second})
		r.do(process.Host, "a", s)
		r.pass(115 * time.Second)
		r.kill()
		r.confirmed = make(chan struct{})
		r.begin()
		r.pass(20 * time.Second)
		r.state("a", "starting", true)
		close(r.confirmed)
		r.pass(time.Second)
		if got := r.state("a", "running", true); strings.Contains(got.Message, "another run is due") || len(*at) != 2 {
			t.Errorf("run at %v, then %q", *at, got.Message)
		}
	})
}

// TestDueDuringAnOperation: who waits for the run before waits for an operation too.
func TestDueDuringAnOperation(t *testing.T) {
	for overlap, runs := range map[process.Overlap]int{process.OverlapSkip: 0, process.OverlapWait: 1} {
		t.Run(string(overlap), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				s := r.every("a", 60, time.Second, v1.Schedule{Overlap: overlap})
				r.do(process.Host, "a", s)
				r.Script(line("reload", "a"), operationtest.Script{Takes: 20 * time.Second})
				r.pass(50 * time.Second)
				item := r.submit(process.Reload, "a", s)
				r.pass(40 * time.Second)
				if _, ended := r.sink.outcome(item); !ended {
					t.Fatal("the operation is under way")
				}
				n := 0
				for _, l := range r.Lines() {
					if l == "start a" {
						n++
					}
				}
				if n != runs {
					t.Errorf("%d runs, want %d", n, runs)
				}
			})
		})
	}
}

// TestStartOfAPeriodicProcess: the run of op 0 is noted with its end, whether that is inside the check time or later.
func TestStartOfAPeriodicProcess(t *testing.T) {
	for takes, want := range map[time.Duration][]string{
		500 * time.Millisecond: {"started stopped→scheduled", "run-ended stopped→scheduled finished"},
		5 * time.Second:        {"started stopped→running", "run-ended running→scheduled finished"},
	} {
		bubble(t, func(t *testing.T, r *rig) {
			r.do(process.Start, "a", r.every("a", 3600, takes, v1.Schedule{}))
			r.pass(10 * time.Second)
			got := r.state("a", "scheduled", true)
			if len(got.Runs) != 1 || got.Runs[0].Ended == 0 || got.Runs[0].Exit == nil || got.Runs[0].PID == 0 ||
				got.Runs[0].Output != "done" {
				t.Errorf("%v: runs %+v", takes, got.Runs)
			}
			if d := cmp.Diff(want, r.sink.history(id("a"))); d != "" {
				t.Errorf("%v: events (-want +got):\n%s", takes, d)
			}
		})
	}
}

// TestRunThatLeavesADaemon: it is one run, from the start of the command to the end of what it has left.
func TestRunThatLeavesADaemon(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.every("a", 60, 0, v1.Schedule{})
		r.do(process.Host, "a", s)
		r.Script(line("start", "a"), operationtest.Script{Takes: time.Second, End: func(run string) {
			who := r.Spawn("a", file("a"), run)
			time.AfterFunc(20*time.Second, func() { r.Exit(who, 6) })
		}})
		r.pass(65 * time.Second)
		if got := r.state("a", "running", true); got.Cause.ID != "" || len(got.Runs) != 1 || got.Runs[0].Ended != 0 ||
			!strings.Contains(got.Message, "goes on as pid") {
			t.Errorf("status %+v", got)
		}
		if len(r.Runs()) != 1 {
			t.Error("its run is not kept")
		}
		r.pass(20 * time.Second)
		if got := r.state("a", "scheduled", true); len(got.Runs) != 1 || got.Runs[0].Exit.Code != 6 {
			t.Errorf("status %+v", got)
		}
		want := []string{
			"hosted stopped→scheduled", "run-started starting→running",
			"run-failed running→scheduled run-failed",
		}
		if d := cmp.Diff(want, r.sink.history(id("a"))); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}

// TestAgentDiesAtEachWriteOfARun: whatever the agent had written when it died, the run that was due is begun once, and
// comes to an end that is known or told to be unknown.
func TestAgentDiesAtEachWriteOfARun(t *testing.T) {
	for _, overlap := range []process.Overlap{process.OverlapSkip, process.OverlapReplace} {
		for at := range 100 {
			ended := false
			bubble(t, func(t *testing.T, r *rig) {
				s := r.every("a", 60, 0, v1.Schedule{Overlap: overlap})
				r.Script(line("start", "a"), operationtest.Script{Takes: 10 * time.Second})
				if overlap == process.OverlapReplace {
					r.Script(line("start", "a"), operationtest.Script{Takes: time.Hour})
				}
				r.do(process.Host, "a", s)
				wait := 61 * time.Second
				if overlap == process.OverlapReplace {
					r.pass(90 * time.Second)
					wait = 31 * time.Second
				}
				before := len(r.Lines())
				r.handle.dieAt(at)
				r.pass(wait)
				if ended = !r.handle.dead(); ended {
					return
				}
				r.Crash()
				r.stop()
				r.begin()
				r.pass(30 * time.Second)
				if n := len(r.Lines()) - before; n != 1 {
					t.Errorf("%s: killed at write %d: %d runs, want 1", overlap, at, n)
				}
				r.pass(31 * time.Second)
				if n := len(r.Lines()) - before; n != 2 {
					t.Errorf("%s: killed at write %d: %d runs after the next time, want 2", overlap, at, n)
				}
				r.pass(20 * time.Second)
				s1, _, _ := r.Snapshot(id("a"))
				noted := map[int]bool{}
				for i, run := range s1.Runs {
					if run.Ended == 0 && (i > 0 || s1.State != "running") || noted[run.PID] {
						t.Errorf("%s: killed at write %d: runs %+v", overlap, at, s1.Runs)
					}
					noted[run.PID] = true
				}
				if n := len(r.Lines()); len(noted) != n {
					t.Errorf("%s: killed at write %d: %d runs, and noted are %+v", overlap, at, n, s1.Runs)
				}
			})
			if ended {
				if at < 4 {
					t.Fatalf("%s: only %d writes", overlap, at)
				}
				break
			}
		}
	}
}

// TestOtherKind: the runs of a process that is resident from now on do not show any more, and its timetable is gone.
func TestOtherKind(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Host, "a", r.every("a", 60, time.Second, v1.Schedule{}))
		r.pass(190 * time.Second)
		r.do(process.Start, "a", r.spec("a"))
		r.pass(3 * time.Minute)
		got := r.state("a", "running", true)
		if len(got.Runs) > 0 || got.NextRun != 0 {
			t.Errorf("status %+v", got)
		}
		if h := r.disk.history(id("a")); len(h.Runs) > 0 || !h.Due.IsZero() {
			t.Errorf("on disk: %+v", h)
		}
	})
}

func TestRetryByKind(t *testing.T) {
	for kind, text := range map[process.Kind]string{
		process.Resident:  "success: it is being started",
		process.Periodic:  "success: its timetable continues",
		process.SingleRun: "success: drover does not start it: the single run has ended, and only a start begins another one",
	} {
		bubble(t, func(t *testing.T, r *rig) {
			s := r.spec("a")
			if kind == process.Periodic {
				s = r.every("a", 3600, time.Second, v1.Schedule{})
			}
			s.SetKind(kind, "", 3600)
			r.do(process.Start, "a", s)
			r.Script(line("start", "a"), operationtest.Script{Code: 1})
			r.Kill(file("a"))
			r.pass(10 * time.Minute)
			item := r.submit(process.Retry, "a", nil)
			r.pass(time.Second)
			r.expect(item, process.None, text)
		})
	}
}

// TestTimeLimit: a run ends at its limit, which counts through restarts of the agent; a new limit counts at once.
func TestTimeLimit(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.every("a", 3600, 30*time.Minute, v1.Schedule{})
		s.TimeLimit = lasting(10 * time.Minute)
		r.do(process.Host, "a", s)
		r.pass(time.Hour + 5*time.Minute)
		r.state("a", "running", true)
		r.kill()
		r.begin()
		r.pass(4 * time.Minute)
		r.state("a", "running", true)
		r.pass(2 * time.Minute)
		got := r.state("a", "scheduled", true)
		if len(got.Runs) != 1 || got.Runs[0].Ended-got.Runs[0].Started < 600_000 ||
			got.Runs[0].Ended-got.Runs[0].Started > 620_000 || !strings.Contains(got.Message, "10m0s, its time limit") {
			t.Errorf("status %+v", got)
		}
		r.pass(55 * time.Minute)
		r.state("a", "running", true)
		shorter := *s
		shorter.TimeLimit = new(spec.Duration(1000 * int64(time.Millisecond)))
		r.do(process.Update, "a", &shorter)
		r.pass(10 * time.Second)
		r.state("a", "scheduled", true)
	})
}

// TestARunIsAfterOthers: one whose processes are not up is skipped, and one waits while such a process is being started.
func TestARunIsAfterOthers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.every("a", 60, time.Second, v1.Schedule{Overlap: process.OverlapReplace})
		s.After = map[string]string{"b": string(process.AfterReady)}
		at := r.starts("a", operationtest.Script{Takes: 90 * time.Second})
		r.do(process.Start, "b", r.spec("b"))
		r.do(process.Stop, "b", nil)
		r.do(process.Host, "a", s)
		began := time.Now()
		r.pass(time.Until(began.Add(65 * time.Second)))
		if got := r.state("a", "scheduled", true); got.Cause.ID != process.CauseRunSkipped ||
			!strings.Contains(got.Cause.Text, " was skipped: ns/b is not ready (stopped); next run at ") {
			t.Errorf("cause %+v", got.Cause)
		}
		if h := r.disk.history(id("a")); h.Owed || len(*at) > 0 {
			t.Errorf("run at %v, %+v", *at, h)
		}
		r.Script(line("start", "b"), operationtest.Script{Takes: 10 * time.Second, End: func(run string) {
			r.Spawn("b", file("b"), run)
		}})
		r.pass(time.Until(began.Add(115 * time.Second)))
		r.ordered(process.Start, map[string]*process.Spec{"b": nil}, "b")
		r.pass(25 * time.Second)
		r.state("a", "running", true)
		r.do(process.Stop, "b", nil)
		r.pass(time.Until(began.Add(185 * time.Second))) // it would replace the run that is under way
		r.state("a", "running", true)
		if len(*at) != 1 {
			t.Errorf("run at %v", *at)
		}
	})
}
