package lab_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/pidns"
	"drover/test/bench/lab"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == lab.FloorStage {
		fmt.Fprintln(os.Stderr, lab.Supervise(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(pidns.Run(m))
}

// TestFloor: the floor runs a child again that has ended, and does what it is asked for before it answers.
func TestFloor(t *testing.T) {
	l := &lab.Lab{Dir: t.TempDir()}
	specs := []lab.Spec{{Name: "a", Run: "/bin/sleep 1000"}, {Name: "b", Run: "/bin/sleep 1001"}}
	floor, err := l.Floor("floor", specs, false)
	if err != nil {
		t.Fatal(err)
	}
	defer floor.End(syscall.SIGKILL)
	ask := func(what string) string {
		t.Helper()
		answer, err := floor.Ask(what)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	pids := func() (a, b int) {
		t.Helper()
		if _, err := fmt.Sscanf(ask(lab.FloorStatus), "a %d\nb %d\n", &a, &b); err != nil {
			t.Fatal(err)
		}
		return a, b
	}
	if err := lab.Eventually("the floor", lab.Patience, func() bool {
		_, err := floor.Ask(lab.FloorStatus)
		return err == nil
	}); err != nil {
		t.Fatal(err)
	}
	a, b := pids()
	if answer := ask(lab.FloorRestart + "1"); answer == fmt.Sprint(b) {
		t.Errorf("the restart says %s, as before", answer)
	} else if newA, newB := pids(); newA != a || answer != fmt.Sprint(newB) {
		t.Errorf("after a restart that says %s the pids are %d and %d", answer, newA, newB)
	}
	if err := lab.Signal(a, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := lab.Eventually("a new process", lab.Patience, func() bool {
		now, _ := pids()
		return now != a
	}); err != nil {
		t.Fatal(err)
	}
	last, _ := pids()
	ask(lab.FloorStop)
	if a, b := pids(); a != 0 || b != 0 || lab.Signal(last, 0) == nil {
		t.Errorf("after the stop %d and %d run", a, b)
	}
	ask(lab.FloorStart)
	if a, b := pids(); a == 0 || b == 0 || lab.Signal(a, 0) != nil {
		t.Errorf("after the start %d and %d run", a, b)
	}
}

func TestQuantile(t *testing.T) {
	for _, test := range []struct {
		q, want float64
	}{{0, 1}, {0.25, 1}, {0.26, 2}, {0.5, 2}, {0.75, 3}, {0.99, 4}, {1, 4}} {
		if got := (lab.Series{3, 1, 4, 2}).Quantile(test.q); got != test.want {
			t.Errorf("quantile %v is %v, want %v", test.q, got, test.want)
		}
	}
	if got := (lab.Series{}).Quantile(0.5); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestTable(t *testing.T) {
	table := lab.Table{Head: []string{"what", "ms"}}
	table.Add("≤ half", lab.Figure(0.12345))
	table.Add("a", lab.Figure(1234.5))
	table.Add("none", lab.Figure(math.NaN()))
	var b strings.Builder
	if err := table.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	want := `| what   | ms    |
|--------|-------|
| ≤ half | 0.123 |
| a      | 1234  |
| none   | -     |
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCostOfEndedThreads: the time of a thread that has ended still counts.
func TestCostOfEndedThreads(t *testing.T) {
	before := processorTime(t)
	var thread sync.WaitGroup
	thread.Go(func() {
		runtime.LockOSThread() // so that the thread ends with the goroutine
		for processorTime(t)-before < 50*time.Millisecond {
		}
	})
	thread.Wait()
	least := processorTime(t)
	cost := lab.CostOf([]int{os.Getpid()})
	// The kernel rounds one of the two.
	if most := processorTime(t); cost.CPU < least-time.Millisecond || cost.CPU > most+time.Millisecond {
		t.Errorf("cost is %v of processor time, want %v to %v", cost.CPU, least, most)
	}
	if cost.Processes != 1 || cost.Threads < 1 || cost.PSS <= cost.Heap || cost.Heap <= 0 {
		t.Errorf("cost of this process is %+v", cost)
	}
	if got := lab.CostOf([]int{math.MaxInt32}); got != (lab.Cost{}) {
		t.Errorf("cost of nobody is %+v", got)
	}
}

func processorTime(t *testing.T) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		t.Error(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// TestStampsWithin: workers in another pid namespace note who they are there, and are found, killed and seen to come
// back here.
func TestStampsWithin(t *testing.T) {
	dir := t.TempDir()
	stamps, err := lab.NewStamps(filepath.Join(dir, "stamps"))
	if err != nil {
		t.Fatal(err)
	}
	defer stamps.Close()
	// The shell is a supervisor of one worker. Its time is earlier than any kill, which does not matter here.
	script := fmt.Sprintf(`echo 1 $$ supervisor >>%[1]s
while :; do
	sleep 1000 &
	echo 1 $! worker >>%[1]s
	wait $!
done`, stamps.Path)
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	child, err := lab.Start(cmd, filepath.Join(dir, "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer child.End(syscall.SIGKILL)
	if _, err := stamps.Await(2, lab.Patience); err != nil {
		t.Fatal(err)
	}
	if stamps.PID("supervisor") != 1 {
		t.Fatalf("the supervisor says that it is %d, want 1", stamps.PID("supervisor"))
	}
	stamps.Within(child.PID())
	if got := stamps.PID("supervisor"); got != child.PID() {
		t.Errorf("the supervisor is %d here, want %d", got, child.PID())
	}
	first := stamps.PID("worker")
	if _, err := stamps.Crash(lab.Patience, "worker"); err != nil {
		t.Fatal(err)
	}
	second := stamps.PID("worker")
	if first <= child.PID() || second <= first {
		t.Errorf("the worker was %d and is %d, want pids above %d, and another one", first, second, child.PID())
	}
	if starts := stamps.Starts("worker"); starts != 2 {
		t.Errorf("the worker has begun %d times, want 2", starts)
	}
	if got := stamps.PID("nobody"); got != 0 {
		t.Errorf("nobody is %d", got)
	}
}
