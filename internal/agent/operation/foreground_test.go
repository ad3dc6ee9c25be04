package operation_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/operation"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// runLine is the line that a foreground process is started with.
const runLine = "exec ./api"

// foreground is a process whose command is the process.
func foreground() *process.Spec {
	return &process.Spec{
		Run: "./api", Directory: "/srv", User: "www", Timeouts: &v1.Timeouts{Stop: lasting(3 * time.Second)},
	}
}

func lasting(d time.Duration) *v1.Duration { return new(v1.Duration(d)) }

// operate carries out an operation to its end.
func (w *world) operate(t *testing.T, op process.Op, s *process.Spec, rt record.Runtime) (operation.Result, time.Duration) {
	t.Helper()
	e := entry(op, s)
	e.Item += string(op) // items differ
	e.Ordered = s.Compat == nil
	return w.operateEntry(t, e, rt)
}

func (w *world) operateEntry(t *testing.T, e record.Entry, rt record.Runtime) (operation.Result, time.Duration) {
	t.Helper()
	began := time.Now()
	r, err := w.operator.Operate(t.Context(), e, operation.Subject{Runtime: rt})
	if err != nil {
		t.Fatal(err)
	}
	return r, time.Since(began)
}

func TestForegroundStart(t *testing.T) {
	for name, c := range map[string]struct {
		script operationtest.Script
		set    func(*process.Spec)
		fault  process.Fault
		text   string
		took   time.Duration
		alive  bool
		cause  process.CauseID
	}{
		"it stays": {
			script: operationtest.Script{Takes: time.Hour}, text: "success", took: time.Second, alive: true,
		},
		"it needs no time": {
			script: operationtest.Script{Takes: time.Hour}, text: "success", alive: true,
			set: func(s *process.Spec) { s.Ready = &v1.Ready{Alive: lasting(0)} },
		},
		"it needs no time and cannot be executed": {
			script: operationtest.Script{
				Takes: 15 * time.Millisecond, Executes: time.Minute, Code: 127, Output: "drover: cannot execute ./api",
			},
			set:   func(s *process.Spec) { s.Ready = &v1.Ready{Alive: lasting(0)} },
			fault: process.CheckFailed, took: 15 * time.Millisecond,
			text:  "not alive: pid 100 exit status 127; run: \"./api\" was not found; output: [drover: cannot execute ./api]",
			cause: process.CauseCommandMissing,
		},
		"it needs no time and is slow to be executed": {
			script: operationtest.Script{Takes: time.Hour, Executes: 15 * time.Millisecond}, text: "success",
			took: 15 * time.Millisecond, alive: true,
			set: func(s *process.Spec) { s.Ready = &v1.Ready{Alive: lasting(0)} },
		},
		"it has another name": {
			script: operationtest.Script{Takes: time.Hour}, text: "success: pid 100 is ", took: time.Second, alive: true,
			set: func(s *process.Spec) { s.ProcessName = "postgres" },
		},
		"it ends at once": {
			script: operationtest.Script{Takes: 20 * time.Millisecond, Code: 127, Output: "drover: cannot execute ./api"},
			fault:  process.CheckFailed, took: 20 * time.Millisecond,
			text:  "not alive: pid 100 exit status 127; run: \"./api\" was not found; output: [drover: cannot execute ./api]",
			cause: process.CauseCommandMissing,
		},
		"it ends at once, by a command that its script lacks": {
			script: operationtest.Script{Takes: 20 * time.Millisecond, Code: 127, Output: "./api: 2: jq: not found"},
			fault:  process.CheckFailed, took: 20 * time.Millisecond,
			text: "not alive: pid 100 exit status 127; drover has executed it; a script ends so if a command is missing, " +
				"a program if one of its libraries is missing; output: [./api: 2: jq: not found]",
			cause: process.CauseDiedEarly,
		},
		"it ends in its check time": {
			script: operationtest.Script{Takes: 900 * time.Millisecond, Signal: syscall.SIGSEGV}, took: 900 * time.Millisecond,
			fault: process.CheckFailed, text: "not alive: pid 100 killed by signal 11 (SIGSEGV)", cause: process.CauseDiedEarly,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				s := foreground()
				if c.set != nil {
					c.set(s)
				}
				w.Script(runLine, c.script)
				r, took := w.operate(t, process.Start, s, record.Runtime{})
				if r.Outcome.Fault != c.fault || !strings.Contains(r.Outcome.Text, c.text) || took != c.took {
					t.Errorf("%q %q after %v, want %q %q after %v", r.Outcome.Fault, r.Outcome.Text, took, c.fault, c.text,
						c.took)
				}
				if r.Outcome.Cause != c.cause {
					t.Errorf("cause %q, want %q", r.Outcome.Cause, c.cause)
				}
				if rec := r.Change.Put; (r.Runtime.Process != nil) != c.alive || !r.Outcome.Hosted || rec == nil || !rec.Hosted {
					t.Errorf("instance %v, outcome %+v, record %+v: want alive %v, and hosted", r.Runtime.Process, r.Outcome, rec,
						c.alive)
				}
			})
		})
	}
}

// TestLimitHitInTheStartCheck: a start that fails its check names the limit that the process has hit.
func TestLimitHitInTheStartCheck(t *testing.T) {
	const tasks = "; its limit of 4 tasks was reached: the kernel refused 3 processes or threads"
	for name, c := range map[string]struct {
		kind    process.Kind
		limited bool
		script  operationtest.Script
		want    string
	}{
		"tasks": {limited: true, script: operationtest.Script{Code: 2}, want: "exit status 2" + tasks},
		"tasks of a single run": {
			kind: process.SingleRun, limited: true, script: operationtest.Script{Code: 2}, want: "exit status 2" + tasks,
		},
		"tasks of a run by a timetable": {
			kind: process.Periodic, limited: true, script: operationtest.Script{Code: 2}, want: "exit status 2" + tasks,
		},
		"tasks of its group": {script: operationtest.Script{Code: 2}, want: "exit status 2"},
		"size of a file": {
			script: operationtest.Script{Signal: syscall.SIGXFSZ},
			want:   "killed by signal 25 (SIGXFSZ); its spec limits the size of a file to 64KiB",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.Marks = instance.Marks{Refused: 3}
				s := foreground()
				s.Limits, s.Once = &v1.Limits{FileSize: new(v1.LimitSize(64 << 10))}, c.kind == process.SingleRun
				if c.limited {
					s.Limits.Tasks = 4
				}
				if c.kind == process.Periodic {
					s.Schedule = &v1.Schedule{Every: lasting(time.Minute)}
				}
				c.script.Takes = 20 * time.Millisecond
				w.Script(runLine, c.script)
				if r, _ := w.operate(t, process.Start, s, record.Runtime{}); !strings.HasSuffix(r.Outcome.Text, c.want) {
					t.Errorf("%q, want %q", r.Outcome.Text, c.want)
				}
			})
		})
	}
}

// TestTextsOfTheWire: a caller of GSE or JOB reads its own words, also of a process of a process file.
func TestTextsOfTheWire(t *testing.T) {
	for ordered, want := range map[bool]string{
		true: "nothing to stop: process nginx is not running", false: "no need to stop the process(nginx) that is not running",
	} {
		bubble(t, func(t *testing.T, w *world) {
			e := entry(process.Stop, foreground())
			e.Ordered = ordered
			if r, _ := w.operateEntry(t, e, record.Runtime{}); r.Outcome.Text != want {
				t.Errorf("ordered is %v: %q", ordered, r.Outcome.Text)
			}
		})
	}
}

// TestForegroundStartOfAnEarlierAgent: an agent that dies during the start leaves one process, which the next one
// knows.
func TestForegroundStartOfAnEarlierAgent(t *testing.T) {
	for n := 1; ; n++ {
		over := false
		bubble(t, func(t *testing.T, w *world) {
			w.Script(runLine, operationtest.Script{Takes: time.Hour})
			e := entry(process.Start, foreground())
			r, killed := w.life(t, e, operation.Subject{}, n)
			if over = !killed; over {
				return
			}
			if r, killed = w.life(t, e, operation.Subject{}, 1000); killed {
				t.Fatal("killed again")
			}
			if lines := w.Lines(); r.Outcome.Fault != process.None || r.Runtime.Process == nil || len(lines) != 1 {
				t.Errorf("killed at write %d: %+v, process %v, commands %q", n, r.Outcome, r.Runtime.Process, lines)
			}
		})
		if over {
			return
		}
	}
}

func TestStopBySignals(t *testing.T) {
	for name, c := range map[string]struct {
		set     func(w *world, s *process.Spec, rt *record.Runtime)
		signals []syscall.Signal
		took    time.Duration
		fault   process.Fault
		ran     []string
		text    string
	}{
		"it obeys": {signals: []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}, text: "success"},
		"it is deaf": {
			set:     func(w *world, _ *process.Spec, rt *record.Runtime) { w.OnTERM(*rt.Process, func() {}) },
			signals: []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}, took: 10 * time.Second, // and the tree ends
			text: "success: it did not end within 10 s of TERM; drover killed it",
		},
		"its workers stay": {
			set: func(w *world, s *process.Spec, rt *record.Runtime) {
				w.Spawn("worker", "", rt.Run)
				s.StopScope = process.ScopeProcess
			},
			signals: []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT},
			text:    "success: stop_scope: process leaves these running: pid 101 (worker)",
		},
		"the stop command fails": {
			set: func(w *world, s *process.Spec, _ *record.Runtime) {
				s.Stop = "ask"
				w.Script("ask", operationtest.Script{Code: 1})
			},
			signals: []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}, ran: []string{"ask"},
			text: "success: the stop command failed: exit status 1; drover sent TERM",
		},
		"the stop command hangs": {
			set: func(w *world, s *process.Spec, _ *record.Runtime) {
				s.Stop = "ask"
				w.Script("ask", operationtest.Script{Takes: time.Hour})
			},
			signals: []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}, took: 3 * time.Second, ran: []string{"ask"},
			text: "success: the stop command timed out after 3 s, as timeouts.stop says; drover ended it with all processes that " +
				"it had started; drover sent TERM",
		},
		"it obeys another one": {
			set: func(_ *world, s *process.Spec, _ *record.Runtime) {
				s.StopSignals = []v1.StopSignal{{Signal: "QUIT", Wait: v1.Duration(5 * time.Second)}, {Signal: "KILL"}}
			},
			signals: []syscall.Signal{syscall.SIGQUIT, syscall.SIGCONT},
		},
		"it is deaf, and no KILL follows": {
			set: func(w *world, s *process.Spec, rt *record.Runtime) {
				w.OnTERM(*rt.Process, func() {})
				s.StopSignals = s.Signals()[:1]
			},
			signals: []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}, took: 10 * time.Second, fault: process.CheckFailed,
		},
		"its child is deaf": {
			set: func(w *world, s *process.Spec, rt *record.Runtime) {
				w.OnTERM(w.Spawn("child", "", rt.Run), func() {})
				s.StopSignals = []v1.StopSignal{{Signal: "TERM", Wait: v1.Duration(2 * time.Second)}, {Signal: "KILL"}}
			},
			signals: []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT, syscall.SIGTERM}, took: 2 * time.Second,
		},
		"a command asks first": {
			set: func(w *world, s *process.Spec, _ *record.Runtime) {
				s.Stop = "ask"
				w.Script("ask", operationtest.Script{Takes: time.Second})
			},
			signals: []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}, took: 4 * time.Second, ran: []string{"ask"},
			text: "success: it did not end within 3 s of the stop command; drover sent TERM",
		},
		"out of use first": {
			set: func(w *world, s *process.Spec, _ *record.Runtime) {
				s.BeforeStop = &v1.BeforeStop{Run: "drain", Wait: lasting(5 * time.Second)}
				w.Script("drain", operationtest.Script{Takes: time.Second, Code: 1})
			},
			signals: []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}, took: 6 * time.Second, ran: []string{"drain"},
			text: "success: before_stop failed: exit status 1; the process was stopped all the same",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.Script(runLine, operationtest.Script{Takes: time.Hour})
				s := foreground()
				r, _ := w.operate(t, process.Start, s, record.Runtime{})
				if c.set != nil {
					c.set(w, s, &r.Runtime)
				}
				r, took := w.operate(t, process.Stop, s, r.Runtime)
				var signals []syscall.Signal
				for _, sent := range w.Signals() {
					signals = append(signals, sent.Signal)
				}
				if r.Outcome.Fault != c.fault || took != c.took || !slices.Equal(signals, c.signals) ||
					(r.Runtime.Process == nil) != (c.fault == process.None) {
					t.Errorf("%q %q after %v, signals %v, process %v; want %q after %v, signals %v", r.Outcome.Fault,
						r.Outcome.Text, took, signals, r.Runtime.Process, c.fault, c.took, c.signals)
				}
				if c.text != "" && r.Outcome.Text != c.text {
					t.Errorf("it says %q, want %q", r.Outcome.Text, c.text)
				}
				if ran := w.Lines()[1:]; !slices.Equal(ran, c.ran) {
					t.Errorf("commands %q, want %q", ran, c.ran)
				}
			})
		})
	}
}

func TestBeforeStart(t *testing.T) {
	for code, want := range map[int][]string{0: {"check", runLine}, 3: {"check"}} {
		bubble(t, func(t *testing.T, w *world) {
			s := foreground()
			s.BeforeStart = &v1.Before{Run: "check"}
			w.Script("check", operationtest.Script{Takes: time.Second, Code: code, Output: "disk is full"})
			w.Script(runLine, operationtest.Script{Takes: time.Hour})
			r, _ := w.operate(t, process.Start, s, record.Runtime{})
			if failed := r.Outcome.Fault != process.None; failed != (code != 0) || !slices.Equal(w.Lines(), want) ||
				failed && !strings.Contains(r.Outcome.Text, "before_start failed: exit status 3") {
				t.Errorf("exit status %d: %+v, commands %q", code, r.Outcome, w.Lines())
			}
		})
	}
}

// TestLimitOfACommand: the answer about a command that timed out names the field of the process file with its limit.
func TestLimitOfACommand(t *testing.T) {
	for step, want := range map[string]string{
		"check": "before_start failed: timed out after 5 s, as before_start.timeout says; drover ended it",
		"start": "the start command timed out after 60 s, as timeouts.start says; drover ended it",
	} {
		bubble(t, func(t *testing.T, w *world) {
			s := spec()
			s.Compat, s.Timeouts = nil, &v1.Timeouts{Stop: lasting(time.Second)}
			s.BeforeStart = &v1.Before{Run: "check", Timeout: lasting(5 * time.Second)}
			w.Script("check", operationtest.Script{})
			w.Script(step, operationtest.Script{Takes: time.Hour})
			r, _ := w.operate(t, process.Start, s, record.Runtime{})
			if !strings.HasPrefix(r.Outcome.Text, want) || r.Outcome.Cause != process.CauseCommandTimeout {
				t.Errorf("%s: %+v", step, r.Outcome)
			}
		})
	}
}

// TestForegroundFinishes: a process that ends with success while its start is checked has finished, if its policy of
// relaunches says so. An end from before the start does not count.
func TestForegroundFinishes(t *testing.T) {
	for when, want := range map[process.When]process.Fault{
		process.OnFailure: process.None, process.Never: process.None, process.Always: process.CheckFailed,
	} {
		for code := range 2 {
			bubble(t, func(t *testing.T, w *world) {
				w.Script(runLine, operationtest.Script{Takes: 20 * time.Millisecond, Code: code})
				s := foreground()
				s.Restart = &v1.Restart{When: when, SuccessCodes: []v1.Status{"0"}}
				r, _ := w.operate(t, process.Start, s, record.Runtime{LastExit: &process.Exit{Known: true}})
				if code != 0 {
					want = process.CheckFailed
				}
				if r.Outcome.Fault != want || want == process.None && !r.Change.Put.Finished {
					t.Errorf("%s, exit status %d: %+v, %+v", when, code, r.Outcome, r.Change.Put)
				}
			})
		}
	}
}

// TestJobFinishes: a single run in the foreground that ends with success has succeeded, however soon; the start check
// of the wire, by which a process must still be alive, counts for start commands only.
func TestJobFinishes(t *testing.T) {
	for code, want := range map[int]process.Fault{0: process.None, 3: process.Failed} {
		bubble(t, func(t *testing.T, w *world) {
			w.Script(runLine, operationtest.Script{Takes: 20 * time.Millisecond, Code: code})
			s := foreground()
			s.Once = true
			if r, _ := w.operate(t, process.Start, s, record.Runtime{}); r.Outcome.Fault != want {
				t.Errorf("exit status %d: %+v", code, r.Outcome)
			}
		})
	}
}
