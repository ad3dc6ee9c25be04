package operation_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/operation"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// leaver is the spec of a process whose commands each leave a process behind; left are the living ones of a command.
func leaver(w *world) (s *process.Spec, left func(line string) int) {
	s = foreground()
	s.BeforeStart, s.BeforeStop = &v1.Before{Run: "before start"}, &v1.BeforeStop{Run: "before stop"}
	s.Stop, s.Reload = "stop", &v1.Reload{Command: "reload"}
	w.Script(runLine, operationtest.Script{Takes: time.Hour})
	all := map[string][]instance.Identity{}
	for _, line := range []string{"before start", "before stop", "stop", "reload"} {
		w.Script(line, operationtest.Script{Takes: time.Second, End: func(run string) {
			all[line] = append(all[line], w.Spawn("left", "", run))
		}})
	}
	return s, func(line string) int {
		return len(slices.DeleteFunc(slices.Clone(all[line]), func(id instance.Identity) bool {
			alive, _ := w.Glance(id)
			return !alive
		}))
	}
}

// TestLeftByCommands: what the commands around a process leave in the background lives as long as the process, and ends
// with it.
func TestLeftByCommands(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s, left := leaver(w)
		r, _ := w.operate(t, process.Start, s, record.Runtime{})
		r, _ = w.operate(t, process.Reload, s, r.Runtime)
		if r.Outcome.Fault != process.None || left("before start") != 1 || left("reload") != 1 || len(r.Runtime.LeftoverRuns) != 2 {
			t.Errorf("before the stop: %+v, runs %q", r.Outcome, r.Runtime.LeftoverRuns)
		}
		r, _ = w.operate(t, process.Restart, s, r.Runtime)
		if r.Outcome.Fault != process.None || left("before start") != 1 || left("reload")+left("stop")+left("before stop") != 0 ||
			len(r.Runtime.LeftoverRuns) != 1 {
			t.Errorf("after a restart: %+v, runs %q", r.Outcome, r.Runtime.LeftoverRuns)
		}
		r, _ = w.operate(t, process.Stop, s, r.Runtime)
		if len(r.Runtime.LeftoverRuns)+left("before start")+left("stop")+left("before stop") != 0 || len(r.Ended) == 0 {
			t.Errorf("after a stop: %+v, runs %q", r.Outcome, r.Runtime.LeftoverRuns)
		}
	})
}

// TestLeftByCommandsBeforeARelaunch: a relaunch ends what the before_start of the last start has left, and not what
// that of its own start leaves.
func TestLeftByCommandsBeforeARelaunch(t *testing.T) {
	for _, kind := range []process.Kind{process.Resident, process.Periodic} {
		bubble(t, func(t *testing.T, w *world) {
			s, left := leaver(w)
			s.SetKind(kind, "", 0)
			rec, rt := record.Record{ID: nginx(), Spec: *s, Hosted: true}, record.Runtime{}
			for n := range 3 {
				r, err := w.operator.Relaunch(t.Context(), rec, rt)
				if err != nil || r.Runtime.Process == nil || left("before start") != 1 || len(r.Runtime.LeftoverRuns) != 1 {
					t.Fatalf("relaunch %d: %v, %d processes of %q", n, err, left("before start"), r.Runtime.LeftoverRuns)
				}
				w.operator.Relaunched(nginx())
				rt = r.Runtime
				rt.Ended, rt.Process = rt.Process, nil
				if err := w.Signal(*rt.Ended, 9); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestLeftByCommandsOfAnEarlierAgent: what before_start has left for an agent that died in the start ends with the
// process, too.
func TestLeftByCommandsOfAnEarlierAgent(t *testing.T) {
	for n, over := 1, false; !over; n++ {
		bubble(t, func(t *testing.T, w *world) {
			s, left := leaver(w)
			e := entry(process.Start, s)
			e.Ordered = true
			r, killed := w.life(t, e, operation.Subject{}, n)
			if over = !killed; killed {
				r, _ = w.life(t, e, operation.Subject{}, 1000)
			}
			r, _ = w.operate(t, process.Stop, s, r.Runtime)
			if r.Outcome.Fault != process.None || left("before start") != 0 {
				t.Errorf("killed at write %d: %+v, %d processes", n, r.Outcome, left("before start"))
			}
		})
	}
}

// TestLeftByAFailedStart: a start that fails ends what its before_start has left. With stop_scope: process, nothing is
// ended besides the process.
func TestLeftByAFailedStart(t *testing.T) {
	for line, script := range map[string]operationtest.Script{
		runLine: {Code: 3}, "before start": {Code: 3},
	} {
		bubble(t, func(t *testing.T, w *world) {
			s, left := leaver(w)
			var helper instance.Identity
			script.End = func(run string) { helper = w.Spawn("left", "", run) }
			w.Script(line, script)
			r, _ := w.operate(t, process.Start, s, record.Runtime{})
			if alive, _ := w.Glance(helper); r.Outcome.Fault == process.None || alive || left("before start") != 0 ||
				len(r.Runtime.LeftoverRuns) != 0 {
				t.Errorf("%s fails: %+v, runs %q; its process lives: %v", line, r.Outcome, r.Runtime.LeftoverRuns, alive)
			}
		})
	}
	bubble(t, func(t *testing.T, w *world) {
		s, left := leaver(w)
		s.StopScope = process.ScopeProcess
		r, _ := w.operate(t, process.Start, s, record.Runtime{})
		r, _ = w.operate(t, process.Stop, s, r.Runtime)
		if r.Outcome.Fault != process.None || left("before start") != 1 || len(r.Runtime.LeftoverRuns) != 0 {
			t.Errorf("stop_scope: process: %+v, runs %q", r.Outcome, r.Runtime.LeftoverRuns)
		}
	})
}

// TestBeforeStop: the signals follow a before_stop at once, whether it ends the process, fails or does neither.
func TestBeforeStop(t *testing.T) {
	for name, c := range map[string]struct {
		script operationtest.Script
		ends   bool
		took   time.Duration
		text   string
	}{
		"it does nothing": {text: "success"},
		"it ends the process": {
			script: operationtest.Script{Takes: time.Second}, ends: true, took: time.Second, text: "success",
		},
		"it fails": {script: operationtest.Script{Code: 127}, text: "success: before_stop failed: exit status 127; "},
		"it takes a long time": {
			script: operationtest.Script{Takes: time.Hour}, took: time.Minute,
			text: "success: before_stop failed: timed out after 60 s; ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				s := foreground()
				s.BeforeStop = &v1.BeforeStop{Run: "before stop"}
				w.Script(runLine, operationtest.Script{Takes: 2 * time.Hour})
				started, _ := w.operate(t, process.Start, s, record.Runtime{})
				if c.ends {
					c.script.End = func(string) { w.Exit(*started.Runtime.Process, 0) }
				}
				w.Script("before stop", c.script)
				r, took := w.operate(t, process.Stop, s, started.Runtime)
				if r.Outcome.Fault != process.None || !strings.HasPrefix(r.Outcome.Text, c.text) || took != c.took ||
					r.Runtime.Process != nil {
					t.Errorf("%+v after %s", r.Outcome, took)
				}
			})
		})
	}
}
