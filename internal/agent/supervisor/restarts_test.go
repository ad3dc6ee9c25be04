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

// TestAnEndByPolicyIsOver: whenever the agent dies in the middle of an end by policy, the agents that come after leave
// the instance alone that was started then.
func TestAnEndByPolicyIsOver(t *testing.T) {
	for writes := range 25 {
		bubble(t, func(t *testing.T, r *rig) {
			r.do(process.Start, "a", r.spec("a"))
			r.handle.dieAt(writes)
			r.Exceeded(id("a"), r.instance("a"), overMem())
			r.pass(20 * time.Second)
			r.kill()
			r.begin()
			r.pass(time.Minute)
			r.state("a", "running", true)
			who := r.instance("a")
			r.kill()
			r.begin()
			r.pass(time.Minute)
			if r.instance("a") != who {
				t.Errorf("death at write %d: the next instance was ended too; commands %q", writes, r.Lines())
			}
		})
	}
}

// TestStartedByOthersWhileItIsEnded: the instance that was to be ended is gone, and the other one is found as any other
// is.
func TestStartedByOthersWhileItIsEnded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		r.Script(line("stop", "a"), operationtest.Script{Takes: time.Second, End: func(string) {
			r.Kill(file("a"))
			r.Spawn("a", file("a"), "")
		}})
		r.Exceeded(id("a"), r.instance("a"), overMem())
		r.pass(2 * time.Minute)
		r.state("a", "running", true)
		want := []string{
			"limit-exceeded running→stopping memory-limit", "taken-down stopping→starting memory-limit",
			"found starting→running started-outside",
		}
		if d := cmp.Diff(want, r.sink.history(id("a"))[1:]); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		r.ran("start a", "stop a")
	})
}

// TestAnswersToOtherCommands: what a process said to one health command is neither shown nor counted for another one.
func TestAnswersToOtherCommands(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Health = &v1.Health{Exec: "health a"}
		r.do(process.Start, "a", s)
		r.answers("a", r.instance("a"), true, sick())
		r.pass(0)
		contact := *s
		contact.Compat.Contact = "somebody else"
		r.do(process.Update, "a", &contact)
		r.state("a", "unhealthy", true)
		other := *s
		other.Health = &v1.Health{Exec: "other health"}
		r.do(process.Update, "a", &other)
		r.state("a", "running", true)
		if asked, _ := r.parts.subject(id("a")); asked.Health != nil {
			t.Errorf("another command goes on with what was said to the one before: %+v", asked.Health)
		}
		r.answers("a", r.instance("a"), true, sick())
		r.pass(0)
		r.state("a", "unhealthy", true)
		none := *s
		none.Health = &v1.Health{Exec: ""}
		r.do(process.Update, "a", &none)
		r.state("a", "running", true)
	})
}

// TestCauseOverRestarts: a start of the agent neither changes why a process is given up nor adds to it. That the host
// was rebooted is not the reason.
func TestCauseOverRestarts(t *testing.T) {
	for _, rebooted := range []bool{false, true} {
		bubble(t, func(t *testing.T, r *rig) {
			s := r.spec("a")
			s.Compat.StartRetries = 1
			r.Script(line("start", "a"), operationtest.Script{Takes: time.Second, Code: 1, Output: "no"})
			r.do(process.Host, "a", s)
			r.pass(10 * time.Minute)
			before := r.state("a", "given-up", true)
			if rebooted {
				r.reboot()
				r.begin()
				r.pass(time.Minute)
				before.Message = r.state("a", "given-up", true).Message
			}
			for range 3 {
				r.kill()
				r.begin()
				r.pass(time.Minute)
			}
			after := r.state("a", "given-up", true)
			if after.Cause.ID != process.CauseCommandFailed || after.Cause.ID != before.Cause.ID ||
				after.Message != before.Message {
				t.Errorf("rebooted %v: %q\n%s\nwant %q\n%s", rebooted, after.Cause.ID, after.Message, before.Cause.ID,
					before.Message)
			}
		})
	}
}

// TestACommandThatGoesToTheBackground: its end says what it has left running.
func TestACommandThatGoesToTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.copy("web", 0)
		r.Script("exec ./web", operationtest.Script{Takes: time.Second, Begin: func(run string) { r.Spawn("child", "", run) }})
		r.ordered(process.Start, map[string]*process.Spec{"web": s}, "web")
		r.pass(1500 * time.Millisecond)
		for _, e := range r.sink.all(id("web")) {
			if e.Kind == process.EventExited && strings.Contains(e.Cause.Text, "exit status 0 at ") &&
				strings.Contains(e.Cause.Text, "; it has left pid ") {
				return
			}
		}
		t.Errorf("events %+v", r.sink.all(id("web")))
	})
}

// TestNobodyRequestsARelaunch: the cause says who has requested the start that has failed, until the relaunch begins.
func TestNobodyRequestsARelaunch(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.copy("web", time.Second)
		r.Script("exec ./web", operationtest.Script{Takes: 100 * time.Millisecond, Code: 3})
		s.BeforeStart, s.Restart = &v1.Before{Run: "prepare"}, new(evenly(10*time.Second, time.Minute))
		r.Script("prepare", operationtest.Script{Takes: 5 * time.Second})
		r.ordered(process.Start, map[string]*process.Spec{"web": s}, "web")
		r.pass(8 * time.Second)
		if s := r.state("web", "backoff", true); !slices.Contains(s.Cause.Evidence, "start requested") {
			t.Errorf("cause %+v", s.Cause)
		}
		r.pass(10 * time.Second)
		if s := r.state("web", "starting", true); len(s.Cause.Evidence) > 0 {
			t.Errorf("cause %+v", s.Cause)
		}
	})
}
