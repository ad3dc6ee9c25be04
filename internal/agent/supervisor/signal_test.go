package supervisor_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// signal sends SIGCONT to a process, as drover's own API does.
func (r *rig) signal(name string) string {
	e := r.accept(process.SignalOp("CONT", false), name, nil)
	e.Ordered = true
	r.Submit([]record.Entry{e})
	return e.Item
}

// neverReady returns the spec of a foreground process that runs and is not ready within 20 s.
func (r *rig) neverReady(name string) *process.Spec {
	s := r.copy(name, 0)
	s.Ready = &v1.Ready{Exec: "is-ready", Within: lasting(20 * time.Second)}
	r.Script("is-ready", operationtest.Script{Code: 1})
	return s
}

// got fails unless exactly these processes have got SIGCONT.
func (r *rig) got(pids ...int) {
	r.t.Helper()
	var all []int
	for _, s := range r.Signals() {
		if s.Signal == syscall.SIGCONT {
			all = append(all, s.PID)
		}
	}
	if fmt.Sprint(all) != fmt.Sprint(pids) {
		r.t.Errorf("CONT was sent to %v, want %v", all, pids)
	}
}

// TestSignalPassesAStart: a signal reaches a process whose start waits until it is ready, at its first start and later.
// The start goes on, and a restart too.
func TestSignalPassesAStart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		specs := map[string]*process.Spec{"web": r.neverReady("web")}
		var pids []int
		for _, op := range []process.Op{process.Start, process.Restart} {
			start := r.ordered(op, specs, "web")["web"]
			r.pass(10 * time.Second)
			_, rt, _ := r.Running(id("web"))
			if rt.Process == nil {
				t.Fatal("it does not run")
			}
			pids = append(pids, rt.Process.PID)
			signal := r.signal("web")
			r.pass(0)
			r.expect(signal, process.None, fmt.Sprintf("success: CONT sent to pid %d", rt.Process.PID))
			r.got(pids...)
			if _, over := r.sink.outcome(start); over {
				t.Errorf("the signal has ended the %s", op)
			}
			history := r.sink.history(id("web"))
			if last := history[len(history)-1]; last != "signalled operating→operating" {
				t.Errorf("the last of %q", history)
			}
			r.sink.mu.Lock()
			if e := r.sink.events[len(r.sink.events)-1]; e.PID != rt.Process.PID {
				t.Errorf("%+v", e)
			}
			r.sink.mu.Unlock()
			r.pass(time.Minute)
			if o, _ := r.sink.outcome(start); !strings.Contains(o.Text, "not ready after 20 s") || !o.Hosted {
				t.Errorf("the %s: %+v", op, o)
			}
			r.state("web", "not-ready", true)
		}
	})
}

// TestSignalWaitsForTheProgram: a signal does not pass a command that comes before the program.
func TestSignalWaitsForTheProgram(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.neverReady("web")
		s.BeforeStart = &v1.Before{Run: "check"}
		r.Script("check", operationtest.Script{Takes: 30 * time.Second})
		start := r.ordered(process.Start, map[string]*process.Spec{"web": s}, "web")["web"]
		r.pass(10 * time.Second)
		first, second := r.signal("web"), r.signal("web")
		r.pass(10 * time.Second)
		if _, over := r.sink.outcome(first); over {
			t.Error("the signal did not wait")
		}
		r.got()
		r.pass(15 * time.Second)
		_, rt, _ := r.Running(id("web"))
		r.got(rt.Process.PID, rt.Process.PID)
		for _, item := range []string{first, second} {
			r.expect(item, process.None, fmt.Sprintf("success: CONT sent to pid %d", rt.Process.PID))
		}
		if _, over := r.sink.outcome(start); over {
			t.Error("the signal has ended the start")
		}
	})
}

// TestSignalPassesTheStartOfADaemon: a signal goes to the process that the start command has left behind, and never to
// the one that a restart is to replace.
func TestSignalPassesTheStartOfADaemon(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		r.do(process.Stop, "a", s)
		s.Compat.StartCheckEnd = 60
		r.submit(process.Start, "a", s)
		r.pass(5 * time.Second)
		signal := r.signal("a")
		r.pass(0)
		r.expect(signal, process.None, fmt.Sprintf("success: CONT sent to pid %d", r.instance("a").PID))
		r.got(r.instance("a").PID)
	})
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		s.Compat.RestartCommand, s.Ready = "restart a", &v1.Ready{Exec: "is-ready", Within: lasting(time.Minute)}
		s.Compat.StartCheckEnd = 60
		r.Script("restart a", operationtest.Script{})
		r.submit(process.Restart, "a", s)
		r.pass(5 * time.Second)
		signal := r.signal("a")
		r.pass(5 * time.Second)
		if _, over := r.sink.outcome(signal); over {
			t.Error("the signal went to the process from before the restart")
		}
		r.got()
	})
}

// TestSignalPassesOtherWork: a signal reaches a process at once that is being stopped, by whatever, or that reloads.
func TestSignalPassesOtherWork(t *testing.T) {
	for line, begin := range map[string]func(r *rig, s *process.Spec) string{
		"stop a":   func(r *rig, s *process.Spec) string { return r.submit(process.Stop, "a", s) },
		"reload a": func(r *rig, s *process.Spec) string { return r.submit(process.Reload, "a", s) },
		"restart":  func(r *rig, s *process.Spec) string { return r.submit(process.Restart, "a", s) },
		"breach": func(r *rig, s *process.Spec) string {
			r.Exceeded(id("a"), r.instance("a"), overMem())
			return ""
		},
	} {
		bubble(t, func(t *testing.T, r *rig) {
			s := r.spec("a")
			s.Compat.RestartCommand = ""
			s.Compat.OpTimeout = 120
			r.do(process.Start, "a", s)
			pid := r.instance("a").PID
			slow := operationtest.Script{Takes: time.Minute, End: func(string) { r.Kill(file("a")) }}
			if line == "reload a" {
				slow.End = nil
				r.Script(line, slow)
			} else {
				r.Script("stop a", slow)
			}
			item := begin(r, s)
			r.pass(2 * time.Second)
			signal := r.signal("a")
			r.pass(0)
			r.expect(signal, process.None, fmt.Sprintf("success: CONT sent to pid %d", pid))
			r.got(pid)
			if _, over := r.sink.outcome(item); over {
				t.Errorf("%s: the signal has ended it", line)
			}
			r.pass(2 * time.Minute)
			if item != "" {
				if o, over := r.sink.outcome(item); !over || o.Fault != process.None {
					t.Errorf("%s: %v, %+v", line, over, o)
				}
			}
			r.state("a", map[bool]string{true: "stopped", false: "running"}[line == "stop a"], line != "stop a")
		})
	}
}

// TestSignalEndsAStart: a start fails by what a signal does to its process.
func TestSignalEndsAStart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		start := r.ordered(process.Start, map[string]*process.Spec{"web": r.neverReady("web")}, "web")["web"]
		r.pass(5 * time.Second)
		e := r.accept(process.SignalOp("KILL", false), "web", nil)
		r.Submit([]record.Entry{e})
		r.pass(time.Second)
		if o, _ := r.sink.outcome(e.Item); o.Fault != process.None {
			t.Errorf("the signal: %+v", o)
		}
		if o, _ := r.sink.outcome(start); o.Fault != process.CheckFailed || !strings.Contains(o.Text, "SIGKILL") {
			t.Errorf("the start: %+v", o)
		}
	})
}

// TestKillPassesASignal: a signal that passes a start holds up what comes after it, such as a stop, but not a kill.
func TestKillPassesASignal(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var asked string
		said := r.asksBefore(func(item string) bool { return item == asked })
		start := r.ordered(process.Start, map[string]*process.Spec{"web": r.neverReady("web")}, "web")["web"]
		r.pass(5 * time.Second)
		asked = fmt.Sprintf("item-%d", r.items+1)
		signal := r.signal("web")
		r.pass(time.Second)
		stop := r.ordered(process.Stop, nil, "web")["web"]
		r.pass(time.Second)
		if _, over := r.sink.outcome(start); !over {
			t.Error("the stop has not ended the check of the start")
		}
		if _, over := r.sink.outcome(stop); over {
			t.Error("the stop did not wait for the signal")
		}
		kill := r.ordered(process.Kill, nil, "web")["web"]
		r.pass(time.Second)
		r.expect(kill, process.None, "success")
		said <- true
		r.pass(time.Second)
		r.got()
		for _, item := range []string{signal, stop} {
			if o, _ := r.sink.outcome(item); o.Fault != process.NotRunning {
				t.Errorf("after the kill: %+v", o)
			}
		}
	})
}

// TestSuccessor: a process that the main process has started in its place after a signal, with its command line, is the
// process once the main process has ended by itself. Otherwise drover ends it and relaunches.
func TestSuccessor(t *testing.T) {
	for name, c := range map[string]struct {
		unsignalled, before, another, several, restarted, asked bool
		code                                                    int
		goesOn                                                  bool
	}{
		"after a signal":                       {goesOn: true},
		"after a signal, and an agent's end":   {restarted: true, goesOn: true},
		"without a signal":                     {unsignalled: true},
		"it began before the signal":           {before: true},
		"another program":                      {another: true},
		"several":                              {several: true},
		"the main process has failed":          {code: 1},
		"a person has stopped the process":     {asked: true},
		"a failure, and several, and a signal": {code: 1, several: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				spec := r.copy("a", 0)
				r.ordered(process.Start, map[string]*process.Spec{"a": spec}, "a")
				r.pass(time.Minute)
				_, rt, _ := r.Running(id("a"))
				main := *rt.Process
				i, _, err := r.Instance(main)
				if err != nil {
					t.Fatal(err)
				}
				if c.before {
					r.Fork(main, i.Cmdline)
					r.pass(time.Minute)
				}
				if !c.unsignalled {
					r.signal("a")
					r.pass(time.Minute)
				}
				next := main
				if !c.before {
					line := i.Cmdline
					if c.another {
						line = "another"
					}
					next = r.Fork(main, line)
					r.Fork(next, line) // its worker
				}
				if c.several {
					r.Fork(main, i.Cmdline)
				}
				if c.restarted {
					r.kill()
					r.begin()
				}
				r.pass(time.Minute)
				r.Lines()
				if c.asked {
					r.ordered(process.Stop, map[string]*process.Spec{"a": nil}, "a")
				} else {
					r.Exit(main, c.code)
				}
				r.pass(time.Minute)
				alive, _ := r.Glance(next)
				if c.asked {
					if r.state("a", "stopped", false); alive {
						t.Error("the successor has survived the stop")
					}
					return
				}
				s := r.state("a", "running", true)
				if (s.Instance.PID == next.PID) != c.goesOn || alive != c.goesOn {
					t.Errorf("drover watches pid %d; pid %d lives %v", s.Instance.PID, next.PID, alive)
				}
				if history := fmt.Sprint(r.sink.history(id("a"))); strings.Contains(history, "main-pid-changed") != c.goesOn {
					t.Errorf("events %s", history)
				}
			})
		})
	}
}
