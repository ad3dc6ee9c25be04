package operation_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

const stillAlive = "process (nginx) failed, for post-check status still alive: pid 100 [nginx] is there after 5 s"

func TestStop(t *testing.T) {
	stop := []string{"stop"}
	// lasting makes the process go only some time after its stop command.
	lasting := func(d time.Duration) func(*world, *process.Spec) {
		return func(w *world, _ *process.Spec) {
			w.Script("stop", operationtest.Script{Takes: time.Second, End: func(string) {
				after(d, func() { w.Kill(pidFile) })
			}})
		}
	}
	for _, c := range []scenario{
		{name: "unknown to the agent", running: true, text: "success", took: time.Second, ran: stop},
		{name: "hosted", running: true, known: hosted, text: "success", took: time.Second, ran: stop},
		{
			name: "gone before the command has ended", running: true, known: hosted, text: "success", took: time.Second,
			ran: stop, set: func(w *world, _ *process.Spec) {
				w.Script("stop", operationtest.Script{Takes: time.Second, Begin: func(string) { w.Kill(pidFile) }})
			},
		},
		{
			name: "it takes its time", running: true, known: hosted, set: lasting(3 * time.Second), text: "success",
			took: 4 * time.Second, ran: stop,
		},
		{
			name: "it stays", running: true, known: hosted, set: lasting(time.Hour), took: 6 * time.Second, ran: stop,
			alive: true, hosted: true,
			fault: process.CheckFailed, text: "stop " + stillAlive,
		},
		{
			name: "another one takes its place", running: true, known: hosted, took: 6 * time.Second, ran: stop,
			alive: true, hosted: true,
			set: func(w *world, _ *process.Spec) {
				w.Script("stop", operationtest.Script{Takes: time.Second, End: func(string) {
					w.Kill(pidFile)
					w.Spawn("nginx", pidFile, "")
				}})
			},
			fault: process.CheckFailed,
			text:  "stop process (nginx) failed, for post-check status still alive: pid 102 [nginx] is there after 5 s",
		},
		{
			name: "another one takes its place for a while", running: true, known: hosted, text: "success",
			took: 4 * time.Second, ran: stop,
			set: func(w *world, _ *process.Spec) {
				w.Script("stop", operationtest.Script{Takes: time.Second, End: func(string) {
					w.Kill(pidFile)
					id := w.Spawn("nginx", pidFile, "")
					after(3*time.Second, func() { w.Exit(id, 0) })
				}})
			},
		},
		{
			name: "not running", fault: process.NotRunning,
			text: "no need to stop the process(nginx) that is not running",
		},
		{
			name: "not running, and hosted", known: hosted, unhosts: true,
			fault: process.NotRunning, text: "no need to stop the process(nginx) that is not running",
		},
		{
			name: "the exit status of the command is not known", running: true, known: hosted, took: time.Second,
			ran: stop,
			set: func(w *world, _ *process.Spec) {
				w.Script("stop", operationtest.Script{Takes: time.Second, Untold: true, End: func(string) {
					w.Kill(pidFile)
				}})
			},
			text: "success: stop_cmd ended (exit status unknown), so only the state of the process was checked",
		},
	} {
		c.op = process.Stop
		c.run(t)
	}
}

// TestStopBetweenTwoRuns: in drover's own API a stop of a hosted process that is down for the moment has ended
// something, its relaunches; a stop of a process that is at rest has not.
func TestStopBetweenTwoRuns(t *testing.T) {
	for name, c := range map[string]struct {
		hosted, finished, givenUp bool
		fault                     process.Fault
	}{
		"hosted":              {hosted: true},
		"hosted and finished": {hosted: true, finished: true, fault: process.NotRunning},
		"hosted and given up": {hosted: true, givenUp: true, fault: process.NotRunning},
		"not hosted":          {fault: process.NotRunning},
	} {
		bubble(t, func(t *testing.T, w *world) {
			subject := hosted.subject()
			subject.Record.Spec.Compat, subject.Record.Spec.Timeouts = nil, &v1.Timeouts{Stop: lasting(time.Second)}
			subject.Record.Hosted, subject.Record.Finished, subject.Record.GivenUp = c.hosted, c.finished, c.givenUp
			sent := subject.Record.Spec
			order := entry(process.Stop, &sent)
			order.Ordered = true
			r, err := w.operator.Operate(t.Context(), order, subject)
			if err != nil || r.Outcome.Fault != c.fault || r.Outcome.Hosted {
				t.Errorf("%s: %+v, %v: want the fault %q", name, r.Outcome, err, c.fault)
			}
		})
	}
}

func TestStopWhoseCommandFails(t *testing.T) {
	fails := func(s operationtest.Script, gone bool) func(*world, *process.Spec) {
		return func(w *world, _ *process.Spec) {
			s.Takes = max(s.Takes, time.Second)
			s.Begin = func(string) {
				if gone {
					w.Kill(pidFile)
				}
			}
			w.Script("stop", s)
		}
	}
	const (
		exit1 = "Script exit code non-zero. Error msessage: [no pid] (stop_cmd: exit status 1)"
	)
	one := operationtest.Script{Code: 1, Output: "no pid"}
	for _, c := range []scenario{
		{
			name: "the process is there", known: hosted, set: fails(one, false), text: exit1, took: time.Second,
			alive: true, hosted: true,
		},
		{
			name: "the process is gone", known: hosted, set: fails(one, true), text: exit1, took: time.Second,
			unhosts: true,
		},
		{
			name: "the process is gone, and was not hosted", known: registered, set: fails(one, true), text: exit1,
			took: time.Second,
		},
		{name: "the process is gone, and was not known", set: fails(one, true), text: exit1, took: time.Second},
		{
			name: "time limit", known: hosted, set: fails(operationtest.Script{Takes: time.Hour}, false),
			took: time.Minute, alive: true, hosted: true,
			text: "stop_cmd timed out after 60 s; drover ended it with all processes that it had started. Output: []",
		},
		{
			name: "time limit, and the process is gone", known: hosted,
			set: fails(operationtest.Script{Takes: time.Hour}, true), took: time.Minute, unhosts: true,
			text: "stop_cmd timed out after 60 s; drover ended it with all processes that it had started. Output: []",
		},
	} {
		c.op, c.running, c.fault, c.ran = process.Stop, true, process.Failed, []string{"stop"}
		c.run(t)
	}
}

func TestStopWithoutCommand(t *testing.T) {
	onTERM := func(do func(w *world, id instance.Identity)) func(*world, *process.Spec) {
		return func(w *world, s *process.Spec) {
			s.Stop = ""
			id, _ := w.Alive(pidFile)
			w.OnTERM(id, func() { do(w, id) })
		}
	}
	for _, c := range []scenario{
		{name: "it ends at once", set: onTERM(func(w *world, id instance.Identity) { w.Exit(id, 0) }), text: "success"},
		{name: "it ends soon", set: onTERM(func(w *world, id instance.Identity) {
			after(2*time.Second, func() { w.Exit(id, 0) })
		}), text: "success", took: 2 * time.Second},
		{
			name: "it ignores SIGTERM", set: onTERM(func(*world, instance.Identity) {}), took: 5 * time.Second,
			alive: true, hosted: true,
			fault: process.CheckFailed, text: "stop " + stillAlive,
		},
		{
			name: "it may not be signalled", set: func(w *world, s *process.Spec) {
				s.Stop = ""
				w.SignalError = func(instance.Identity) error { return syscall.EPERM }
			},
			took: 5 * time.Second, alive: true, hosted: true, fault: process.CheckFailed,
			text: "stop " + stillAlive + "; SIGTERM could not be sent to pid 100: operation not permitted",
		},
	} {
		c.op, c.running, c.known = process.Stop, true, hosted
		c.run(t)
	}
	bubble(t, func(t *testing.T, w *world) {
		id := w.Spawn("nginx", pidFile, "")
		w.Spawn("bystander", "", "")
		s := spec()
		s.Stop = ""
		if _, err := w.operator.Operate(t.Context(), entry(process.Stop, s), unknown.subject()); err != nil {
			t.Fatal(err)
		}
		want := []operationtest.Signal{{PID: id.PID, Signal: syscall.SIGTERM}, {PID: id.PID, Signal: syscall.SIGCONT}}
		if diff := cmp.Diff(want, w.Signals()); diff != "" {
			t.Errorf("signals (-want +got): %s", diff)
		}
		if diff := cmp.Diff([]string{"bystander"}, w.Living()); diff != "" {
			t.Errorf("processes (-want +got): %s", diff)
		}
	})
}

func TestKill(t *testing.T) {
	empty := func(_ *world, s *process.Spec) { s.Compat.KillCommand = "" }
	for _, c := range []scenario{
		{name: "by its command", text: "success", took: time.Second, ran: []string{"kill"}},
		{name: "without a command", set: empty, text: "success"},
		{
			name: "it stays", set: func(w *world, _ *process.Spec) { w.Script("kill", operationtest.Script{}) },
			ran: []string{"kill"}, took: 5 * time.Second, alive: true, hosted: true, fault: process.CheckFailed,
			text: "kill " + stillAlive,
		},
		{
			name: "the command fails", set: func(w *world, _ *process.Spec) {
				w.Script("kill", operationtest.Script{Code: 2})
			},
			ran: []string{"kill"}, alive: true, hosted: true, fault: process.Failed,
			text: "Script exit code non-zero. Error msessage: [] (kill_cmd: exit status 2)",
		},
		{
			name: "without a command, and it cannot be ended", set: func(w *world, s *process.Spec) {
				empty(w, s)
				w.OnEndTree = func(operationtest.End) ([]int, error) { return []int{100}, nil }
			},
			took: 5 * time.Second, alive: true, hosted: true, fault: process.CheckFailed, text: "kill " + stillAlive +
				"; could not end pids [100]",
		},
		{
			name: "without a command, and nobody can be sure of the rest", set: func(w *world, s *process.Spec) {
				empty(w, s)
				w.OnEndTree = func(operationtest.End) ([]int, error) {
					w.Kill(pidFile)
					return nil, errors.New("no way to look")
				}
			},
			unhosts: true, fault: process.CheckFailed,
			text: "kill process (nginx) failed, for post-check status pid 100 is gone, but drover cannot verify that " +
				"all its processes ended: no way to look",
		},
	} {
		c.op, c.running, c.known = process.Kill, true, hosted
		c.run(t)
	}
	scenario{
		name: "not running", op: process.Kill, known: hosted, unhosts: true,
		fault: process.NotRunning, text: "no need to kill the process(nginx) that is not running",
	}.run(t)
}

// TestKillWithoutCommandEndsTheTree: the instance and all of the run that it was started in, and nothing of a run that
// was another instance's.
func TestKillWithoutCommandEndsTheTree(t *testing.T) {
	for _, c := range []struct {
		name string
		// recorded says that the agent knows the instance and the run it was started in.
		recorded bool
		run      string
		living   []string
	}{
		{"started by us", true, "earlier", nil},
		{"started from outside", false, "", []string{"worker"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				id := w.Spawn("nginx", pidFile, "earlier")
				w.Spawn("worker", "", "earlier")
				s, subject := spec(), hosted.subject()
				s.Compat.KillCommand = ""
				subject.Runtime.Run = "earlier"
				if c.recorded {
					subject.Runtime.Process, subject.Runtime.PIDFile = &id, pidFile
				}
				if _, err := w.operator.Operate(t.Context(), entry(process.Kill, s), subject); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]operationtest.End{{Root: id, Run: c.run}}, w.Ends()); diff != "" {
					t.Errorf("trees (-want +got): %s", diff)
				}
				if diff := cmp.Diff(c.living, w.Living()); diff != "" {
					t.Errorf("processes (-want +got): %s", diff)
				}
			})
		})
	}
}
