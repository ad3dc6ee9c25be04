package operation_test

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

const missing = "pid file /run/nginx.pid does not exist"

func TestStart(t *testing.T) {
	start := []string{"start"}
	for _, c := range []scenario{
		{name: "a new process", text: "success", took: 6 * time.Second, ran: start, alive: true, hosted: true},
		{
			name: "a known process", known: registered, text: "success", took: 6 * time.Second, ran: start, alive: true,
			hosted: true,
		},
		{
			name: "one that was given up", known: hosted, text: "success", took: 6 * time.Second, ran: start, alive: true,
			hosted: true,
		},
		{
			name: "already running", running: true, alive: true,
			fault: process.AlreadyRunning, text: "no need to start the process(nginx) that is already running, pid 100",
		},
		{
			name: "already running and hosted", running: true, known: hosted, alive: true, hosted: true,
			fault: process.AlreadyRunning, text: "no need to start the process(nginx) that is already running, pid 100",
		},
		{
			name: "without a command", set: func(_ *world, s *process.Spec) { s.Start = "" },
			fault: process.Failed, text: "start_cmd is empty",
		},
		{
			name: "an unfit spec", known: hosted, hosted: true, set: func(_ *world, s *process.Spec) {
				s.Directory = ""
			},
			fault: process.Failed, text: "spec.identity.setup_path is empty: expected an absolute directory",
		},
		{
			name: "hosted under another name", set: func(w *world, _ *process.Spec) { w.peers.hosting = other() },
			fault: process.Failed, text: "cannot host the process: it is hosted as other/nginx",
		},
		{
			name: "fewer instances than expected", set: func(_ *world, s *process.Spec) { s.ExpectedInstances = new(3) },
			text: "success: 1 of 3 instances are running", took: 6 * time.Second, ran: start, alive: true, hosted: true,
		},
		{
			name: "a policy that is not used, and an assumed kind", set: func(_ *world, s *process.Spec) {
				s.Compat.Crontab, s.Compat.CycleTime, s.Compat.KindAssumed = "@daily", 60, true
			},
			text: "success: crontab_rule is stored and not used: it is for periodic processes (auto_type 0); " +
				"cycle_time is stored and not used: it is for periodic processes (type 0); neither type nor cycle_time was given, so the process is resident (type 1)",
			took: 6 * time.Second, ran: start, alive: true, hosted: true,
		},
		{
			name: "limits that the host does not keep", set: func(w *world, s *process.Spec) {
				s.Limits = &v1.Limits{Tasks: 5}
				w.operator.LimitNotes = func(*process.Spec) []string {
					return []string{"limits.tasks cannot be enforced on this host"}
				}
			},
			text: "success: limits.tasks cannot be enforced on this host", took: 6 * time.Second, ran: start,
			alive: true, hosted: true,
		},
		{
			name: "a single run that is over before its check", set: func(w *world, s *process.Spec) {
				s.Once = true
				w.Script("start", operationtest.Script{Takes: time.Second, End: func(run string) {
					id := w.Spawn("nginx", pidFile, run)
					after(2*time.Second, func() { w.Exit(id, 0) })
				}})
			},
			fault: process.CheckFailed,
			text:  "start process (nginx) failed, for post-check status not alive: pid 101 exit status 0",
			took:  6 * time.Second, ran: start,
		},
	} {
		c.op = process.Start
		c.run(t)
	}
}

func TestStartWhoseCommandFails(t *testing.T) {
	start := []string{"start"}
	early := func(s operationtest.Script) func(*world, *process.Spec) {
		return func(w *world, _ *process.Spec) {
			s.Begin = func(run string) { w.Spawn("nginx", pidFile, run) }
			w.Script("start", s)
		}
	}
	for _, c := range []scenario{
		{
			name: "exit status, what it started is ended",
			set:  early(operationtest.Script{Takes: 2 * time.Second, Code: 3, Output: "bind: in use"}),
			text: "Script exit code non-zero. Error msessage: [bind: in use] (start_cmd: exit status 3); drover ended the processes that it had started: pid 101 (nginx)", took: 2 * time.Second, ran: start,
		},
		{
			name: "signal", set: early(operationtest.Script{Signal: syscall.SIGSEGV}), ran: start,
			text: "Script exit code non-zero. Error msessage: [] (start_cmd: killed by signal 11 (SIGSEGV)); drover ended the processes that it had started: pid 101 (nginx)",
		},
		{
			name: "time limit", set: early(operationtest.Script{Takes: time.Hour, Output: "half"}), took: time.Minute,
			ran:  start,
			text: "start_cmd timed out after 60 s; drover ended it with all processes that it had started. Output: [half]",
		},
		{
			name: "time limit, and something cannot be ended", set: func(w *world, s *process.Spec) {
				early(operationtest.Script{Takes: time.Hour})(w, s)
				w.OnEndTree = func(operationtest.End) ([]int, error) { return []int{101}, errors.New("out of time") }
			},
			text: "start_cmd timed out after 60 s; could not end pids [101]. Output: []", took: time.Minute, ran: start,
			alive: true,
		},
		{
			name: "time limit, and nobody can be sure", set: func(w *world, s *process.Spec) {
				w.Script("start", operationtest.Script{Takes: time.Hour})
				w.OnEndTree = func(operationtest.End) ([]int, error) { return nil, errors.New("no way to look") }
			},
			text: "start_cmd timed out after 60 s; cannot verify that all its processes ended: no way to look. Output: []",
			took: time.Minute, ran: start,
		},
		{
			name: "exit status, and something cannot be ended", set: func(w *world, s *process.Spec) {
				early(operationtest.Script{Code: 1})(w, s)
				w.OnEndTree = func(operationtest.End) ([]int, error) { return []int{101}, nil }
			},
			text: "Script exit code non-zero. Error msessage: [] (start_cmd: exit status 1); could not end pids [101]",
			ran:  start, alive: true,
		},
		{
			name: "it cannot be forked", set: func(w *world, _ *process.Spec) {
				w.Script("start",
					operationtest.Script{Refuse: process.Errorf(process.Failed, "spec.identity.user: no user www")})
			},
			text: "spec.identity.user: no user www",
		},
		{
			name: "it cannot be released", set: func(w *world, _ *process.Spec) {
				w.Script("start", operationtest.Script{Stuck: errors.New("no pipe")})
			},
			text: "cannot let start run: no pipe",
		},
		{
			name: "its gate fails before it can be released", set: func(w *world, _ *process.Spec) {
				w.Script("start", operationtest.Script{
					Stuck: os.ErrProcessDone, Unrun: true, Output: "drover: cannot set the limit open_files to 9\n",
				})
			},
			text: "the command did not run: cannot set the limit open_files to 9",
		},
		{
			name: "it ends at its gate", set: func(w *world, _ *process.Spec) {
				w.Script("start", operationtest.Script{Unrun: true})
			},
			text: "the command was ended before it ran anything",
		},
		{
			name: "its gate fails", set: func(w *world, _ *process.Spec) {
				w.Script("start", operationtest.Script{Unrun: true, Output: "drover: cannot enter its directory\n"})
			},
			text: "the command did not run: cannot enter its directory",
		},
		{
			name: "it cannot be watched", set: func(w *world, _ *process.Spec) {
				w.WatchError = func(instance.Identity) error { return syscall.EMFILE }
				w.Script("start", operationtest.Script{})
			},
			text: "cannot watch start: too many open files", ran: start,
		},
	} {
		c.op, c.fault = process.Start, process.Failed
		c.run(t)
	}
}

// TestACommandThatDoesNotRunLeavesNothing: its output file and control group are given back.
func TestACommandThatDoesNotRunLeavesNothing(t *testing.T) {
	for name, s := range map[string]operationtest.Script{
		"not forked":   {Refuse: errors.New("no memory")},
		"not released": {Stuck: errors.New("no pipe")},
		"unrun":        {Unrun: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.Script("start", s)
				if _, err := w.operator.Operate(t.Context(), entry(process.Start, spec()),
					unknown.subject()); err != nil {
					t.Fatal(err)
				}
				if got := w.Discards(); len(got) != 1 || got[0] != operationtest.RunID(nginx(), 1) {
					t.Errorf("runs %v were dropped, want run-1", got)
				}
			})
		})
	}
}

// TestStartCheck is about the time between the end of the start command and the verdict.
func TestStartCheck(t *testing.T) {
	start := []string{"start"}
	appear := func(at time.Duration, then func(w *world, id instance.Identity)) func(*world, *process.Spec) {
		return func(w *world, _ *process.Spec) {
			w.Script("start", operationtest.Script{Takes: time.Second, Output: "hello", End: func(run string) {
				after(at, func() {
					id := w.Spawn("nginx", pidFile, run)
					if then != nil {
						then(w, id)
					}
				})
			}})
		}
	}
	for _, c := range []scenario{
		{
			name: "the pid file is late", set: appear(4*time.Second, nil), text: "success", took: 6 * time.Second,
			alive: true, hosted: true,
		},
		{
			name: "the pid file is too late", set: appear(6*time.Second, nil), took: 6 * time.Second,
			fault: process.CheckFailed,
			text:  "start process (nginx) failed, for post-check status not alive: " + missing + "; output: [hello]",
		},
		{
			name: "it dies at once", took: 6 * time.Second, fault: process.CheckFailed,
			set: func(w *world, _ *process.Spec) {
				w.Script("start", operationtest.Script{Takes: time.Second, Output: "hello", End: func(run string) {
					w.Exit(w.Spawn("nginx", pidFile, run), 9)
				}})
			},
			text: "start process (nginx) failed, for post-check status not alive: pid 101 exit status 9; output: [hello]",
		},
		{
			name: "it dies at once, and its log says why", took: 6 * time.Second, fault: process.CheckFailed,
			set: func(w *world, s *process.Spec) {
				s.LogFile = "/log/nginx"
				w.Script("start", operationtest.Script{Takes: time.Second, End: func(run string) {
					w.Log("/log/nginx", "[emerg] no certificate")
					w.Exit(w.Spawn("nginx", pidFile, run), 9)
				}})
			},
			text: "start process (nginx) failed, for post-check status not alive: pid 101 exit status 9; " +
				"the end of its log: [[emerg] no certificate]",
		},
		{
			name: "it dies within the time", took: 6 * time.Second, fault: process.CheckFailed,
			set: appear(time.Second, func(w *world, id instance.Identity) {
				after(3*time.Second,
					func() { w.End(id, liveness.Exit{Known: true, Signal: syscall.SIGABRT, CoreDumped: true}) })
			}),
			text: "start process (nginx) failed, for post-check status not alive: pid 101 killed by signal 6 (SIGABRT), core dumped; output: [hello]",
		},
		{
			name: "it dies and comes again within the time", text: "success", took: 6 * time.Second, alive: true,
			hosted: true,
			set: appear(time.Second, func(w *world, id instance.Identity) {
				after(time.Second, func() {
					w.Exit(id, 0)
					after(time.Second, func() { w.Spawn("nginx", pidFile, operationtest.RunID(nginx(), 1)) })
				})
			}),
		},
		{
			name: "the exit status of the command is not known",
			text: "success: start_cmd ended (exit status unknown), so only the state of the process was checked",
			set: func(w *world, _ *process.Spec) {
				w.Script("start", operationtest.Script{Takes: time.Second, Untold: true, End: func(run string) {
					w.Spawn("nginx", pidFile, run)
				}})
			},
			took: 6 * time.Second, alive: true, hosted: true,
		},
		{
			name: "the exit status of the command is not known, and nothing runs",
			set: func(w *world, _ *process.Spec) {
				w.Script("start", operationtest.Script{Takes: time.Second, Untold: true})
			},
			text: "start process (nginx) failed, for post-check status not alive: " + missing +
				"; start_cmd ended (exit status unknown), so only the state of the process was checked",
			took: 6 * time.Second, fault: process.CheckFailed,
		},
		{
			name: "another process has the pid", fault: process.CheckFailed, took: 6 * time.Second,
			set:  func(w *world, s *process.Spec) { s.ProcessName = "httpd" },
			text: "start process (httpd) failed, for post-check status not alive: pid 101 in /run/nginx.pid is nginx; drover ended the processes that it had started: pid 101 (nginx)",
		},
		{
			name: "the instance belongs to another process", fault: process.CheckFailed, took: 6 * time.Second,
			alive: true,
			set:   func(w *world, _ *process.Spec) { w.peers.owner, w.peers.ownerFile = other(), "/run/other.pid" },
			text:  "start process (nginx) failed, for post-check status not alive: pid 101 belongs to other/nginx",
		},
		{
			name: "another process knows it by the same pid file", text: "success", took: 6 * time.Second, alive: true,
			hosted: true,
			set:    func(w *world, _ *process.Spec) { w.peers.owner, w.peers.ownerFile = other(), pidFile },
		},
	} {
		c.op, c.ran = process.Start, start
		c.run(t)
	}
}

// TestEndRightAfterThePIDFile: a process that has ended before anybody has seen it, but after it wrote its pid file,
// has died in the start. A pid file from before the start is a stale one.
func TestEndRightAfterThePIDFile(t *testing.T) {
	for name, tt := range map[string]struct {
		before bool
		cause  process.CauseID
		code   int
	}{
		"in the start": {cause: process.CauseDiedEarly, code: 7},
		"before":       {before: true, cause: process.CauseOddPIDFile},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				die := func(run string) { w.Exit(w.Spawn("nginx", pidFile, run), 7) }
				script := operationtest.Script{Takes: time.Second, End: die}
				if tt.before {
					script.End = nil
					die("earlier")
					time.Sleep(time.Second)
				}
				w.Script("start", script)
				r, err := w.operator.Operate(t.Context(), entry(process.Start, spec()), unknown.subject())
				if err != nil || r.Outcome.Fault != process.CheckFailed || r.Outcome.Cause != tt.cause {
					t.Errorf("%+v, %v", r.Outcome, err)
				}
				if exit := r.Runtime.LastExit; tt.code != 0 && (exit == nil || exit.Code != tt.code) {
					t.Errorf("the end: %+v", exit)
				}
			})
		})
	}
}
