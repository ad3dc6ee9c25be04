package operation_test

import (
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// everyMinute makes a spec periodic.
func everyMinute(s *process.Spec) {
	s.Schedule = &v1.Schedule{Cron: "* * * * *"}
}

// job makes the spec periodic and its start command a script.
func job(script operationtest.Script) func(w *world, s *process.Spec) {
	return func(w *world, s *process.Spec) {
		everyMinute(s)
		w.Script("start", script)
	}
}

// TestPeriodicStart: a run lasts as long as the start command, or what it leaves behind.
func TestPeriodicStart(t *testing.T) {
	ran := []string{"start"}
	for _, c := range []scenario{
		{
			name: "a run that outlasts the check", set: job(operationtest.Script{Takes: 10 * time.Minute}),
			text: "success: the run is under way", took: 5 * time.Second, ran: ran, hosted: true,
		},
		{
			name: "a run that ends well within it", set: job(operationtest.Script{Takes: 2 * time.Second}),
			text: "success: the run is over", took: 2 * time.Second, ran: ran, hosted: true,
		},
		{
			name:  "a run that fails within it",
			set:   job(operationtest.Script{Takes: 2 * time.Second, Code: 3, Output: "no space"}),
			fault: process.CheckFailed, took: 2 * time.Second, ran: ran,
			text: "start process (nginx) failed, for post-check status not alive: the run ended with exit status 3; output: [no space]",
		},
		{
			name: "already under way", set: job(operationtest.Script{}), running: true, alive: true,
			fault: process.AlreadyRunning, text: "no need to start the process(nginx) that is already running, pid 100",
		},
		{
			name: "no command", set: func(_ *world, s *process.Spec) { everyMinute(s); s.Start = "" },
			fault: process.Failed, text: "start_cmd is empty",
		},
	} {
		c.op = process.Start
		t.Run(c.name, c.runPeriodic)
	}
}

// runPeriodic is run for operations whose instance is not the one in the pid file.
func (c scenario) runPeriodic(t *testing.T) {
	t.Helper()
	bubble(t, func(t *testing.T, w *world) {
		subject := c.known.subject()
		if c.running {
			id := w.Spawn("nginx", pidFile, "earlier")
			subject.Runtime = record.Runtime{Process: &id, PIDFile: pidFile, Run: "earlier"}
		}
		sent := spec()
		c.set(w, sent)
		began := time.Now()
		r, err := w.operator.Operate(t.Context(), entry(c.op, sent), subject)
		if err != nil {
			t.Fatal(err)
		}
		if r.Outcome.Fault == process.None && r.Runtime.Process == nil && time.Since(began) >= 5*time.Second {
			t.Error("the run is under way, and is not the instance")
		}
		r.Runtime.Process = nil // it is no process of a pid file
		c.check(t, w, r, time.Since(began))
	})
}

func TestPeriodicRunLeavesAProcessBehind(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		sent := spec()
		everyMinute(sent)
		r, err := w.operator.Operate(t.Context(), entry(process.Start, sent), unknown.subject())
		if err != nil {
			t.Fatal(err)
		}
		id, _ := w.Alive(pidFile)
		if r.Outcome.Text != "success: the run is under way" || r.Runtime.Process == nil || *r.Runtime.Process != id {
			t.Errorf("%+v, runs as %v: want the process that the command has left, %v", r.Outcome, r.Runtime.Process,
				id)
		}
	})
}

// TestPeriodicStop: a stop ends a run with its tree and takes the timetable away, also between two runs.
func TestPeriodicStop(t *testing.T) {
	for _, op := range []process.Op{process.Stop, process.Kill} {
		for _, under := range []bool{true, false} {
			bubble(t, func(t *testing.T, w *world) {
				subject := hosted.subject()
				everyMinute(&subject.Record.Spec)
				if under {
					w.Script("start", operationtest.Script{Takes: time.Hour})
					after, err := w.operator.Relaunch(t.Context(), *subject.Record, record.Runtime{})
					rt := after.Runtime
					if err != nil || rt.Process == nil {
						t.Fatalf("the run could not be begun: %v, %+v", err, rt)
					}
					subject.Runtime = rt
					w.Spawn("child", "", rt.Run)
				}
				sent := subject.Record.Spec
				sent.Start, sent.Stop, sent.Reload, sent.Compat = "", "", nil, &v1.Compat{}
				r, err := w.operator.Operate(t.Context(), entry(op, &sent), subject)
				if err != nil {
					t.Fatal(err)
				}
				if r.Outcome.Fault != process.None || r.Change.Put == nil || r.Change.Put.Hosted ||
					r.Runtime.Process != nil {
					t.Errorf("%s, run under way %v: %+v, %+v", op, under, r.Outcome, r.Change.Put)
				}
				if left := w.Living(); len(left) != 0 {
					t.Errorf("%s: %v are left of the run", op, left)
				}
			})
		}
	}
}

func TestStopOfAnIdleProcessThatIsNotHostedIsNotNeeded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		sent := spec()
		everyMinute(sent)
		r, err := w.operator.Operate(t.Context(), entry(process.Stop, sent), unknown.subject())
		if err != nil || r.Outcome.Fault != process.NotRunning {
			t.Errorf("%+v, %v: want %s", r.Outcome, err, process.NotRunning)
		}
	})
}

// TestARunIsBegunOnceOverDeathsOfTheAgent: a run that was let go is found again, and not begun a second time.
func TestARunIsBegunOnceOverDeathsOfTheAgent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		subject := hosted.subject()
		everyMinute(&subject.Record.Spec)
		w.Script("start", operationtest.Script{Takes: time.Hour})
		first, err := w.operator.Relaunch(t.Context(), *subject.Record, record.Runtime{})
		if err != nil {
			t.Fatal(err)
		}
		w.Crash()
		w.Revive()
		if !w.operator.Relaunching(nginx()) {
			t.Fatal("nothing is known of the run")
		}
		again, err := w.operator.ResumeRelaunch(t.Context(), *subject.Record, record.Runtime{})
		if err != nil || again.Runtime.Process == nil || *again.Runtime.Process != *first.Runtime.Process ||
			len(w.Lines()) != 1 {
			t.Errorf("%v, %+v, ran %v: want the run that was under way", err, again, w.Lines())
		}
	})
}

func TestRetryStartsAHostedProcessAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		subject := hosted.subject()
		r, err := w.operator.Operate(t.Context(), entry(process.Retry, nil), subject)
		if err != nil || !r.Now || !r.Restore || r.Change.Put == nil || r.Change.Put.GivenUp {
			t.Errorf("%+v, %v: want the budget restored and a start now", r, err)
		}
		r, err = w.operator.Operate(t.Context(), record.Entry{Item: "item-2", Process: nginx(), Op: process.Retry},
			registered.subject())
		if err != nil || r.Outcome.Fault != process.Failed {
			t.Errorf("%+v, %v: want a failure for a process that is not hosted", r.Outcome, err)
		}
	})
}

// TestTakeDownEndsTheTree: the stop command has its time, and what it leaves is killed.
func TestTakeDownEndsTheTree(t *testing.T) {
	for _, c := range []struct {
		name   string
		script operationtest.Script
		note   string
	}{
		{name: "a stop that works", script: operationtest.Script{Takes: time.Second, End: nil}},
		{name: "a stop that fails", script: operationtest.Script{Code: 1, Output: "no"}},
		{name: "a stop that hangs", script: operationtest.Script{Takes: time.Hour}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				subject := hosted.subject()
				id := w.Spawn("nginx", pidFile, "earlier")
				w.Spawn("child", "", "earlier")
				w.Script("stop", c.script)
				rt := record.Runtime{Process: &id, PIDFile: pidFile, Run: "earlier"}
				after, err := w.operator.TakeDown(t.Context(), *subject.Record, rt)
				if err != nil || after.Runtime.Process != nil || len(w.Living()) != 0 {
					t.Errorf("%v, %+v: %v live, want none", err, after, w.Living())
				}
				if p, _ := w.GetProgress("takedown-" + process.Hash(nginx())); len(p.Steps) != 0 {
					t.Errorf("progress is left: %+v", p)
				}
			})
		})
	}
}
