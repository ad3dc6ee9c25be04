package judge

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// What a random run takes from its environment: how long it lasts, and the seed of its choices.
const (
	timeVariable = "DROVER_CHAOS_TIME"
	seedVariable = "DROVER_CHAOS_SEED"
)

// Choices returns how long a random run is to last, and the seed of its choices, which it tells the one who reads the
// test's log: those of the environment, else the given time and a seed that nobody has chosen.
func Choices(t testing.TB, length time.Duration) (time.Duration, uint64) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
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
	return length, seed
}

// Long reports whether the long form of a test was asked for.
func Long() bool { return os.Getenv(timeVariable) != "" }

// Round is a while in which callers operate on processes at random and the processes crash.
type Round struct {
	// Post calls an endpoint of GSE and returns the data of its reply; an error means that nobody knows what became of
	// it.
	Post func(name string, body any) (harness.Object, error)
	// Processes are of Daemon; each has Callers of its own.
	Processes []*harness.Process
	Callers   int
	Random    *rand.Rand
	Length    time.Duration
	// Cut says that Disturb cuts links, so that an answer may be that nobody knows.
	Cut bool
	// Disturb does something to drover and returns; it is called every few seconds.
	Disturb func(random *rand.Rand)
	// Mend, if set, ends what Disturb has left, before the processes are judged.
	Mend func()
}

// Run runs the round and judges it: what the callers were told must be explainable for each process by one order of its
// operations, every accepted task ends, and no process is there twice.
func (r Round) Run(t testing.TB) {
	t.Helper()
	over := make(chan struct{})
	var parties sync.WaitGroup
	histories := make([]*history, len(r.Processes))
	for i, p := range r.Processes {
		h := &history{t: t, post: r.Post, process: p, cut: r.Cut, over: over, begin: time.Now()}
		histories[i] = h
		for range r.Callers {
			own := rand.New(rand.NewPCG(r.Random.Uint64(), 0))
			parties.Go(func() { h.call(own) })
		}
		own := rand.New(rand.NewPCG(r.Random.Uint64(), 0))
		parties.Go(func() { h.crash(own) })
	}
	timer := time.After(r.Length)
	for waiting := true; waiting; {
		select {
		case <-timer:
			waiting = false
		case <-time.After(time.Duration(2+r.Random.IntN(6)) * time.Second):
			r.Disturb(r.Random)
		}
	}
	if r.Mend != nil {
		r.Mend()
	}
	close(over)
	parties.Wait()
	for _, h := range histories {
		parties.Go(h.settle)
	}
	parties.Wait()
	r.sum(t, histories)
}

// sum tells what was tried, and fails the test where that is next to nothing.
func (r Round) sum(t testing.TB, histories []*history) {
	t.Helper()
	answered, unanswered, codes := 0, 0, map[int]int{}
	for _, h := range histories {
		for _, o := range h.all {
			if a := o.Output.(Answer); a.Known {
				answered++
				codes[a.Code]++
			} else {
				unanswered++
			}
		}
	}
	t.Logf("%d operations were answered, %d were not; codes %v", answered, unanswered, codes)
	if answered < len(histories)*3 {
		t.Errorf("only %d operations were answered: nothing was tried", answered)
	}
}

// Daemon is a process in shell with a directory of its own below work, each of whose commands notes there that it has
// really run.
func Daemon(t testing.TB, work, name string) *harness.Process {
	t.Helper()
	dir := filepath.Join(work, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	start := "echo start >>run.log; setsid sh -c 'echo $$ >d.pid; exec sleep 100000' >/dev/null 2>&1 & " +
		`until [ -s d.pid ] && [ "$(cat /proc/$(cat d.pid)/comm)" = sleep ]; do sleep 0.05; done`
	stop := "kill -9 $(cat d.pid); while kill -0 $(cat d.pid) 2>/dev/null; do sleep 0.05; done; rm d.pid"
	return &harness.Process{
		Namespace: "faults", Name: name,
		Identity: harness.Object{"proc_name": "sleep", "setup_path": dir, "pid_path": dir + "/d.pid", "user": "root"},
		Control: harness.Object{
			"start_cmd": start, "stop_cmd": "echo stop >>run.log; " + stop,
			"reload_cmd": "echo reload >>run.log",
		},
		Policy: harness.Object{"start_check_secs": 1},
	}
}

// Restless lets a daemon crash as often as a random run has it crash.
func Restless(p *harness.Process) *harness.Process {
	p.Policy = harness.Object{"start_check_secs": 1, "stop_check_secs": 3, "start_interval": 1, "start_retries": 1000}
	return p
}

// Dir is the directory of a Daemon.
func Dir(p *harness.Process) string { return p.Identity["setup_path"].(string) }

// Ran counts a word in what the commands of a Daemon have noted.
func Ran(p *harness.Process, word string) int {
	data, _ := os.ReadFile(filepath.Join(Dir(p), "run.log"))
	n := 0
	for w := range strings.FieldsSeq(string(data)) {
		if w == word {
			n++
		}
	}
	return n
}
