package faults_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sys/unix"

	"drover/test/harness"
)

// What a random run takes from its environment: how long it lasts, and the seed of its choices.
const (
	timeVariable = "DROVER_CHAOS_TIME"
	seedVariable = "DROVER_CHAOS_SEED"
)

const (
	randomTime  = 20 * time.Second // of a run, if nothing is said
	roundTime   = 25 * time.Second
	randomMany  = 6 // processes
	randomTwins = 2 // callers of each
)

// TestI1_to_I7_RandomRun lets callers operate on real processes through the built binary, at the same time, while the processes
// are killed and drover is killed and terminated. What the callers were told must be explainable for each process by one order of
// its operations; every accepted task ends; no process is ever there twice.
func TestI1_to_I7_RandomRun(t *testing.T) {
	length, seed := randomTime, uint64(time.Now().UnixNano())
	var err error
	if text := os.Getenv(timeVariable); text != "" {
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv(seedVariable); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("run it again with %s=%d", seedVariable, seed)
	r := newRig(t)
	r.real = true
	r.start(false, never)
	end := time.Now().Add(length)
	for round := 0; round == 0 || time.Now().Before(end) && !t.Failed(); round++ {
		randomRound(t, r, round, rand.New(rand.NewPCG(seed, uint64(round))), min(roundTime, max(time.Until(end), 5*time.Second)))
	}
}

func randomRound(t *testing.T, r *rig, round int, random *rand.Rand, length time.Duration) {
	t.Helper()
	over := make(chan struct{})
	var parties sync.WaitGroup
	histories := make([]*history, randomMany)
	for i := range histories {
		h := &history{t: t, rig: r, p: r.process(fmt.Sprintf("r%d-p%d", round, i)), over: over, begin: time.Now()}
		h.p.Policy = harness.Object{"start_check_secs": 1, "stop_check_secs": 3, "start_interval": 1, "start_retries": 1000}
		histories[i] = h
		for range randomTwins {
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			parties.Go(func() { h.call(own) })
		}
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		parties.Go(func() { h.crash(own) })
	}
	timer := time.After(length)
	for waiting := true; waiting; {
		select {
		case <-timer:
			waiting = false
		case <-time.After(time.Duration(2+random.IntN(6)) * time.Second):
			r.endRandomly(random)
		}
	}
	close(over)
	parties.Wait()
	answered, unanswered, codes := 0, 0, map[int]int{}
	for _, h := range histories {
		parties.Go(h.settle)
	}
	parties.Wait()
	for _, h := range histories {
		for _, o := range h.all {
			if a := o.Output.(answer); a.known {
				answered++
				codes[a.code]++
			} else {
				unanswered++
			}
		}
	}
	t.Logf("round %d: %d operations were answered, %d were not; codes %v", round, answered, unanswered, codes)
	if answered < randomMany*3 {
		t.Errorf("only %d operations were answered: nothing was tried", answered)
	}
}

// endRandomly ends drover one way or the other and starts it again.
func (r *rig) endRandomly(random *rand.Rand) {
	r.t.Helper()
	sig := syscall.SIGKILL
	if random.IntN(3) == 0 {
		sig = syscall.SIGTERM
	}
	_ = r.server.cmd.Process.Signal(sig)
	<-r.server.ended
	r.start(false, never)
}

// history is what happened to one process.
type history struct {
	t     *testing.T
	rig   *rig
	p     *harness.Process
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

func (h *history) note(op int, called time.Time, a answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := porcupine.Operation{ClientId: len(h.all), Input: op, Output: a, Call: int64(called.Sub(h.begin)), Return: int64(time.Since(h.begin))}
	if !a.known {
		o.Return = -1 // settle knows
	}
	h.all = append(h.all, o)
}

// call is a caller who goes on until the round is over.
func (h *history) call(random *rand.Rand) {
	ops := []int{opStart, opStart, opStart, opStop, opQuery, opQuery, opHost, opUnhost, opRestart, opReload, opKill}
	for h.pause(random, time.Second) {
		h.operate(ops[random.IntN(len(ops))])
	}
}

// operate carries out one operation, however often drover dies meanwhile.
func (h *history) operate(op int) answer {
	called := time.Now()
	task, err := h.rig.submit(h.p, op)
	if err != nil {
		h.note(op, called, answer{text: err.Error()})
		return answer{}
	}
	a, err := h.outcome(task, op)
	if err != nil {
		h.t.Errorf("%s: op %d: task %s: %v", h.p.Name, op, task, err)
		return answer{}
	}
	h.note(op, called, a)
	return a
}

var errOpen = errors.New("it does not end")

// outcome polls an accepted task to its end.
func (h *history) outcome(task string, op int) (answer, error) {
	deadline := time.After(harness.Patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-deadline:
			return answer{}, errOpen
		}
		data, err := h.rig.call("get_proc_operate_result_v2", harness.Object{"task_id": task})
		if err != nil {
			if strings.Contains(err.Error(), "HTTP 200") {
				return answer{}, err // it is not known any more
			}
			continue // drover is away
		}
		if e, ok := data[h.p.Key()].(harness.Object); ok && e["error_code"] == 115.0 {
			continue
		}
		res := harness.ParseResult(h.t, data[h.p.Key()])
		a := answer{known: true, code: res.Code, text: res.Msg}
		if op == opQuery {
			a.running, a.hosted = res.PID > 1, res.Hosted
		}
		return a, nil
	}
}

// crash kills the process now and then.
func (h *history) crash(random *rand.Rand) {
	for h.pause(random, 6*time.Second) {
		called := time.Now()
		if h.killed() {
			h.note(opCrash, called, answer{known: true})
		}
	}
}

// killed kills the instance that the pid file names, if it is one.
func (h *history) killed() bool {
	dir := filepath.Join(h.rig.work, h.p.Name)
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
	if !isInstance(pid, dir) {
		return false
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

// isInstance reports whether a pid is a live daemon of the directory.
func isInstance(pid int, dir string) bool {
	proc := fmt.Sprintf("/proc/%d", pid)
	name, err := os.ReadFile(proc + "/comm")
	if err != nil || strings.TrimSpace(string(name)) != "sleep" || !harness.Alive(pid) {
		return false
	}
	cmdline, _ := os.ReadFile(proc + "/cmdline")
	cwd, _ := os.Readlink(proc + "/cwd")
	return cwd == dir && strings.Contains(string(cmdline), "100000")
}

// instances counts the live daemons of a directory.
func instances(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && isInstance(pid, dir) {
			n++
		}
	}
	return n
}

// settle brings the process to rest and judges its history.
func (h *history) settle() {
	h.t.Helper()
	h.operate(opUnhost)
	now := int64(time.Since(h.begin))
	for i := range h.all {
		// What was asked and not answered was carried out before the last operation, or never.
		if h.all[i].Return < 0 {
			h.all[i].Return = now
		}
	}
	last := h.operate(opQuery)
	dir := filepath.Join(h.rig.work, h.p.Name)
	if n := instances(h.t, dir); n > 1 || (n == 1) != last.running {
		h.t.Errorf("%s: %d instances, and a query said running: %v", h.p.Name, n, last.running)
	}
	if result := porcupine.CheckOperationsTimeout(processModel(), h.all, time.Minute); result != porcupine.Ok {
		var lines strings.Builder
		for _, o := range h.all {
			fmt.Fprintf(&lines, "%7.3f-%7.3f op %2d %+v\n", float64(o.Call)/1e9, float64(o.Return)/1e9, o.Input, o.Output)
		}
		h.t.Errorf("%s: the history is explained by no order (%s):\n%s", h.p.Name, result, lines.String())
	}
	h.operate(opKill)
}
