package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/test/harness"
)

// TestI2_KillDuringARelaunch kills drover while a hosted process is being launched again: the command of the relaunch runs once.
func TestI2_KillDuringARelaunch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.process("p")
	start := p.Control["start_cmd"].(string)
	p.Control["start_cmd"] = start + "; [ ! -p hold ] || { echo held >>run.log; read x <hold; }"
	r.start(false, never)
	if got := r.operate(p, 0); got.Code != 0 {
		t.Fatalf("start: %d %s", got.Code, got.Msg)
	}
	fifo := filepath.Join(r.work, "p", "hold")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	pid := harness.ReadPID(t, filepath.Join(r.work, "p", "d.pid"))
	if err := os.Remove(filepath.Join(r.work, "p", "d.pid")); err != nil {
		t.Fatal(err)
	}
	harness.Signal(t, pid, syscall.SIGKILL)
	for round := range 2 {
		harness.Eventually(t, "the relaunch to be under way", func() bool { return r.ran(p, "held") == 1 })
		r.server.kill()
		r.start(false, never)
		t.Logf("killed %d times", round+1)
	}
	if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.operate(p, 2); got.PID <= 1 || got.PID == pid {
		t.Errorf("pid %d after the relaunch, was %d", got.PID, pid)
	}
	if n := r.ran(p, "start"); n != 2 {
		t.Errorf("started %d times, want once and one relaunch", n)
	}
}

// TestI1_I3_KillWithAHundredOperationsQueued: none is lost, none runs twice, each has one outcome.
func TestI1_I3_KillWithAHundredOperationsQueued(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(false, never)
	processes := make([]*harness.Process, 10)
	for i := range processes {
		processes[i] = r.process(fmt.Sprint("p", i))
	}
	type asked struct {
		p    *harness.Process
		task string
		word string
	}
	var all []asked
	for _, p := range processes {
		if task, err := r.submit(p, 0); err == nil {
			all = append(all, asked{p, task, "start"})
		}
	}
	for n := range 9 {
		for _, p := range processes {
			word := fmt.Sprint("reload-", n)
			p.Control["reload_cmd"] = "echo " + word + " >>run.log"
			task, err := r.submit(p, 8)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, asked{p, task, word})
		}
	}
	for range 4 {
		done := len(outcomes(r, all[0].p, "reload"))
		harness.Eventually(t, "work to go on", func() bool { return len(outcomes(r, all[0].p, "reload")) > done })
		r.server.kill()
		r.start(false, never)
	}
	for _, a := range all {
		if got := r.await(a.p, a.task); got.Code != 0 {
			t.Errorf("%s %s: %d %s", a.p.Name, a.word, got.Code, got.Msg)
		}
		if n := r.ran(a.p, a.word); n != 1 {
			t.Errorf("%s %s ran %d times", a.p.Name, a.word, n)
		}
	}
}

// outcomes returns what a process's commands have noted that begins with a word.
func outcomes(r *rig, p *harness.Process, word string) (all []string) {
	data, _ := os.ReadFile(filepath.Join(r.work, p.Name, "run.log"))
	for w := range strings.FieldsSeq(string(data)) {
		if strings.HasPrefix(w, word) {
			all = append(all, w)
		}
	}
	return all
}
