package supervisor_test

import (
	"testing"
	"time"

	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// answered fails unless a query has ended by now.
func (r *rig) answered(item, when string) process.Status {
	r.t.Helper()
	o, ok := r.sink.outcome(item)
	if !ok || o.Fault != process.None || o.Status == nil {
		r.t.Fatalf("%s: outcome %+v (%v)", when, o, ok)
	}
	return *o.Status
}

// TestQueryDoesNotWaitForPolicy: neither for a relaunch nor for the end of a process that has used too much.
func TestQueryDoesNotWaitForPolicy(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		r.Script(line("stop", "a"), operationtest.Script{Takes: 20 * time.Second, End: func(string) {
			r.Kill(file("a"))
		}})
		r.Exceeded(id("a"), r.instance("a"), overMem())
		r.pass(time.Second)
		r.state("a", "stopping", true)
		item := r.submit(process.Query, "a", s)
		r.pass(time.Second)
		if got := r.answered(item, "while it is ended"); !got.Hosted || got.Instance.PID != r.instance("a").PID {
			t.Errorf("status %+v", got)
		}
		r.Script(line("start", "a"), operationtest.Script{Takes: 20 * time.Second, End: func(run string) {
			r.Spawn("a", file("a"), run)
		}})
		r.pass(25 * time.Second)
		r.state("a", "starting", true)
		item = r.submit(process.Query, "a", s)
		r.pass(time.Second)
		if got := r.answered(item, "while it is relaunched"); !got.Hosted || got.Instance.PID != -1 {
			t.Errorf("status %+v", got)
		}
		// What was asked for before it comes before it.
		r.submit(process.Reload, "a", s)
		item = r.submit(process.Query, "a", s)
		r.pass(time.Second)
		if _, ended := r.sink.outcome(item); ended {
			t.Error("a query has overtaken an operation")
		}
		r.pass(time.Minute)
		r.answered(item, "after the operation")
	})
}

// TestQueryWaitsForOperations: it shows what they have done.
func TestQueryWaitsForOperations(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.submit(process.Start, "a", s)
		item := r.submit(process.Query, "a", s)
		r.pass(500 * time.Millisecond)
		if _, ended := r.sink.outcome(item); ended {
			t.Error("a query has overtaken a command")
		}
		r.pass(time.Second)
		if got := r.answered(item, "beside the check of the start"); got.Hosted ||
			got.Instance.PID != r.instance("a").PID {
			t.Errorf("status %+v", got)
		}
		item = r.submit(process.Query, "a", s)
		r.pass(0)
		r.answered(item, "beside the check of the start")
		r.pass(time.Minute)
		r.Script("restart a", operationtest.Script{Takes: 30 * time.Second})
		s.Compat.RestartCommand = "restart a"
		r.submit(process.Restart, "a", s)
		item = r.submit(process.Query, "a", s)
		r.pass(4900 * time.Millisecond)
		if _, ended := r.sink.outcome(item); ended {
			t.Error("a query has overtaken a command")
		}
		r.pass(200 * time.Millisecond)
		if got := r.answered(item, "although the command hangs"); !got.Hosted ||
			got.Instance.PID != r.instance("a").PID {
			t.Errorf("status %+v", got)
		}
	})
}

// TestQueryBehindAStop: it waits until the process has ended, as long as that takes no longer than a query waits.
func TestQueryBehindAStop(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Compat.StopCheck, s.Stop = 3600, ""
		for _, tt := range []struct {
			takes, answered time.Duration
			pid             int
		}{{3 * time.Second, 3 * time.Second, -1}, {time.Minute, 5 * time.Second, 0}} {
			r.do(process.Start, "a", s)
			who := r.instance("a")
			if tt.pid == 0 {
				tt.pid = who.PID
			}
			r.OnTERM(who, func() { time.AfterFunc(tt.takes, func() { r.Exit(who, 0) }) })
			r.submit(process.Stop, "a", s)
			item := r.submit(process.Query, "a", s)
			r.pass(tt.answered - 100*time.Millisecond)
			if _, ended := r.sink.outcome(item); ended {
				t.Errorf("a query has overtaken a stop that takes %v", tt.takes)
			}
			r.pass(500 * time.Millisecond)
			if got := r.answered(item, "behind the stop"); got.Instance.PID != tt.pid {
				t.Errorf("behind a stop that takes %v: pid %d, want %d", tt.takes, got.Instance.PID, tt.pid)
			}
			r.pass(tt.takes)
		}
	})
}
