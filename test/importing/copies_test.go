package importing_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// copies are the pids of the copies of a process as drover knows them.
func (p *place) copies(name string, n int) (all []int) {
	for i := range n {
		all = append(all, p.PID(fmt.Sprintf("%s@%d", name, i+1)))
	}
	return all
}

// TestNumprocs: equal processes of supervisord become copies, which take them over in the order of supervisord; a copy
// that supervisord starts again stays with its number.
func TestNumprocs(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	harness.Sleeper(t, p.Dir, "worker")
	conf, _ := p.supervisord(`
[program:worker]
command=DIR/worker 4010
process_name=%(program_name)s-%(process_num)d
numprocs=3
directory=DIR
autorestart=true
`)
	var was []int
	running := func() bool {
		was = nil
		for n := range 3 {
			if pid := p.supervised(conf, fmt.Sprintf("worker:worker-%d", n)); pid > 0 {
				was = append(was, pid)
			}
		}
		return len(was) == 3
	}
	harness.Eventually(t, "supervisord runs its program", running)
	done := p.cli(0, "import", "supervisord", conf, "--namespace", "shop", "--adopt", "--yes")
	for n, pid := range was {
		want := fmt.Sprintf("shop/worker@%d: drover watches pid %d, which runs on as it is", n+1, pid)
		if !strings.Contains(done.Out, "copies: 3") || !strings.Contains(done.Errors, want) {
			t.Errorf("import prints no %q:\n%s%s", want, done.Out, done.Errors)
		}
	}
	if pids := p.copies("worker", 3); !slices.Equal(pids, was) {
		t.Errorf("drover watches %v, want %v", pids, was)
	}
	harness.Signal(t, was[1], syscall.SIGKILL)
	process := harness.Process{Server: p.S, Namespace: "shop", Name: "worker@2"}
	process.AwaitEvents(1, "exited")
	process.AwaitEvents(1, "found")
	now := p.copies("worker", 3)
	harness.Eventually(t, "the pid of the new one", func() bool { // it comes after the event
		now = p.copies("worker", 3)
		return now[1] != 0
	})
	if now[0] != was[0] || now[2] != was[2] || now[1] == was[1] {
		t.Errorf("drover watches %v after %v", now, was)
	}
}

// TestInstances: the instances of a template whose names are numbers become copies. Nobody names their pids, so the
// copies take them over in the order of the pids.
func TestInstances(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	harness.Sleeper(t, p.Dir, "queue")
	unit := "[Service]\nExecStart=DIR/queue 4020\nWorkingDirectory=DIR\nRestart=always\n"
	first, second := p.Write("queue@1.service", unit), p.Write("queue@2.service", unit)
	was := []int{p.start(filepath.Join(p.Dir, "queue"), "4020"), p.start(filepath.Join(p.Dir, "queue"), "4020")}
	slices.Sort(was)
	done := p.cli(0, "import", "systemd", first, second, "--namespace", "shop", "--adopt", "--yes")
	if pids := p.copies("queue", 2); !slices.Equal(pids, was) || !strings.Contains(done.Out, "copies: 2") {
		t.Errorf("drover watches %v, want %v\n%s%s", pids, was, done.Out, done.Errors)
	}
	p.relaunches("queue@1", was[0])
}

// TestPartlyAdopted: drover does not take a program over that it could not start again. The import says so, and still says
// how supervisord lets go of the others.
func TestPartlyAdopted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	harness.Sleeper(t, p.Dir, "one")
	harness.Sleeper(t, p.Dir, "two")
	conf, _ := p.supervisord(`
[program:one]
command=DIR/one 4040
directory=DIR
[program:two]
command=DIR/two 4050
directory=DIR
`)
	one, two := 0, 0
	harness.Eventually(t, "supervisord runs its programs", func() bool {
		one, two = p.supervised(conf, "one"), p.supervised(conf, "two")
		return one > 0 && two > 0
	})
	if err := os.Remove(filepath.Join(p.Dir, "two")); err != nil {
		t.Fatal(err)
	}
	done := p.cli(7, "import", "supervisord", conf, "--namespace", "shop", "--adopt", "--yes")
	for _, want := range []string{
		fmt.Sprintf("shop/one: drover watches pid %d, which runs on as it is", one),
		fmt.Sprintf("shop/two: drover has not taken over pid %d of two: leave the process out of the file", two),
		"remove [program:one] from the configuration",
	} {
		if !strings.Contains(done.Errors, want) {
			t.Errorf("import prints no %q:\n%s", want, done.Errors)
		}
	}
	if strings.Contains(done.Errors, "[program:two]") {
		t.Errorf("supervisord would let go of a program that nobody watches then:\n%s", done.Errors)
	}
}
