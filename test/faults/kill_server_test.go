package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// TestI2_KillDuringARelaunch kills drover twice while a hosted process is being launched again: the command of the
// relaunch runs once.
func TestI2_KillDuringARelaunch(t *testing.T) {
	for _, role := range []string{roleDev, roleServer, roleAgent} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			killDuringARelaunch(t, &attack{rig: newRig(t), role: role})
		})
	}
}

func killDuringARelaunch(t *testing.T, r *attack) {
	t.Helper()
	p := r.process("p")
	start := p.Control["start_cmd"].(string)
	p.Control["start_cmd"] = start + "; [ ! -p hold ] || { echo held >>run.log; read x <hold; }"
	r.begin(never)
	r.does(p, judge.Start)
	fifo := filepath.Join(r.work, "p", "hold")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	pid := harness.ReadPID(t, filepath.Join(r.work, "p", "d.pid"))
	if err := os.Remove(filepath.Join(r.work, "p", "d.pid")); err != nil {
		t.Fatal(err)
	}
	harness.Signal(t, pid, syscall.SIGKILL)
	for range 2 {
		harness.Eventually(t, "the relaunch to be under way", func() bool { return judge.Ran(p, "held") == 1 })
		r.dying().kill()
		r.begin(never)
	}
	if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.operate(p, judge.Query); got.PID <= 1 || got.PID == pid {
		t.Errorf("pid %d after the relaunch, was %d", got.PID, pid)
	}
	if n := judge.Ran(p, "start"); n != 2 {
		t.Errorf("%sstarted %d times, want once and one relaunch", harness.MoreThan(2, n), n)
	}
}

// TestI1_I3_KillWithAHundredOperationsQueued kills drover again and again, each time at another moment, while a hundred
// operations wait: none is lost, none runs twice, each has one outcome.
func TestI1_I3_KillWithAHundredOperationsQueued(t *testing.T) {
	ofServer := []string{
		"Send 3 after", "LeaseItems 2 after", "Begin 2 before", "Begin 3 after",
		"Finish 4 before", "Finish 2 after",
	}
	ofAgent := []string{
		"agent: Accept 2 after", "agent: PutProgress 9 after", "agent: Report 7 after",
		"agent: Finish 4 before", "agent: Finish 5 after", "agent: Acknowledge 3 before",
	}
	for role, at := range map[string][]string{
		roleDev: slices.Concat(ofServer[2:5], ofAgent[1:4]), roleServer: ofServer,
		roleAgent: ofAgent,
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			killWithAHundredQueued(t, &attack{rig: newRig(t), role: role}, at)
		})
	}
}

// asked is an operation that was accepted, and the word that its command notes.
type asked struct {
	p    *harness.Process
	task string
	word string
}

// diesBefore waits until the part that is to die has died, or all operations are over.
func (a *attack) diesBefore(all []asked) bool {
	a.t.Helper()
	open := slices.Clone(all)
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case <-a.dying().ended:
			tick.Stop()
			return true
		case <-tick.C:
		}
		for len(open) > 0 && !a.open(open[0].p, open[0].task) {
			open = open[1:]
		}
		if len(open) == 0 {
			tick.Stop()
			return a.dying().died(grace)
		}
	}
}

func killWithAHundredQueued(t *testing.T, r *attack, at []string) {
	t.Helper()
	r.begin(never)
	var all []asked
	submit := func(p *harness.Process, op int, word string) {
		task, err := r.submit(p, op)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, asked{p, task, word})
	}
	processes := make([]*harness.Process, 10)
	for i := range processes {
		processes[i] = r.process(fmt.Sprint("p", i))
		submit(processes[i], judge.Start, "start")
	}
	for n := range 9 {
		for _, p := range processes {
			word := fmt.Sprint("reload-", n)
			p.Control["reload_cmd"] = "echo " + word + " >>run.log; sleep 0.2"
			submit(p, judge.Reload, word)
		}
	}
	r.victim = anybody
	var died []string
	for _, moment := range at {
		r.dying().kill()
		r.again(moment)
		if r.diesBefore(all) {
			died = append(died, moment)
		}
	}
	t.Logf("died at %q", died)
	if len(died) < len(at)/2 {
		t.Errorf("died at %d of %d moments: hardly anything was tried", len(died), len(at))
	}
	r.dying().kill()
	r.begin(never)
	for _, a := range all {
		if got := r.await(a.p, a.task); got.Code != 0 {
			t.Errorf("%s %s: %d %s", a.p.Name, a.word, got.Code, got.Msg)
		}
		if n := judge.Ran(a.p, a.word); n != 1 {
			t.Errorf("%s%s %s ran %d times", harness.MoreThan(1, n), a.p.Name, a.word, n)
		}
	}
	for _, p := range processes {
		if data, _ := os.ReadFile(filepath.Join(r.work, p.Name,
			"run.log")); !slices.IsSorted(strings.Fields(string(data))[1:]) {
			t.Errorf("%s: out of order: %s", p.Name, data)
		}
	}
}
