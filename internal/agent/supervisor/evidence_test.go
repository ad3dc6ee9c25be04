package supervisor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// caused fails unless the cause is that one, with words that are the message too.
func caused(t *testing.T, s process.Status, want process.CauseID) process.Cause {
	t.Helper()
	if s.Cause.ID != want || want != "" && (s.Cause.Text == "" || s.Cause.Text != s.Message) {
		t.Errorf("the cause is %+v, message %q, want %s", s.Cause, s.Message, want)
	}
	return s.Cause
}

// TestCauseOfRest: why nobody expects a process to run is known over reboots, and gone with the next start.
func TestCauseOfRest(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for _, step := range []struct {
			op   process.Op
			want process.CauseID
		}{
			{process.Register, process.CauseNeverStarted},
			{process.Update, process.CauseNeverStarted},
			{process.Start, ""},
			{process.Stop, process.CauseStopped},
			{process.Update, process.CauseStopped},
			{process.Unhost, process.CauseUnhosted},
		} {
			var s *process.Spec
			if step.op != process.Stop && step.op != process.Unhost {
				s = r.spec("a")
			}
			r.do(step.op, "a", s)
			r.pass(time.Minute)
			for _, again := range []func(){
				func() {}, func() { r.kill(); r.begin() },
				func() { r.reboot(); r.begin() },
			} {
				if again(); step.want == "" {
					break
				}
				r.pass(time.Minute)
				caused(t, r.state("a", "stopped", false), step.want)
			}
			if step.want == "" {
				caused(t, r.state("a", "running", true), "")
			}
		}
	})
}

// TestCauseOfAFailedOperation: it stands until something else happens to the process.
func TestCauseOfAFailedOperation(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Register, "a", r.spec("a"))
		r.Script(line("start", "a"), operationtest.Script{Code: 127, Output: "/bin/sh: 1: start: not found"})
		r.submit(process.Start, "a", nil)
		r.pass(time.Minute)
		c := caused(t, r.state("a", "stopped", false), process.CauseCommandMissing)
		if !strings.Contains(c.Text, "not found") || len(c.Evidence) != 1 ||
			!strings.HasPrefix(c.Evidence[0], "start requested") {
			t.Errorf("cause %+v", c)
		}
		// What was asked wrongly, or was not needed, is no trouble of the process.
		r.submit(process.Retry, "a", nil)
		r.submit(process.Stop, "a", nil)
		r.pass(time.Minute)
		caused(t, r.state("a", "stopped", false), process.CauseCommandMissing)

		r.do(process.Start, "a", r.spec("a"))
		caused(t, r.state("a", "running", true), "")
		r.Script(line("reload", "a"), operationtest.Script{Code: 1, Output: "no"})
		r.submit(process.Reload, "a", nil)
		r.pass(time.Minute)
		caused(t, r.state("a", "running", true), process.CauseCommandFailed)
		r.kill()
		r.begin()
		r.pass(time.Minute)
		caused(t, r.state("a", "running", true), process.CauseCommandFailed)
		r.do(process.Restart, "a", r.spec("a"))
		caused(t, r.state("a", "running", true), "")
	})
}

// TestEvidenceOfAnEnd: how long it had run and what it wrote last is told with the cause.
func TestEvidenceOfAnEnd(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.Script(line("start", "a"), operationtest.Script{
			Takes: time.Second, Output: "1\n2\n3\n4\n5\n6\n", End: func(run string) { r.Spawn("a", file("a"), run) },
		})
		r.do(process.Start, "a", s)
		r.pass(30 * time.Second)
		r.Script(line("start", "a"), operationtest.Script{Takes: time.Hour})
		r.Exit(r.instance("a"), 3)
		r.pass(5 * time.Second)
		got, _, _ := r.Snapshot(id("a"))
		c := caused(t, got, process.CauseExitStatus)
		want := []string{"it had run for 35s", "its last output:\n2\n3\n4\n5\n6"}
		if d := cmp.Diff(want, c.Evidence); d != "" {
			t.Errorf("evidence (-want +got):\n%s", d)
		}
	})
}

// TestEvidenceOfAnUnseenEnd: nobody knows how long a process had run that ended while no agent ran.
func TestEvidenceOfAnUnseenEnd(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.own("a", v1.Restart{When: process.Never})
		r.do(process.Start, "a", s)
		r.kill()
		r.Kill(file("a"))
		r.pass(time.Minute)
		r.begin()
		r.pass(time.Minute)
		c := caused(t, r.state("a", "given-up", true), process.CauseUnseen)
		if !slices.Contains(c.Evidence, "it had run for at most 1m5s") {
			t.Errorf("evidence %q", c.Evidence)
		}
		if e := r.lastEvent(process.EventExited); e.RunTime != 0 {
			t.Errorf("it ended unseen after %d ms", e.RunTime)
		}
	})
}

// TestEvidenceOfAnEndByPolicy: the end of a process that drover ends by itself has the facts of any other end.
func TestEvidenceOfAnEndByPolicy(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Health = &v1.Health{Exec: "health a", Action: "restart"}
		r.Script(line("start", "a"), operationtest.Script{
			Takes: time.Second, Output: "connection lost\n", End: func(run string) { r.Spawn("a", file("a"), run) },
		})
		r.do(process.Start, "a", s)
		r.pass(30 * time.Second)
		r.Script(line("start", "a"), operationtest.Script{Takes: time.Hour})
		r.answers("a", r.instance("a"), true, sick())
		r.pass(5 * time.Second)
		got, _, _ := r.Snapshot(id("a"))
		want := []string{"it had run for 36s", "its last output:\nconnection lost"}
		if d := cmp.Diff(want, caused(t, got, process.CauseUnhealthy).Evidence); d != "" {
			t.Errorf("evidence (-want +got):\n%s", d)
		}
	})
}

// TestSuccessInTheStartCheck: the end of a process that has done its work before its check is over is told as any other
// end, over a reboot too.
func TestSuccessInTheStartCheck(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.copy("a", time.Minute)
		s.Restart = &v1.Restart{When: process.OnFailure, SuccessCodes: []v1.Status{"0"}}
		r.Script("exec ./a", operationtest.Script{Takes: 10 * time.Second, Output: "done\n"})
		r.do(process.Start, "a", s)
		c := caused(t, r.state("a", "finished", true), process.CauseFinished)
		if !strings.Contains(c.Text, "exit status 0") {
			t.Errorf("text %q", c.Text)
		}
		if d := cmp.Diff([]string{"it had run for 10s", "its last output:\ndone"}, c.Evidence); d != "" {
			t.Errorf("evidence (-want +got):\n%s", d)
		}
		want := []string{"started stopped→finished", "exited stopped→finished finished"}
		if d := cmp.Diff(want, r.sink.history(id("a"))); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		if e := r.lastEvent(process.EventExited); e.PID == 0 || e.Exit == nil || e.RunTime != 10_000 || e.Output != "done\n" {
			t.Errorf("the event is %+v", e)
		}
		r.reboot()
		r.begin()
		r.pass(time.Minute)
		if again := caused(t, r.state("a", "finished", true), process.CauseFinished); again.Text != c.Text {
			t.Errorf("after a reboot it says %q, want %q", again.Text, c.Text)
		}
		r.Script("exec ./a", operationtest.Script{Takes: time.Hour})
		r.do(process.Start, "a", s)
		r.Script("exec ./a", operationtest.Script{Takes: 10 * time.Second})
		was := r.state("a", "running", true).Instance
		r.do(process.Restart, "a", nil)
		r.state("a", "finished", true)
		if e := r.lastEvent(process.EventRestarted); strings.Contains(e.Cause.Text, "exit status 0") {
			t.Errorf("of the end of pid %d it says %q", was.PID, e.Cause.Text)
		}
	})
}

// TestTooFew: fewer instances than the spec expects are told while it runs.
func TestTooFew(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.ExpectedInstances = new(2)
		r.do(process.Start, "a", s)
		if c := caused(t, r.state("a", "running", true),
			process.CauseTooFew); c.Text != "1 of 2 instances are running" {
			t.Errorf("it says %q", c.Text)
		}
		r.Spawn("a", "", "")
		r.pass(31 * time.Second)
		caused(t, r.state("a", "running", true), "")
	})
}
