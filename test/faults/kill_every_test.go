package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// A short run strikes one moment in so many; a long one (make chaos) strikes them all.
const shortStride = 6

// TestI1_I2_I3_KillAtEveryMoment kills drover at every moment of every operation: both halves in one process, the
// server alone, the agent alone; and every second time the successor too, at its first write. A task that was answered
// with an id ends as it does without a kill, and its commands have run as often; one that was not answered was carried
// out once or not at all.
func TestI1_I2_I3_KillAtEveryMoment(t *testing.T) {
	t.Parallel()
	stride := shortStride
	if judge.Long() {
		stride = 1
	}
	parts := []string{roleDev, roleServer, roleAgent}
	for i, victim := range parts {
		for j, op := range []int{
			judge.Start, judge.Stop, judge.Query, judge.Host, judge.Unhost, judge.Restart,
			judge.Reload, judge.Kill,
		} {
			if j%len(parts) != i && !judge.Long() {
				continue // each operation with one part that dies, and each part with some operations
			}
			t.Run(fmt.Sprintf("%s op %d", victim, op), func(t *testing.T) {
				t.Parallel()
				a := &attack{rig: newRig(t), role: victim, op: op}
				a.strikeAll(i+j, stride)
			})
		}
	}
}

// attack is one operation, carried out again and again on processes that are alike, under a drover of which one part
// dies.
type attack struct {
	*rig
	role string // of the part that dies
	op   int
	// before and after are what is to be seen of a process, without a kill.
	before, after trace
	// other is a process from which nothing is counted.
	other *harness.Process
}

// trace is what an operation leaves.
type trace struct {
	hosted, running bool
	ran             string
}

func (a *attack) strikeAll(first, stride int) {
	a.t.Helper()
	all := a.rehearse()
	if len(all) <= stride {
		stride = 1 // so few that all can be struck
	}
	var chosen []string
	for i, moment := range all {
		if (i+first)%stride == 0 {
			chosen = append(chosen, moment)
		}
	}
	if !slices.ContainsFunc(chosen, func(moment string) bool { return !mayBeMissed(moment) }) {
		chosen = append(chosen, all[len(all)-1])
	}
	processes := make([]*harness.Process, len(chosen))
	var setups sync.WaitGroup
	for i := range chosen {
		setups.Go(func() { processes[i] = a.prepared(fmt.Sprint("p", i+1)) })
	}
	setups.Wait()
	if a.t.Failed() {
		return
	}
	passed, excused := 0, 0
	for i, moment := range chosen {
		if a.strike(processes[i], moment, i%2 == 1) {
			passed++
			continue
		}
		a.t.Logf("%q was not passed", moment)
		if mayBeMissed(moment) {
			excused++
		}
	}
	a.t.Logf("died at %d of %d moments, tried %d: %s", passed, len(all), len(chosen), strings.Join(chosen, ", "))
	// How many reports an operation takes, and what the server learns from which, depends on when the host looks.
	if passed*3 < len(chosen)-excused {
		a.t.Errorf("only %d of %d moments were passed: hardly anything was tried", passed, len(chosen))
	}
}

// mayBeMissed reports whether only a slow operation passes a moment: the server does not store the beginning of another,
// nor the receipt that comes after the report of its end.
func mayBeMissed(moment string) bool {
	return strings.HasPrefix(moment, "Begin ") || strings.HasPrefix(moment, "MarkAccepted ")
}

// rehearse carries out the operation without a kill, and returns the moments that it passes.
func (a *attack) rehearse() []string {
	a.t.Helper()
	a.begin(never)
	p := a.prepared("rehearsal")
	a.before = a.traceOf(p)
	a.dying().kill()
	a.victim = p.Name
	a.begin(listing)
	a.linked()
	if got := a.operate(p, a.op); got.Code != 0 {
		a.t.Fatalf("op %d: %d %s", a.op, got.Code, got.Msg)
	}
	must := a.last()
	var all []string
	harness.Eventually(a.t, must, func() bool {
		data, _ := os.ReadFile(filepath.Join(a.dir, "moments"))
		all = strings.Split(strings.TrimSpace(string(data)), "\n")
		return slices.Contains(all, must)
	})
	all = all[:slices.Index(all, must)+1]
	a.after = a.traceOf(p)
	return all
}

// last is the last moment of the operation. A question is over for the agent with its receipt: it keeps nothing to be
// acknowledged.
func (a *attack) last() string {
	switch {
	case a.role == roleServer, a.role == roleDev && a.op == judge.Query:
		return "Finish 1 after"
	case a.op == judge.Query:
		return "agent: Submit 1 after"
	}
	return "agent: Acknowledge 1 after"
}

// begin starts drover, whose part that is to die dies at the moment, and waits until it takes calls.
func (a *attack) begin(moment string) {
	a.t.Helper()
	if a.role == roleAgent && a.server == nil {
		a.server = a.run(roleServer, never)
		a.ready() // it has enrolled the agent
	}
	a.again(moment)
	a.ready()
	if a.role == roleServer && a.agent == nil {
		a.agent = a.run(roleAgent, never)
	}
}

// linked waits until the agent has introduced itself to the server: an operation that comes before passes other
// moments, by chance.
func (a *attack) linked() {
	a.t.Helper()
	if a.other == nil {
		a.other = a.process("other")
	}
	a.operate(a.other, judge.Query)
}

// again starts the part that is to die.
func (a *attack) again(moment string) {
	a.t.Helper()
	if a.role == roleAgent {
		a.agent = a.run(roleAgent, moment)
	} else {
		a.server = a.run(a.role, moment)
	}
}

// dying is the part that dies.
func (a *attack) dying() *child {
	if a.role == roleAgent {
		return a.agent
	}
	return a.server
}

// prepared returns a process on which the operation succeeds.
func (a *attack) prepared(name string) *harness.Process {
	p := a.process(name)
	p.Control["kill_cmd"] = strings.Replace(p.Control["stop_cmd"].(string), "stop", "kill", 1)
	first := []int{judge.Start}
	switch a.op {
	case judge.Start:
		first = nil
	case judge.Host:
		first = []int{judge.Start, judge.Unhost}
	}
	for _, op := range first {
		if got := a.operate(p, op); got.Code != 0 {
			a.t.Errorf("%s: op %d: %d %s", name, op, got.Code, got.Msg)
		}
	}
	return p
}

// traceOf asks for the state of a process. Its commands are over then; the check of a start may still be under way.
func (a *attack) traceOf(p *harness.Process) trace {
	a.t.Helper()
	got := a.operate(p, judge.Query)
	data, _ := os.ReadFile(filepath.Join(a.work, p.Name, "run.log"))
	return trace{hosted: got.Hosted, running: got.PID > 1, ran: strings.Join(strings.Fields(string(data)), " ")}
}

// grace is how long after its end an operation may still be worked on.
const grace = 500 * time.Millisecond

// strike kills at one moment of the operation on one process, lets a successor go on, and compares.
func (a *attack) strike(p *harness.Process, moment string, twice bool) (passed bool) {
	a.t.Helper()
	a.dying().kill()
	a.victim = p.Name
	a.begin(moment)
	a.linked()
	task, unanswered := a.submit(p, a.op)
	passed = a.diesDuring(p, task, unanswered)
	a.dying().kill()
	if twice {
		a.again(atStart)
		if !a.dying().died(harness.Patience) {
			a.t.Errorf("%s: the successor did not die", moment)
		}
	}
	a.begin(never)
	if unanswered == nil {
		first := a.await(p, task)
		if first.Code != 0 {
			a.t.Errorf("%s: outcome %d %q", moment, first.Code, first.Msg)
		}
		if again := a.await(p, task); again.Code != first.Code || again.Msg != first.Msg {
			a.t.Errorf("%s: the outcome changed from %q to %q", moment, first.Msg, again.Msg)
		}
	}
	if unanswered == nil {
		if got := a.traceOf(p); got != a.after {
			a.t.Errorf("%s%s: %+v, want %+v", harness.MoreThan(len(a.after.ran), len(got.ran)), moment, got, a.after)
		}
		return passed
	}
	// A query does not wait for the check of a start that nobody has the id of.
	harness.Eventually(a.t, fmt.Sprintf("%s, unanswered: %+v or %+v", moment, a.before, a.after), func() bool {
		got := a.traceOf(p)
		return got == a.before || got == a.after
	})
	return passed
}

// diesDuring waits until the part that is to die has died, or the operation is over and nothing more comes of it.
func (a *attack) diesDuring(p *harness.Process, task string, unanswered error) bool {
	if unanswered != nil {
		return a.dying().died(harness.Patience)
	}
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-a.dying().ended:
			tick.Stop()
			return true
		case <-tick.C:
		}
		if !a.open(p, task) {
			tick.Stop()
			return a.dying().died(grace)
		}
	}
}

// open reports whether an operation has no outcome yet, as far as drover answers.
func (a *attack) open(p *harness.Process, task string) bool {
	data, err := a.caller().GSE("get_proc_operate_result_v2", harness.Object{"task_id": task})
	e, ok := data[p.Key()].(harness.Object)
	return err != nil || !ok || e["error_code"] == 115.0
}
