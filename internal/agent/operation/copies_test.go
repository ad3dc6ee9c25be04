package operation_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/operation"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// TestStartBesideCopies: a start of the own API fails beside a copy and names it, takes the copy over, or starts all
// the same, as the order says. The compatible APIs do not look.
func TestStartBesideCopies(t *testing.T) {
	ownRun, knownRun := operation.NewRunID(nginx(), "left"), operation.NewRunID(other(), "1")
	const names = "pid 100 [./api --port 1] since 2000-01-01T00:00:00Z"
	for name, c := range map[string]struct {
		// op is a start if it is empty.
		op   process.Op
		wish process.Beside
		// same are the copies with the command line of the spec, alike the others.
		same, alike int
		// number is that of the copy of the process, if it has several.
		number int
		// wire is an order of GSE or JOB, daemon a process of theirs.
		wire, daemon bool
		// known says that another process of drover owns the copies, and stored that the order brings no spec.
		known, stored bool
		// run is that in which the copies were born. ran says that the process has run since it was registered.
		run   string
		ran   bool
		fault process.Fault
		text  string
		// pid is that of the process afterwards.
		pid, commands int
	}{
		"refused": {
			same: 1, fault: process.Failed, text: "a copy of the process runs that drover does not watch: " + names,
		},
		"a restart": {
			op: process.Restart, same: 1, fault: process.Failed, text: "a copy of the process runs that drover does not watch",
		},
		"a restart of GSE": {op: process.Restart, same: 1, wire: true, pid: 101, commands: 1},
		"hosting": {
			op: process.Host, same: 1, fault: process.Failed, text: "a copy of the process runs that drover does not watch",
		},
		"taken over":        {wish: process.TakeOver, same: 1, text: "took over pid 100", pid: 100},
		"the likely one":    {wish: process.TakeOver, alike: 1, same: 1, text: "took over pid 101", pid: 101},
		"taken over, alike": {wish: process.TakeOver, alike: 1, text: "took over pid 100", pid: 100},
		"which one":         {wish: process.TakeOver, same: 2, fault: process.Failed, text: "cannot tell which process"},
		"beside":            {wish: process.StartBeside, same: 1, pid: 101, commands: 1},
		"a stored spec": {
			stored: true, same: 1, fault: process.Failed, text: "drover start --take-over watches it as the process",
		},
		"a stored spec, many copies": {
			stored: true, same: 2, fault: process.Failed, text: "end all but one for drover start --take-over",
		},
		"a stored spec, taken over": {
			stored: true, wish: process.TakeOver, same: 1, text: "took over pid 100", pid: 100,
		},
		"a stored spec, beside": {stored: true, wish: process.StartBeside, same: 1, pid: 101, commands: 1},
		"nothing to take over":  {wish: process.TakeOver, pid: 100, commands: 1},
		"of another name":       {same: 1, known: true, pid: 101, commands: 1},
		"left by a drover": {
			same: 1, run: "0123456789ab-1", fault: process.Failed,
			text: "a copy of the process runs that drover does not watch: " + names,
		},
		"left by a drover, taken over": {
			wish: process.TakeOver, same: 1, run: "0123456789ab-1", text: "took over pid 100, which drover started", pid: 100,
		},
		"of a run of another process": {same: 1, run: knownRun, pid: 101, commands: 1},
		"left by itself": {
			same: 1, run: ownRun, fault: process.Failed, text: "that drover does not watch: " + names,
		},
		"left by itself, taken over": {wish: process.TakeOver, same: 1, run: ownRun, text: "took over pid 100", pid: 100},
		"left before it was registered": {
			stored: true, same: 1, run: ownRun, fault: process.Failed, text: "that drover does not watch: " + names,
		},
		"of its last runs":    {stored: true, ran: true, same: 1, run: ownRun, pid: 101, commands: 1},
		"the compatible APIs": {same: 1, wire: true, pid: 101, commands: 1},
		"their process":       {same: 1, daemon: true, pid: 102, commands: 1},
		"only those that fit": {
			alike: 3, same: 1, fault: process.Failed,
			text: "a copy of the process runs that drover does not watch: pid 103 [./api --port 1] since " +
				"2000-01-01T00:00:00Z. --take-over watches it as the process",
		},
		"of several copies": {
			number: 2, same: 3, fault: process.Failed,
			text: "; pid 102 [./api --port 1] since 2000-01-01T00:00:00Z. --take-over watches one of them as the process, " +
				"--beside starts all the same",
		},
		"of several copies, unlike": {
			number: 2, alike: 2, fault: process.Failed, text: "end all but one for --take-over",
		},
		"many are named by few": {same: 8, fault: process.Failed, text: "; 3 more. end all but one"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				var copies []instance.UnwatchedCopy
				for i := range c.alike + c.same {
					copies = append(copies, instance.UnwatchedCopy{
						ID: w.Spawn("api", "", ""), Cmdline: "./api --port 1", SameLine: i >= c.alike,
						Since: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), Run: c.run,
					})
				}
				w.SetCopies(copies...)
				w.Script(runLine, operationtest.Script{Takes: time.Hour})
				s := foreground()
				s.Beside = c.wish
				if c.daemon {
					s = spec()
				}
				e := entry(cmp.Or(c.op, process.Start), s)
				e.Ordered = !c.wire
				if c.number > 0 {
					e.Process.Name = process.CopyName("api", c.number)
				}
				w.peers.known = operation.PrefixOf(knownRun)
				if c.known {
					w.peers.owner = other()
				}
				subject := operation.Subject{}
				if c.stored {
					s.Beside = process.Refuse
					subject.Record = &record.Record{ID: e.Process, Spec: *s}
					e.Spec, e.Beside = nil, c.wish
				}
				if c.ran {
					subject.Runtime.LastStartAt = 1
				}
				r, err := w.operator.Operate(t.Context(), e, subject)
				if err != nil {
					t.Fatal(err)
				}
				if r.Outcome.Fault != c.fault || !strings.Contains(r.Outcome.Text, c.text) ||
					len(w.Lines()) != c.commands {
					t.Errorf("%q %q, commands %q", r.Outcome.Fault, r.Outcome.Text, w.Lines())
				}
				if c.fault != process.None {
					if r.Change.Put != nil || r.Outcome.Cause != process.CauseCopy {
						t.Errorf("a refused start stores %+v, cause %q", r.Change.Put, r.Outcome.Cause)
					}
					return
				}
				if r.Runtime.Process == nil || r.Runtime.Process.PID != c.pid || !r.Outcome.Hosted ||
					r.Change.Put.Spec.Beside != "" || r.Runtime.Outside != (c.commands == 0 && c.run == "") {
					t.Errorf("runtime %+v, outcome %+v, record %+v", r.Runtime, r.Outcome, r.Change.Put)
				}
				if c.commands == 0 && (r.Runtime.Run == c.run) != (c.run == "" || c.run == ownRun) {
					t.Errorf("run %q of a copy of run %q", r.Runtime.Run, c.run)
				}
			})
		})
	}
}

// TestNameIsNoProof: a daemon without a pid file is what drover has started or taken over. Another process of its name
// is a copy: no operation takes it for the daemon, and none ends it.
func TestNameIsNoProof(t *testing.T) {
	const refused = "a copy of the process runs that drover does not watch: pid 100 [/x1/uniqd] since 2000-01-01T00:00:00Z"
	for name, c := range map[string]struct {
		op   process.Op
		wish process.Beside
		// outside says that another program than the start command starts the daemon, recorded that an older agent has
		// taken the copy for the daemon.
		outside, recorded bool
		fault             process.Fault
		text              string
		// pid is that of the daemon afterwards.
		pid int
	}{
		"a start":    {op: process.Start, fault: process.Failed, text: refused},
		"a restart":  {op: process.Restart, fault: process.Failed, text: refused},
		"hosting":    {op: process.Host, fault: process.Failed, text: refused},
		"a stop":     {op: process.Stop, fault: process.NotRunning, text: "nothing to stop: process uniqd is not running"},
		"a kill":     {op: process.Kill, fault: process.NotRunning, text: "nothing to kill: process uniqd is not running"},
		"beside":     {op: process.Start, wish: process.StartBeside, text: process.Success, pid: 102},
		"taken over": {op: process.Start, wish: process.TakeOver, text: "took over pid 100", pid: 100},
		"started by another program": {
			op: process.Start, wish: process.StartBeside, outside: true, text: process.Success, pid: 102,
		},
		"a restart of an older agent's": {
			op: process.Restart, recorded: true, fault: process.Failed, pid: 100,
			text: "cannot stop pid 100: drover has not started it, and its name alone does not prove that it is the process",
		},
		"an older agent's, taken over": {
			op: process.Start, wish: process.TakeOver, recorded: true, fault: process.AlreadyRunning, pid: 100,
			text: "nothing to start",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				copied := w.Spawn("uniqd", "", "")
				w.SetCopies(instance.UnwatchedCopy{ID: copied, Cmdline: "/x1/uniqd", Since: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)})
				time.Sleep(time.Minute)
				w.Script("uniqd &", operationtest.Script{Takes: time.Second, End: func(run string) {
					if c.outside {
						run = ""
					}
					w.Spawn("uniqd", "", run)
				}})
				s := foreground()
				s.ProcessName, s.Run, s.Start = "uniqd", "", "uniqd &"
				e := entry(c.op, s)
				e.Ordered, e.Beside = true, c.wish
				var subject operation.Subject
				if c.recorded {
					subject.Runtime.Process = &copied
				}
				r, err := w.operator.Operate(t.Context(), e, subject)
				if err != nil {
					t.Fatal(err)
				}
				if r.Outcome.Fault != c.fault || !strings.Contains(r.Outcome.Text, c.text) {
					t.Errorf("%q %q", r.Outcome.Fault, r.Outcome.Text)
				}
				pid := 0
				if r.Runtime.Process != nil {
					pid = r.Runtime.Process.PID
				}
				if alive, _ := w.Glance(copied); pid != c.pid || !alive {
					t.Errorf("the process has pid %d, want %d; the copy lives: %v", pid, c.pid, alive)
				}
				if c.wish != process.TakeOver {
					return
				}
				// Its restart ends what was taken over.
				e = entry(process.Restart, s)
				e.Item, e.Ordered = "restart", true
				r, err = w.operator.Operate(t.Context(), e, operation.Subject{Runtime: r.Runtime})
				if alive, _ := w.Glance(copied); err != nil || r.Outcome.Fault != process.None || alive || r.Runtime.Adopted {
					t.Errorf("%+v, %v; the copy lives: %v", r.Outcome, err, alive)
				}
			})
		})
	}
}

// TestNameIsNoProofForARelaunch: a daemon that has ended is relaunched beside another process of its name.
func TestNameIsNoProofForARelaunch(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.Spawn("uniqd", "", "")
		time.Sleep(time.Minute)
		w.Script("uniqd &", operationtest.Script{End: func(run string) { w.Spawn("uniqd", "", run) }})
		s := foreground()
		s.ProcessName, s.Run, s.Start = "uniqd", "", "uniqd &"
		rec := record.Record{ID: nginx(), Spec: *s, Hosted: true}
		r, err := w.operator.Relaunch(t.Context(), rec, record.Runtime{})
		if err != nil || r.Runtime.Process == nil || r.Runtime.Process.PID != 102 || r.Runtime.Outside {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestTakeOverOfAnEarlierAgent: an agent that dies during a take-over leaves the copy alone, and the next one takes it.
func TestTakeOverOfAnEarlierAgent(t *testing.T) {
	for n := 1; ; n++ {
		over := false
		bubble(t, func(t *testing.T, w *world) {
			id := w.Spawn("api", "", "")
			w.SetCopies(instance.UnwatchedCopy{ID: id, SameLine: true})
			s := foreground()
			s.Beside = process.TakeOver
			e := entry(process.Start, s)
			e.Ordered = true
			r, killed := w.life(t, e, operation.Subject{}, n)
			if killed {
				r, _ = w.life(t, e, operation.Subject{}, 1000)
			}
			over = !killed
			if r.Runtime.Process == nil || *r.Runtime.Process != id || len(w.Lines()) != 0 {
				t.Errorf("killed at write %d: %+v, commands %q", n, r, w.Lines())
			}
		})
		if over {
			return
		}
	}
}

// TestTakeOverOfCopies: copies of a process take over equal processes, each its own, in the order of the pids; what
// differs is not theirs, and what another process of drover has stays with it.
func TestTakeOverOfCopies(t *testing.T) {
	for name, c := range map[string]struct {
		alike int
		// copies take over one after the other; want are their pids, 0 for a refusal.
		copies, want []int
	}{
		"in order":           {copies: []int{1, 2, 3}, want: []int{100, 101, 102}},
		"in another order":   {copies: []int{3, 1, 2}, want: []int{102, 100, 101}},
		"fewer copies":       {copies: []int{1, 2}, want: []int{100, 101}},
		"others than from 1": {copies: []int{7, 9}, want: []int{100, 101}},
		"more copies":        {copies: []int{1, 2, 3, 4}, want: []int{100, 101, 102, 0}},
		"again":              {copies: []int{2, 2}, want: []int{101, 101}},
		"beside another":     {alike: 1, copies: []int{1, 2}, want: []int{101, 102}},
	} {
		bubble(t, func(t *testing.T, w *world) {
			var copies []instance.UnwatchedCopy
			for i := range 3 + c.alike {
				copies = append([]instance.UnwatchedCopy{{ID: w.Spawn("api", "", ""), SameLine: i >= c.alike}}, copies...)
			}
			w.SetCopies(copies...)
			s := foreground()
			s.Beside = process.Adopt
			for i, number := range c.copies {
				e := entry(process.Start, s)
				e.Item, e.Process.Name = name+string(rune('a'+i)), process.CopyName("api", number)
				e.Ordered = true
				r, err := w.operator.Operate(t.Context(), e, operation.Subject{})
				if err != nil {
					t.Fatal(err)
				}
				pid := 0
				if r.Runtime.Process != nil {
					pid = r.Runtime.Process.PID
				}
				if pid == 0 && !strings.Contains(r.Outcome.Text, "other processes of drover take over all that fit") {
					t.Errorf("%s: %s", name, r.Outcome.Text)
				}
				if pid != c.want[i] || (pid == 0) != (r.Outcome.Fault != process.None) {
					t.Errorf("%s: copy %d has pid %d, want %d: %s", name, number, pid, c.want[i], r.Outcome.Text)
				}
			}
		})
	}
}

// TestTakeOverOfAPid: a pid counts with the time at which its process began, because pids are used again.
func TestTakeOverOfAPid(t *testing.T) {
	for _, late := range []uint64{0, 1} {
		bubble(t, func(t *testing.T, w *world) {
			c := instance.UnwatchedCopy{ID: w.Spawn("api", "", "")}
			w.SetCopies(c)
			s := foreground()
			s.Beside = process.Adopt.WithPID(c.ID.PID, c.ID.StartTicks-late)
			r, _ := w.operate(t, process.Start, s, record.Runtime{})
			if taken := r.Runtime.Process != nil; taken != (late == 0) {
				t.Errorf("a process that began %d ticks after the one that was named: taken over %v, %+v", late, taken, r.Outcome)
			}
		})
	}
}

// TestStopOfADroversOwn: a stop of a process that was taken over does not say that drover had not started it, if an
// earlier process of drover has.
func TestStopOfADroversOwn(t *testing.T) {
	for run, want := range map[string]bool{"": true, "0123456789ab-1": false} {
		bubble(t, func(t *testing.T, w *world) {
			w.SetCopies(instance.UnwatchedCopy{ID: w.Spawn("api", "", ""), SameLine: true, Run: run})
			s := foreground()
			s.Beside = process.TakeOver
			r, _ := w.operate(t, process.Start, s, record.Runtime{})
			r, _ = w.operate(t, process.Stop, foreground(), r.Runtime)
			if r.Outcome.Fault != process.None || strings.Contains(r.Outcome.Text, "drover had not started it") != want {
				t.Errorf("run %q: %+v", run, r.Outcome)
			}
		})
	}
}
