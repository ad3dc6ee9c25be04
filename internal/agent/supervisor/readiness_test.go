package supervisor_test

import (
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/notify"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// notifier is a daemon that says when it is ready, within 30 s. runs are its runs.
func notifier(r *rig, stop bool) (s *process.Spec, runs *[]string) {
	s, runs = r.own("a", evenly(10*time.Second, time.Minute)), new([]string)
	s.Restart.GiveUpAfter = new(v1.Count(2))
	if s.Ready = (&v1.Ready{Notify: true}); stop {
		s.Ready.OnTimeout = "stop"
	}
	r.Script(line("start", "a"), operationtest.Script{Takes: time.Second, End: func(run string) {
		*runs = append(*runs, run)
		r.Spawn("a", file("a"), run)
		if len(*runs) == 1 {
			r.says(run, func(said *notify.State) { said.Ready = true })
		}
	}})
	return s, runs
}

// says lets a run say something, and everything happen that it brings.
func (r *rig) says(run string, say func(*notify.State)) { r.Say(run, say) }

func last(runs *[]string) string { return (*runs)[len(*runs)-1] }

// relaunched starts the notifier, which says that it is ready, and kills it. Its next run has said nothing.
func (r *rig) relaunched(stop bool) *[]string {
	r.t.Helper()
	s, runs := notifier(r, stop)
	r.do(process.Start, "a", s)
	r.state("a", "running", true)
	r.Kill(file("a"))
	r.pass(2 * time.Second)
	return runs
}

// TestARelaunchIsNotReadyUntilItSaysSo: neither before nor after an end of the agent.
func TestARelaunchIsNotReadyUntilItSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		runs := r.relaunched(false)
		if s := r.state("a", "not-ready", true); s.Cause.ID != process.CauseNotReady || s.Cause.Since == 0 ||
			s.Instance.PID < 1 {
			t.Errorf("status %+v", s)
		}
		r.kill()
		r.begin()
		r.state("a", "not-ready", true)
		r.pass(40 * time.Second)
		if s := r.state("a", "not-ready", true); !strings.Contains(s.Cause.Text, "was not ready in time") {
			t.Errorf("cause %+v", s.Cause)
		}
		r.says(last(runs), func(said *notify.State) { said.Ready = true })
		r.pass(0)
		if s := r.state("a", "running", true); s.Cause.ID == process.CauseNotReady {
			t.Errorf("cause %+v of what is ready", s.Cause)
		}
		if all := strings.Join(r.sink.history(id("a")), ", "); !strings.HasSuffix(all,
			", ready running→running") || !strings.HasPrefix(all, "not-ready ") {
			t.Errorf("events %s", all)
		}
		// What was ready once stays ready with the next agent.
		r.kill()
		r.begin()
		r.state("a", "running", true)
		// Only from there on the run counts as one that lasts.
		r.pass(50 * time.Second)
		r.Kill(file("a"))
		r.pass(0)
		if s := r.state("a", "starting", true); !strings.Contains(s.Message, "start 2 of 2") {
			t.Errorf("message %q", s.Message)
		}
	})
}

// TestAProcessThatIsNeverReadyIsGivenUp: with on_timeout stop each run without readiness counts as one that did not
// last.
func TestAProcessThatIsNeverReadyIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		runs := r.relaunched(true)
		r.says(last(runs), func(said *notify.State) {
			said.Extended, said.ExtendedAt = r.Clock()+50*time.Second, r.Clock()
		})
		r.pass(40 * time.Second)
		r.state("a", "not-ready", true) // it has asked for more time
		r.pass(5 * time.Minute)
		if s := r.state("a", "given-up", true); len(*runs) != 3 || s.Instance.PID > 0 {
			t.Errorf("%d runs, status %+v", len(*runs), s)
		}
	})
}

// TestReadinessIsTriedAgainAndAgain by a command, too.
func TestReadinessIsTriedAgainAndAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Ready = &v1.Ready{Exec: "is-ready"}
		r.Script("is-ready", operationtest.Script{})
		r.do(process.Start, "a", s)
		r.Script("is-ready", operationtest.Script{Code: 1, Output: "not yet"})
		r.Kill(file("a"))
		r.pass(10 * time.Second)
		if s := r.state("a", "not-ready", true); !strings.Contains(s.Cause.Text, "exit status 1: not yet") {
			t.Errorf("cause %+v", s.Cause)
		}
		r.Script("is-ready", operationtest.Script{})
		r.pass(6 * time.Second)
		r.state("a", "running", true)
		tries := len(r.Lines())
		r.pass(time.Hour)
		if more := len(r.Lines()) - tries; more > 0 {
			t.Errorf("%d tries of what is ready", more)
		}
	})
}

// TestTexts: a text of the process shows, and many of them cost little.
func TestTexts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s, runs := notifier(r, false)
		r.do(process.Start, "a", s)
		say := func(text string) {
			r.says(last(runs), func(said *notify.State) { said.Status, said.HasStatus = text, true })
			r.pass(0)
		}
		say("first")
		if s := r.state("a", "running", true); s.Message != "it says: first" {
			t.Errorf("message %q", s.Message)
		}
		r.pass(time.Second)
		before := r.disk.runtimeWrites()
		for i := range 90 {
			say(strings.Repeat("x", i+1))
			r.pass(time.Millisecond)
		}
		r.pass(time.Second)
		if s := r.state("a", "running", true); s.Message != "it says: "+strings.Repeat("x", 90) {
			t.Errorf("message %q", s.Message)
		}
		if n := r.disk.runtimeWrites() - before; n > 3 {
			t.Errorf("%d writes", n)
		}
		r.says(last(runs), func(said *notify.State) { said.Stopping = true })
		r.pass(2 * time.Second)
		if s := r.state("a", "not-ready", true); !strings.Contains(s.Cause.Text, "says that it stops") {
			t.Errorf("cause %+v", s.Cause)
		}
	})
}

// TestMainPID: the process that a run names is watched from then on.
func TestMainPID(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s, runs := notifier(r, false)
		r.do(process.Start, "a", s)
		first := r.instance("a")
		next := r.Spawn("a", "", last(runs))
		r.says(last(runs), func(said *notify.State) { said.Main = next })
		r.pass(0)
		if s := r.state("a", "running", true); s.Instance.PID != next.PID {
			t.Fatalf("pid %d, want %d", s.Instance.PID, next.PID)
		}
		r.Exit(first, 0)
		r.pass(time.Minute)
		if s := r.state("a", "running", true); s.Instance.PID != next.PID || len(*runs) != 1 {
			t.Errorf("pid %d after the end of the first, %d runs", s.Instance.PID, len(*runs))
		}
		r.Exit(next, 1)
		r.pass(2 * time.Second)
		if len(*runs) != 2 {
			t.Errorf("%d runs after the end of the second", len(*runs))
		}
	})
}

// TestOthersWaitForReadiness: a process that runs and is not ready does not count as ready for those after it.
func TestOthersWaitForReadiness(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		runs := r.relaunched(false)
		specs := map[string]*process.Spec{"b": r.spec("b"), "c": r.spec("c")}
		specs["b"].After = map[string]string{"a": string(process.AfterReady)}
		specs["c"].After = map[string]string{"a": string(process.AfterStarted)}
		items := r.ordered(process.Start, specs, "b", "c")
		r.pass(time.Second)
		if lines := r.Lines(); lines[len(lines)-1] != "start c" {
			t.Errorf("ran %q", lines)
		}
		r.says(last(runs), func(said *notify.State) { said.Ready = true })
		r.pass(10 * time.Second)
		if lines := r.Lines(); lines[len(lines)-1] != "start b" {
			t.Errorf("ran %q", lines)
		}
		for _, item := range items {
			r.expect(item, process.None, "success")
		}
	})
}

// TestARelaunchMustStayAlive: the cause says for how long, because nothing else tells it.
func TestARelaunchMustStayAlive(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.copy("web", 20*time.Second)
		r.Script("exec ./web", operationtest.Script{Takes: 30 * time.Second, Code: 1})
		r.ordered(process.Start, map[string]*process.Spec{"web": s}, "web")
		r.pass(35 * time.Second)
		if s := r.state("web", "not-ready", true); !strings.HasSuffix(s.Cause.Text,
			" is not ready yet: it must stay alive for 20s") {
			t.Errorf("cause %+v", s.Cause)
		}
	})
}

// TestAWordBetweenCheckAndWatchCounts: the check of the start has seen its last, and the outcome is being stored.
func TestAWordBetweenCheckAndWatchCounts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s, run := r.copy("web", 0), ""
		s.Ready = &v1.Ready{Notify: true}
		r.Script("exec ./web", operationtest.Script{Takes: time.Hour, Begin: func(of string) { run = of }})
		r.handle.onFinish = func(string) {
			r.says(run, func(said *notify.State) { said.Ready = true })
			<-time.After(time.Second) // whoever listens has heard it
		}
		r.ordered(process.Start, map[string]*process.Spec{"web": s}, "web")
		r.pass(time.Minute)
		if s := r.state("web", "running", true); s.Cause.ID == process.CauseNotReady {
			t.Errorf("cause %+v of what is ready", s.Cause)
		}
		if all := strings.Join(r.sink.history(id("web")), ", "); !strings.HasPrefix(all, "operation-failed ") ||
			!strings.HasSuffix(all, ", ready running→running") {
			t.Errorf("events %s", all)
		}
	})
}

// TestAWordNotYetReadCountsAtTheEnd: it was sent in time, and a relaunch that is late would be ended.
func TestAWordNotYetReadCountsAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		runs := r.relaunched(true)
		r.OnSettle(func() { r.says(last(runs), func(said *notify.State) { said.Ready = true }) })
		r.pass(5 * time.Minute)
		if r.state("a", "running", true); len(*runs) != 2 {
			t.Errorf("%d runs", len(*runs))
		}
	})
}

// TestHealthIsAskedOnceReady: of a run that has yet to say that it is ready only once it has, or once its time is over.
func TestHealthIsAskedOnceReady(t *testing.T) {
	for what, end := range map[string]func(r *rig, runs *[]string){
		"it is ready": func(r *rig, runs *[]string) {
			r.says(last(runs), func(said *notify.State) { said.Ready = true })
			r.pass(0)
		},
		"it is late": func(r *rig, _ *[]string) { r.pass(40 * time.Second) },
	} {
		bubble(t, func(t *testing.T, r *rig) {
			s, runs := notifier(r, false)
			s.Health = &v1.Health{Exec: "health a", Action: "restart"}
			r.do(process.Start, "a", s)
			if _, asked := r.parts.subject(id("a")); !asked {
				t.Errorf("%s: it is not asked after its start", what)
			}
			r.Kill(file("a"))
			r.pass(2 * time.Second)
			r.state("a", "not-ready", true)
			if _, asked := r.parts.subject(id("a")); asked {
				t.Errorf("%s: it is asked before", what)
			}
			end(r, runs)
			if asked, ok := r.parts.subject(id("a")); !ok || asked.Instance != r.instance("a") {
				t.Errorf("%s: it is asked as %+v, %v", what, asked, ok)
			}
		})
	}
}
