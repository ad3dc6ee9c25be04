package story_test

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/record"
	"drover/internal/agent/story"
	"drover/internal/process"
	"drover/internal/spec"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// running returns a process of that kind that runs as pid 7 since one minute.
func running(kind process.Kind) story.Process {
	kind = cmp.Or(kind, process.Resident)
	rec := &record.Record{Hosted: true}
	switch kind {
	case process.Periodic:
		rec.Spec.Schedule = &spec.Schedule{}
	case process.SingleRun:
		rec.Spec.Once = true
	case process.Resident:
	}
	p := story.Process{Record: rec, Bounds: lifecycle.Bounds{Flaps: 3, FlapWindow: time.Hour}}
	p.Runtime.Process = &instance.Identity{PID: 7}
	p.Runtime.Run, p.Runtime.LastStartAt = "run", now.Add(-time.Minute).Unix()
	p.Machine.State = lifecycle.Running
	return p
}

func change(from, to lifecycle.State) story.Change {
	return story.Change{From: from, To: to, Now: now, Uptime: time.Hour}
}

func kinds(events []process.Event) string {
	var all []string
	for _, e := range events {
		all = append(all, string(e.Kind))
	}
	return strings.Join(all, " ")
}

// TestEvidenceOfAnEnd: the dossier has what is known of the instance that ended, and nothing of the one before.
func TestEvidenceOfAnEnd(t *testing.T) {
	at := now.UnixMilli()
	for name, c := range map[string]struct {
		how    process.Exit
		usage  *process.Usage
		health *process.Answer
		marks  instance.Marks
		tasks  int64
		files  int64
		output string
		want   []string
	}{
		"all": {
			how:    process.Exit{Known: true, Code: 1, At: at, Peak: 300<<20 + 1<<19},
			usage:  &process.Usage{CPU: 12.34, Mem: 5, Processes: 3, Files: 1020, At: at - 20_000},
			health: &process.Answer{Text: "status 503", At: at - 4_000, Failures: 1},
			want: []string{
				"its memory had grown to 300.5 MiB at most",
				"20s before its end it used 12.3% of the host's processors and 5.0% of the host's memory, " +
					"with 3 processes and 1020 open files",
				"its last health check, 4s before its end, failed: status 503",
			},
		},
		"near its limit of open files": {
			how:   process.Exit{Known: true, Code: 1, At: at},
			usage: &process.Usage{Processes: 1, Files: 922, At: at - 20_000}, files: 1024,
			want: []string{
				"20s before its end it used 0.0% of the host's processors and 0.0% of the host's memory, with 1 process and 922 open files",
				"its spec limits the open files of each process to 1024",
			},
		},
		"says that its limit of open files is reached": {
			how: process.Exit{Known: true, Code: 1, At: at}, files: 40, output: "accept: Too many open files",
			want: []string{"its spec limits the open files of each process to 40", "its last output:\naccept: Too many open files"},
		},
		"far from its limit of open files": {
			how:   process.Exit{Known: true, Code: 1, At: at},
			usage: &process.Usage{Processes: 1, Files: 921, At: at - 20_000}, files: 1024,
			want: []string{
				"20s before its end it used 0.0% of the host's processors and 0.0% of the host's memory, with 1 process and 921 open files",
			},
		},
		"marks of the group": {
			how:   process.Exit{Known: true, Code: 1, At: at},
			marks: instance.Marks{Peak: 5 << 20, Refused: 3}, tasks: 64,
			want: []string{
				"the memory of its run had grown to 5.0 MiB at most, with cached files",
				"its limit of 64 tasks was reached: the kernel refused 3 processes or threads",
			},
		},
		"refused by another limit": {how: process.Exit{Known: true, Code: 1, At: at}, marks: instance.Marks{Refused: 3}},
		"nothing":                  {how: process.Exit{Known: true, Code: 1, At: at}},
		"of the instance before": {
			how:    process.Exit{Known: true, Code: 1, At: at},
			usage:  &process.Usage{CPU: 1, Processes: 1, At: at - 61_000},
			health: &process.Answer{Text: "status 503", At: at - 61_000},
		},
		"healthy": {how: process.Exit{Known: true, At: at}, health: &process.Answer{OK: true, At: at - 1_000}},
	} {
		t.Run(name, func(t *testing.T) {
			p := running(process.Resident)
			p.Record.Spec.Limits = &spec.Limits{Tasks: c.tasks, OpenFiles: spec.LimitNumber(c.files)}
			p.BlameExit(now, 7, &c.how, "ended so", "")
			was := story.End{
				PID: 7, How: &c.how, Why: p.Cause(), Began: p.Runtime.LastStartAt, Usage: c.usage, Health: c.health,
				Marks: c.marks, Words: c.output,
			}
			p.Machine.State = lifecycle.Starting
			p.Ended(change(lifecycle.Running, lifecycle.Starting), was, nil)
			want := append([]string{"it had run for 1m0s"}, c.want...)
			if got := p.Runtime.Cause.Evidence; !slices.Equal(got, want) {
				t.Errorf("evidence %q, want %q", got, want)
			}
		})
	}
}

// TestEnded: who ended a process, and what comes of it, follows from how it ended and from what it is.
func TestEnded(t *testing.T) {
	failed := &record.PendingStop{Op: process.Kill, Item: "i", Actor: process.Actor{User: "ann"}}
	for name, c := range map[string]struct {
		kind  process.Kind
		how   *process.Exit
		to    lifecycle.State
		asked *record.PendingStop
		tells string
		cause process.CauseID
		actor string
	}{
		"an exit status": {
			how: &process.Exit{Known: true, Code: 3}, to: lifecycle.Starting,
			tells: "exited", cause: process.CauseExitStatus, actor: process.ActorSelf,
		},
		"a signal from outside": {
			how: &process.Exit{Known: true, Signal: 9}, to: lifecycle.Starting,
			tells: "exited", cause: process.CauseSignal, actor: process.ActorOutside,
		},
		"the kernel": {
			how: &process.Exit{Known: true, Signal: 9, OOM: true}, to: lifecycle.Starting,
			tells: "exited", cause: process.CauseOOM, actor: process.ActorKernel,
		},
		"the last relaunch": {
			how: &process.Exit{Known: true, Code: 3}, to: lifecycle.GivenUp,
			tells: "exited given-up", cause: process.CauseExitStatus, actor: process.ActorSelf,
		},
		"unseen": {how: &process.Exit{}, to: lifecycle.Starting, tells: "exited", cause: process.CauseUnseen},
		"a run that succeeded": {
			kind: process.Periodic, how: &process.Exit{Known: true}, to: lifecycle.Scheduled,
			tells: "run-ended", cause: process.CauseFinished, actor: process.ActorSelf,
		},
		"a run that failed": {
			kind: process.SingleRun, how: &process.Exit{Known: true, Code: 1}, to: lifecycle.Finished,
			tells: "run-failed", cause: process.CauseRunFailed, actor: process.ActorSelf,
		},
		"a late end of a kill": {
			how: &process.Exit{Known: true, Signal: 9}, to: lifecycle.Stopped, asked: failed,
			tells: "killed", cause: process.CauseStopped, actor: process.ActorCaller,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := running(c.kind)
			p.Record.Rest = process.Cause{ID: process.CauseStopped}
			p.BlameExit(now, 7, c.how, "ended so", "")
			was := story.End{PID: 7, How: c.how, Why: p.Cause(), Began: p.Runtime.LastStartAt, Words: "a\nb"}
			p.Machine.State = c.to
			events := p.Ended(change(lifecycle.Running, c.to), was, c.asked)
			if kinds(events) != c.tells {
				t.Fatalf("it tells %q, want %q", kinds(events), c.tells)
			}
			e := events[0]
			if e.Cause.ID != c.cause || e.Actor.Kind != c.actor || e.PID != 7 || e.RunTime != 60_000 ||
				e.Output != "a\nb" {
				t.Errorf("the event is %+v", e)
			}
			if c.asked != nil {
				return
			}
			want := []string{"it had run for 1m0s", "its last output:\na\nb"}
			if got := p.Runtime.Cause.Evidence; !slices.Equal(got, want) {
				t.Errorf("evidence %q, want %q", got, want)
			}
			if runs := p.History.Runs; (len(runs) == 1) != p.KeepsRuns() || len(runs) == 1 && runs[0].Ended == 0 {
				t.Errorf("runs %+v", runs)
			}
		})
	}
}

// TestOperated walks through every operation with every outcome, before and after every state, for every kind.
func TestOperated(t *testing.T) {
	faults := []process.Fault{
		process.None, process.Failed, process.CheckFailed, process.NotRunning, process.AlreadyRunning,
		process.IllegalOp, process.AlreadyRegistered, process.AgentUnavailable,
	}
	silent := []process.Fault{
		process.AlreadyRunning, process.IllegalOp, process.AlreadyRegistered, process.AgentUnavailable,
	}
	states := lifecycle.States()
	told := 0
	for _, info := range process.Ops() {
		for _, fault := range faults {
			for _, kind := range []process.Kind{process.Resident, process.Periodic, process.SingleRun} {
				for _, from := range states {
					for _, to := range states {
						p, before := running(kind), running(kind)
						p.Machine.State = to
						p.Runtime.LastExit = &process.Exit{Known: true, Code: 1, At: now.UnixMilli()}
						if to != lifecycle.Running {
							p.Runtime.Process, p.Runtime.Ended = nil, p.Runtime.Process
						}
						entry := &record.Entry{Op: info.Op, Item: "item", Actor: process.Actor{User: "ann"}}
						events := p.Operated(change(lifecycle.Operating, to), &story.Operation{
							Entry: entry, Outcome: process.Outcome{Fault: fault, Text: strings.Repeat("x\x01", 400)},
							Stored: info.Op == process.Stop || info.Op == process.Kill,
							Record: before.Record, Runtime: before.Runtime, Prior: from, Since: now.UnixMilli(),
							How: "exit status 1",
						})
						told += len(events)
						none := slices.Contains(silent, fault) || fault == process.None && info.Event == ""
						if none && len(events) > 0 {
							t.Fatalf("%s with fault %q tells %q", info.Op, fault, kinds(events))
						}
						for _, e := range events {
							operatedEvent(t, info.Op, fault, &e)
						}
					}
				}
			}
		}
	}
	if told == 0 {
		t.Error("no operation tells anything")
	}
}

func operatedEvent(t *testing.T, op process.Op, fault process.Fault, e *process.Event) {
	t.Helper()
	states := lifecycle.States()
	if !slices.Contains(states, lifecycle.State(e.From)) || !slices.Contains(states, lifecycle.State(e.To)) ||
		e.From == string(lifecycle.Operating) && e.To != e.From {
		// An operation is told with the state before it, which may be that of another operation only in this walk.
		if e.From != string(lifecycle.Operating) {
			t.Fatalf("%s with fault %q goes from %q to %q", op, fault, e.From, e.To)
		}
	}
	caller := e.Actor == process.Actor{Kind: process.ActorCaller, User: "ann", Operation: "item"}
	if e.Kind == "" || e.Kind != process.EventRunEnded && !caller {
		t.Fatalf("%s with fault %q: %+v", op, fault, *e)
	}
	failed := fault == process.Failed || fault == process.CheckFailed
	if failed != (e.Kind == process.EventFailed) && e.Kind != process.EventRunEnded {
		t.Fatalf("%s with fault %q tells %q", op, fault, e.Kind)
	}
	if utf8.RuneCountInString(e.Cause.Text) > 200 || strings.Contains(e.Cause.Text, "\x01") {
		t.Fatalf("%s with fault %q says %q", op, fault, e.Cause.Text)
	}
}

// TestCauseOfSuccess: the event of a stop says what was needed for it, and the event of a start that it took over.
func TestCauseOfSuccess(t *testing.T) {
	for _, c := range []struct {
		op      process.Op
		adopted bool
		text    string
		want    string
	}{
		{process.Stop, false, "success: drover killed it", "drover killed it"},
		{process.Stop, false, "success", ""},
		{process.Start, true, "success: took over pid 7", "took over pid 7"},
		{process.Start, false, "success: a note", ""},
	} {
		p, before := running(process.Resident), running(process.Resident)
		p.Runtime.Adopted, p.Runtime.Run = c.adopted, ""
		events := p.Operated(change(lifecycle.Operating, lifecycle.Running), &story.Operation{
			Entry: &record.Entry{Op: c.op}, Outcome: process.Outcome{Text: c.text}, Record: before.Record,
			Runtime: before.Runtime, Prior: lifecycle.Stopped,
		})
		if len(events) != 1 || events[0].Cause.Text != c.want {
			t.Errorf("%s with %q: %+v, want %q", c.op, c.text, events, c.want)
		}
	}
}

// TestAnUnknownEndIsNoSuccess: if nobody knows how the run of an operation ended, no event says that it succeeded.
func TestAnUnknownEndIsNoSuccess(t *testing.T) {
	since := now.UnixMilli()
	for name, exit := range map[string]*process.Exit{
		"none": nil, "one of before": {Known: true, At: since - 1}, "unknown": {At: since},
	} {
		for _, fault := range []process.Fault{process.None, process.Failed} {
			p := running(process.SingleRun)
			p.Runtime.Process, p.Runtime.LastStartAt, p.Runtime.LastExit = nil, now.Unix(), exit
			events := p.Operated(change(lifecycle.Operating, lifecycle.Finished), &story.Operation{
				Entry:   &record.Entry{Op: process.Start, Item: "item"},
				Outcome: process.Outcome{Fault: fault, Text: "run failed: exit status 8"}, Since: since,
			})
			if told := kinds(events); strings.Contains(told, string(process.EventRunEnded)) {
				t.Errorf("%s, fault %q: %s", name, fault, told)
			}
		}
	}
}

// TestRuns: whatever happens, at most the newest run is open, and the history has a bound.
func TestRuns(t *testing.T) {
	p := running(process.Periodic)
	c := change(lifecycle.Starting, lifecycle.Running)
	for i := range 25 {
		c.Now = now.Add(time.Duration(i) * time.Minute)
		p.Runtime.Process = &instance.Identity{PID: 100 + i}
		switch i % 3 {
		case 0:
			p.Relaunched(c, 0, process.Cause{})
		case 1: // the end of the run before was not seen
			p.Relaunched(c, 0, process.Cause{})
			p.Relaunched(c, 0, process.Cause{}) // an earlier agent had come so far
			how := &process.Exit{Known: true}
			p.Ended(story.Change{From: lifecycle.Running, To: lifecycle.Scheduled, Now: c.Now},
				story.End{PID: 100 + i, How: how, Began: c.Now.Unix()}, nil)
		case 2:
			p.RelaunchFailed(c, 0, process.Cause{Text: "no"})
		}
		for j, run := range p.History.Runs {
			if j > 0 && run.Ended == 0 || j > 0 && run.Started > p.History.Runs[j-1].Started {
				t.Fatalf("after %d: run %d is %+v", i, j, run)
			}
		}
	}
	if len(p.History.Runs) != 10 {
		t.Errorf("%d runs", len(p.History.Runs))
	}
}

// TestTextsOfTheUnhealthy: failed checks have a count, and the word of the process itself has none.
func TestTextsOfTheUnhealthy(t *testing.T) {
	for want, a := range map[string]process.Answer{
		"the health check failed: no answer":                  {Text: "no answer", Failures: 1},
		"the health check failed 3 times in a row: no answer": {Text: "no answer", Failures: 3},
		"the process itself said WATCHDOG=trigger": {
			Text: "the process itself said WATCHDOG=trigger", Failures: 3, Said: true,
		},
	} {
		p := running(process.Resident)
		a.Bad = true
		p.Runtime.Health = &a
		s := p.Status(story.View{Now: now, Uptime: time.Minute, Instance: &process.Instance{PID: 7}})
		if e := p.HealthChanged(&a); e.Cause.Text != want || s.Cause.Text != want || s.Cause.ID != process.CauseUnhealthy {
			t.Errorf("it says %q and %q, want %q", e.Cause.Text, s.Cause.Text, want)
		}
	}
}

// TestCauseOfFlapping: up or down, the reason for its ends comes before the number of its relaunches.
func TestCauseOfFlapping(t *testing.T) {
	p := running(process.Resident)
	p.Machine.State, p.Runtime.Process = lifecycle.Backoff, nil
	p.Runtime.Relaunches = []time.Duration{1, 2, 3, 4}
	p.Blame(now, process.CauseExitStatus, "exit status 3")
	p.Runtime.Failing = now.Add(-time.Hour).UnixMilli()
	s := p.Status(story.View{Now: now, Uptime: time.Minute})
	if s.State != story.Flapping || s.Cause.ID != process.CauseExitStatus || s.Cause.Since != p.Runtime.Failing ||
		len(s.Further) != 1 || s.Further[0].ID != process.CauseFlapping {
		t.Errorf("state %s, cause %+v, further %+v", s.State, s.Cause, s.Further)
	}
	p.Runtime.Cause = process.Cause{}
	if s := p.Status(story.View{Now: now, Uptime: time.Minute}); s.Cause.ID != process.CauseFlapping {
		t.Errorf("without a reason: %+v", s.Cause)
	}
	// It is up again, for the time being: the causes are the same.
	up := running(process.Resident)
	up.Runtime.Relaunches, up.Runtime.Failing = p.Runtime.Relaunches, p.Runtime.Failing
	up.Runtime.FailingBy, up.Machine.Attempts = "exit-status: exit status 3", 3
	up.Blame(now, process.CauseRelaunched, "exit status 3; relaunched as pid 8")
	s = up.Status(story.View{Now: now, Uptime: time.Minute})
	if s.State != story.Flapping || s.Cause.ID != process.CauseExitStatus || s.Cause.Since != p.Runtime.Failing ||
		len(s.Further) != 1 || s.Further[0].ID != process.CauseFlapping {
		t.Errorf("up: state %s, cause %+v, further %+v", s.State, s.Cause, s.Further)
	}
}

// TestFlappingEnds: it lasts until a run has lasted, or until drover does not relaunch the process any more. A pause
// that has grown ends nothing.
func TestFlappingEnds(t *testing.T) {
	for _, c := range []struct {
		name     string
		state    lifecycle.State
		attempts int
		lately   bool // relaunched often within the window
		want     bool
		told     process.EventKind
	}{
		{"waits in a long pause", lifecycle.Backoff, 9, false, true, ""},
		{"is being relaunched", lifecycle.Starting, 9, false, true, ""},
		{"runs since a moment", lifecycle.Running, 9, false, true, ""},
		{"a run has lasted", lifecycle.Running, 0, false, false, process.EventSteady},
		{"dies after each run that lasted", lifecycle.Running, 0, true, true, ""},
		{"given up", lifecycle.GivenUp, 9, false, true, ""},
		{"an operation holds it", lifecycle.Operating, 9, false, true, ""},
		{"its agent has just begun", lifecycle.Unknown, 9, false, true, ""},
		{"ended with success", lifecycle.Finished, 9, false, false, process.EventSteady},
		{"stopped", lifecycle.Stopped, 0, true, false, ""},
	} {
		p := running(process.Resident)
		p.Machine = lifecycle.Machine{State: c.state, Attempts: c.attempts}
		p.Runtime.Flaps = now.Add(-time.Hour).UnixMilli()
		uptime := 2 * time.Hour
		if c.lately {
			for i := range 4 {
				p.Runtime.Relaunches = append(p.Runtime.Relaunches, uptime-time.Duration(i)*time.Minute)
			}
			slices.Reverse(p.Runtime.Relaunches)
		}
		if p.IsFlapping(uptime) != c.want || p.Status(story.View{Now: now, Uptime: uptime}).Flapping != c.want {
			t.Errorf("%s: flapping is not %v", c.name, c.want)
		}
		var told process.EventKind
		for _, e := range p.Flapping(story.Change{Now: now, Uptime: uptime}) {
			told = e.Kind
		}
		if told != c.told || (p.Runtime.Flaps != 0) != c.want {
			t.Errorf("%s: event %q, want %q; since %d", c.name, told, c.told, p.Runtime.Flaps)
		}
	}
}

// TestCausesOfAStatus: all that is wrong is shown, the main cause first, and a copy is left alone.
func TestCausesOfAStatus(t *testing.T) {
	p := running(process.Resident)
	p.Record.Spec.ExpectedInstances = new(2)
	p.Runtime.Matches = 1
	p.Runtime.Health = &process.Answer{Bad: true, Text: "no answer", Failures: 3}
	p.Runtime.OOM = record.OOM{Run: "run", Workers: 2, At: now.Add(-time.Minute).UnixMilli()}
	p.Runtime.Relaunches = []time.Duration{1, 2, 3, 4}
	before := p
	s := p.Status(story.View{
		Now: now, Uptime: time.Minute, Instance: &process.Instance{PID: 7, Stat: "T"}, Findings: []process.Cause{{ID: process.CauseNotInForce, Text: "no limits here"}},
	})
	var got []string
	for _, c := range append([]process.Cause{s.Cause}, s.Further...) {
		got = append(got, string(c.ID))
	}
	want := []string{
		string(process.CauseSuspended),
		string(process.CauseFlapping), string(process.CauseUnhealthy), string(process.CauseWorkerOOM),
		string(process.CauseTooFew), string(process.CauseNotInForce),
	}
	if !slices.Equal(got, want) || s.State != story.Flapping || s.Message != s.Cause.Text {
		t.Errorf("state %s, causes %q, want %q", s.State, got, want)
	}
	later := p.Status(story.View{
		Now: now.Add(2 * time.Hour), Uptime: 3 * time.Hour, Instance: &process.Instance{PID: 7},
	})
	if later.State != story.Unhealthy || later.Cause.ID != process.CauseUnhealthy || len(later.Further) != 1 {
		t.Errorf("two hours later: %s, %+v, %+v", later.State, later.Cause, later.Further)
	}
	if before.Runtime.Cause.ID != p.Runtime.Cause.ID || len(before.Runtime.Relaunches) != len(p.Runtime.Relaunches) {
		t.Error("a status changes the process")
	}
}

// TestOtherSupervisors: what another drover or another supervisor does comes first, with its age.
func TestOtherSupervisors(t *testing.T) {
	p := running(process.Resident)
	p.Rival, p.RivalSince = 81, 5_000
	p.Runtime.ForeignSupervisor = &instance.ForeignSupervisor{Name: "nginx.service", Since: 4_000}
	s := p.Status(story.View{Now: now, Uptime: time.Minute, Instance: &process.Instance{PID: 7}})
	if s.Cause.ID != process.CauseRival || s.Cause.Since != 5_000 || len(s.Further) != 1 ||
		s.Further[0].ID != process.CauseKept || s.Further[0].Since != 4_000 {
		t.Errorf("%+v, %+v", s.Cause, s.Further)
	}
}

// TestTheEndOfACommandIsNotYetThatOfItsRun: while drover looks for the process that the command has left behind,
// nothing is wrong.
func TestTheEndOfACommandIsNotYetThatOfItsRun(t *testing.T) {
	p := running(process.Periodic)
	p.BlameExit(now, 7, &process.Exit{Known: true}, "exit status 0", "")
	for awaits, want := range map[lifecycle.Await]process.CauseID{
		lifecycle.Successor: "", lifecycle.Nothing: process.CauseExited,
	} {
		p.Machine.Awaits = awaits
		if s := p.Status(story.View{Now: now, Uptime: time.Minute}); s.Cause.ID != want {
			t.Errorf("awaits %q: cause %q, want %q", awaits, s.Cause.ID, want)
		}
	}
}

// TestAnOperationOfAnEarlierAgent is told from what the journal has.
func TestAnOperationOfAnEarlierAgent(t *testing.T) {
	failed := process.Outcome{Fault: process.Failed, Text: "no such user", Cause: process.CauseCommandFailed}
	for name, c := range map[string]struct {
		op      process.Op
		outcome process.Outcome
		ended   bool
		want    []process.Event
	}{
		"start": {process.Start, process.Outcome{}, false, []process.Event{{Kind: process.EventStarted, PID: 7}}},
		"stop":  {process.Stop, process.Outcome{}, true, []process.Event{{Kind: process.EventStopped, PID: 6}}},
		"failure": {process.Start, failed, true, []process.Event{{
			Kind: process.EventFailed, PID: 6, Cause: process.Cause{ID: process.CauseCommandFailed, Text: "no such user"},
		}}},
		"needless": {process.Start, process.Outcome{Fault: process.AlreadyRunning}, false, nil},
	} {
		p := running(process.Resident)
		if c.ended {
			p.Runtime.Process, p.Runtime.Ended = nil, &instance.Identity{PID: 6}
		}
		for i := range c.want {
			c.want[i].At = 3000
			c.want[i].Actor = process.Actor{Kind: process.ActorCaller, App: "app", Operation: "item-1"}
		}
		got := p.OperatedBefore(&record.Entry{
			Item: "item-1", Op: c.op, Actor: process.Actor{App: "app"}, Outcome: &c.outcome, Ended: 3000,
		})
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestCauseOfLastRun: an update of a process whose single run is over changes nothing about what became of that run.
func TestCauseOfLastRun(t *testing.T) {
	for name, c := range map[string]struct {
		exit *process.Exit
		want process.CauseID
		text string
	}{
		"failed":    {&process.Exit{Known: true, Code: 7}, process.CauseRunFailed, "pid 7 exit status 7 at 2026-03-01T12:00:00Z"},
		"succeeded": {&process.Exit{Known: true}, process.CauseFinished, "pid 7 exit status 0 at 2026-03-01T12:00:00Z"},
		"unseen":    {nil, process.CauseUnseen, "pid 7 ended, and drover did not see how"},
	} {
		p := running(process.SingleRun)
		p.Machine.State, p.Runtime.Process = lifecycle.Finished, nil
		p.History.Runs = []process.Run{{Started: 1, Ended: now.UnixMilli(), PID: 7, Exit: c.exit}}
		s := p.Status(story.View{Now: now})
		if s.Cause.ID != c.want || s.Cause.Text != c.text || s.Message != c.text {
			t.Errorf("%s: %+v, message %q", name, s.Cause, s.Message)
		}
		if bad := c.want != process.CauseFinished; s.EndedBadly() != bad {
			t.Errorf("%s: it has ended badly: %v", name, !bad)
		}
	}
}

// TestStopping: what an operation ends is shown as stopping, once the operation does not wait any more.
func TestStopping(t *testing.T) {
	for want, active := range map[string]story.Active{
		"stopping":  {Op: process.Stop},
		"operating": {Op: process.Stop, Waits: "ns/b is not stopped"},
	} {
		p := running(process.Resident)
		p.Machine.State, p.Active = lifecycle.Operating, active
		if got := p.StateName(time.Hour); got != want {
			t.Errorf("%+v is shown as %s, want %s", active, got, want)
		}
	}
}
