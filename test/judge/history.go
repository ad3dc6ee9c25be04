package judge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sys/unix"

	"drover/internal/agent/pidns"
	"drover/internal/test/harness"
)

// history is what happened to one process.
type history struct {
	t       testing.TB
	post    func(name string, body any) (harness.Object, error)
	process *harness.Process
	cut     bool
	// over is closed when nobody is to begin anything more.
	over  <-chan struct{}
	begin time.Time

	mu  sync.Mutex
	all []porcupine.Operation
}

func (h *history) pause(random *rand.Rand, most time.Duration) bool {
	select {
	case <-h.over:
		return false
	case <-time.After(time.Duration(random.Int64N(int64(most)))):
		return true
	}
}

func (h *history) record(op int, called time.Time, a Answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := porcupine.Operation{
		ClientId: len(h.all), Input: op, Output: a, Call: int64(called.Sub(h.begin)),
		Return: int64(time.Since(h.begin)),
	}
	if !a.heard(h.cut).Known {
		o.Return = -1 // settle knows
	}
	h.all = append(h.all, o)
}

// call is a caller who goes on until the round is over.
func (h *history) call(random *rand.Rand) {
	ops := []int{Start, Start, Start, Stop, Query, Query, Host, Unhost, Restart, Reload, Kill}
	for h.pause(random, time.Second) {
		h.operate(ops[random.IntN(len(ops))])
	}
}

// operate carries out one operation, however often drover dies meanwhile.
func (h *history) operate(op int) Answer {
	called := time.Now()
	data, err := h.post("operate_proc_v2", h.process.Request(op))
	if err != nil {
		h.record(op, called, Answer{Text: err.Error()})
		return Answer{}
	}
	task, _ := data["task_id"].(string)
	a, err := h.outcome(task, op)
	if err != nil {
		h.t.Errorf("%s: op %d: task %s: %v", h.process.Name, op, task, err)
		return Answer{}
	}
	h.record(op, called, a)
	return a
}

var errOpen = errors.New("it does not end")

// outcome polls an accepted task to its end.
func (h *history) outcome(task string, op int) (Answer, error) {
	deadline := time.After(harness.CommandPatience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-deadline:
			return Answer{}, errOpen
		}
		data, err := h.post("get_proc_operate_result_v2", harness.Object{"task_id": task})
		if err != nil {
			if strings.Contains(err.Error(), "HTTP 200") {
				return Answer{}, err // it is not known any more
			}
			continue // drover is away
		}
		if e, ok := data[h.process.Key()].(harness.Object); ok && e["error_code"] == 115.0 {
			continue
		}
		res := harness.ParseResult(h.t, data[h.process.Key()])
		a := Answer{Known: true, Code: res.Code, Text: res.Msg}
		if op == Query {
			a.Running, a.Hosted = res.PID > 1, res.Hosted
		}
		return a, nil
	}
}

// crash kills the process now and then.
func (h *history) crash(random *rand.Rand) {
	for h.pause(random, 6*time.Second) {
		called := time.Now()
		if h.killed() {
			a := Answer{Known: true}
			if time.Since(called) > atOnce {
				a.Text = dying
			}
			h.record(Crash, called, a)
		}
	}
}

// atOnce is how long a process takes to end where nothing is slow.
const atOnce = time.Millisecond

// killed kills the instance that the pid file names, if it is one, and waits until it has ended.
func (h *history) killed() bool {
	dir := Dir(h.process)
	data, err := os.ReadFile(filepath.Join(dir, "d.pid"))
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if !IsInstance(pid, dir) {
		return false
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil && pidns.AwaitEnd(fd) == nil
}

// IsInstance reports whether a pid is a live daemon of the directory.
func IsInstance(pid int, dir string) bool {
	proc := fmt.Sprintf("/proc/%d", pid)
	name, err := os.ReadFile(proc + "/comm")
	if err != nil || strings.TrimSpace(string(name)) != "sleep" || !harness.Alive(pid) {
		return false
	}
	cmdline, _ := os.ReadFile(proc + "/cmdline")
	cwd, _ := os.Readlink(proc + "/cwd")
	return cwd == dir && strings.Contains(string(cmdline), "100000")
}

// Instances counts the live daemons of a directory.
func Instances(t testing.TB, dir string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && IsInstance(pid, dir) {
			n++
		}
	}
	return n
}

// markBeside marks the queries during which another operation was under way.
func (h *history) markBeside() {
	for i := range h.all {
		q := &h.all[i]
		if q.Input.(int) != Query {
			continue
		}
		for j := range h.all {
			o := &h.all[j]
			if op := o.Input.(int); op != Query && op != Crash && o.Call <= q.Return && q.Call <= o.Return {
				a := q.Output.(Answer)
				a.Beside = true
				q.Output = a
				break
			}
		}
	}
}

// settle brings the process to rest and judges its history.
func (h *history) settle() {
	h.t.Helper()
	h.operate(Unhost)
	now := int64(time.Since(h.begin))
	for i := range h.all {
		// What was asked and not answered was carried out before the last operation, or never.
		if h.all[i].Return < 0 {
			h.all[i].Return = now
		}
	}
	last := h.operate(Query)
	dir := Dir(h.process)
	if n := Instances(h.t, dir); n > 1 || (n == 1) != last.Running {
		h.t.Errorf("%s%s: %d instances, and a query said running: %v", harness.MoreThan(1, n), h.process.Name, n, last.Running)
	}
	h.markBeside()
	if result := porcupine.CheckOperationsTimeout(model(h.cut), h.all, time.Minute); result != porcupine.Ok {
		var lines strings.Builder
		for _, o := range h.all {
			fmt.Fprintf(&lines, "%7.3f-%7.3f op %2d %+v\n", float64(o.Call)/1e9, float64(o.Return)/1e9, o.Input,
				o.Output)
		}
		certain := ""
		if result == porcupine.Illegal { // otherwise the search did not end in time
			certain = harness.Never + ": "
		}
		h.t.Errorf("%s%s: the history is explained by no order (%s):\n%s", certain, h.process.Name, result, lines.String())
	}
	h.operate(Kill)
}
