package desired_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// run is what the tests read of a run of a schedule.
type run struct{ State, Message, Rollout string }

// runs returns the runs of a schedule, latest first.
func (f *fleet) runs(schedule string) (list []run) {
	f.T.Helper()
	var s struct{ Runs []run }
	must(f.T, json.Unmarshal([]byte(f.CLI("schedule", "show", schedule, "-o", "json")), &s))
	return s.Runs
}

// schedule creates a schedule of an operation.
func (f *fleet) schedule(name, cron string, operation ...string) {
	f.T.Helper()
	line := append([]string{"schedule", "create", name, "--cron", cron, "--data-dir", f.ServerDir(), "--"}, operation...)
	if code, _, errs := f.Run("server", "", f.Drover, line...); code != 0 {
		f.T.Fatalf("drover %q: exit code %d: %s", line, code, errs)
	}
}

// TestEveryNightAtThree follows docs/schedules.md, with a night each minute. A host that joins later is part of the
// next run, and the server dies in the middle of a run.
func TestEveryNightAtThree(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.join(first, "role=web")
	f.CLI("apply", "-f", f.file("one", ""), "--yes")
	f.started("the start", first+" one")
	f.join(late, "role=web")
	f.started("the start on the host that joins late", first+" one", late+" one")
	f.schedule("nightly", "* * * * *", "restart", "shop/*", "-l", "role=web", "--batch", "1", "--bake", "1s")
	harness.Eventually(t, "a run on both hosts", func() bool {
		list := f.runs("nightly")
		return len(list) > 0 && list[0].State == "running" && strings.Contains(f.CLI("rollout", "status", list[0].Rollout, "-o", "json"), late)
	})
	last := f.runs("nightly")[0]
	f.CLI("schedule", "pause", "nightly")
	f.Server.End(syscall.SIGKILL)
	f.StartServer()
	harness.Eventually(t, "the end of the run", func() bool { return f.runs("nightly")[0].State != "running" })
	if got := f.runs("nightly")[0]; got.State != "ok" || got.Rollout != last.Rollout {
		t.Errorf("the run is %+v", got)
	}
	if n := strings.Count(f.starts(), late); n != 2 {
		t.Errorf("the late host has started it %d times: %s", n, f.starts())
	}
	if out := f.CLI("rollout", "list", "-o", "wide"); !strings.Contains(out, "nightly") {
		t.Errorf("the rollouts are:\n%s", out)
	}
}

// job notes each of its runs in a directory that all hosts share.
const job = `#!/bin/sh
echo "$DROVER_HOST" >> "ran-$1"
sleep 0.3
`

// oneOf is a fleet of three workers that all know the same jobs.
type oneOf struct {
	*fleet
	t      *testing.T
	rng    *rand.Rand
	hosts  []string
	agents []*harness.Program
	// stopped are the hosts whose agents are cut off.
	stopped []bool
}

func newOneOf(t *testing.T, jobs int) *oneOf {
	t.Helper()
	seed := rand.Uint64() //nolint:gosec // not a secret
	t.Logf("seed %d", seed)
	//nolint:gosec // not a secret
	f := &oneOf{fleet: newFleet(t), t: t, rng: rand.New(rand.NewPCG(seed, 0)), stopped: make([]bool, 3)}
	must(t, harness.WriteProgram(filepath.Join(f.dir, "job"), []byte(job)))
	for i := range 3 {
		host := fmt.Sprint("0:127.0.0.", i+2)
		f.hosts = append(f.hosts, host)
		f.agents = append(f.agents, f.join(host, "role=worker"))
	}
	for i := range jobs {
		name := fmt.Sprint("job", i)
		spec := filepath.Join(f.Dir, name+".yaml")
		must(t, os.WriteFile(spec, fmt.Appendf(nil, "run: ./job %s\ndirectory: %s\nonce: true\nready: {alive: 0s}\n", name, f.dir), 0o600))
		f.CLI("register", "jobs/"+name, "--hosts", strings.Join(f.hosts, ","), "--file", spec, "--yes")
		f.schedule(name, "0 0 1 1 *", "start", "jobs/"+name, "-l", "role=worker", "--one-of")
	}
	return f
}

// ran returns the hosts on which a job has run.
func (f *oneOf) ran(name string) []string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "ran-"+name))
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// cut cuts a host off, or ends that.
func (f *oneOf) cut(host int, off bool) {
	f.t.Helper()
	if f.stopped[host] == off {
		return
	}
	f.stopped[host] = off
	cut(f.t, f.agents[host], map[bool]syscall.Signal{true: syscall.SIGSTOP, false: syscall.SIGCONT}[off])
}

func (f *oneOf) killAgent(host int) {
	f.t.Helper()
	f.agents[host].Kill()
	f.stopped[host] = false
	f.agents[host] = f.StartAgent(strings.TrimPrefix(f.hosts[host], "0:"), "--facts-dir", "/nonexistent")
}

func (f *oneOf) killServer() {
	f.t.Helper()
	f.Server.End(syscall.SIGKILL)
	f.StartServer()
}

// over waits until a run has ended, and returns it.
func (f *oneOf) over(name string) (last run) {
	f.t.Helper()
	harness.Eventually(f.t, "the end of the run of "+name, func() bool {
		list := f.runs(name)
		if len(list) == 0 {
			return false
		}
		last = list[0]
		return last.State != "running"
	})
	return last
}

// elsewhere gives the server time to run a job on a host that is not cut off, some looks at most: it must wait for a host
// that may have begun the job.
func (f *oneOf) elsewhere(name string) {
	f.t.Helper()
	for range 80 {
		if len(f.ran(name)) > 0 || f.runs(name)[0].State != "running" {
			return
		}
	}
}

// TestOnceInTheFleet follows docs/schedules.md: a job runs on the first connected host, on the next one while the
// first is cut off, and never again on the first one.
func TestOnceInTheFleet(t *testing.T) {
	t.Parallel()
	f := newOneOf(t, 2)
	f.CLI("schedule", "run", "job0")
	if last := f.over("job0"); last.State != "ok" || fmt.Sprint(f.ran("job0")) != "["+f.hosts[0]+"]" {
		t.Errorf("the run is %+v, it ran on %v", last, f.ran("job0"))
	}
	f.cut(0, true) // the server does not know it yet
	f.CLI("schedule", "run", "job1")
	last := f.over("job1")
	f.cut(0, false)
	f.Online(f.hosts[0])
	f.CLI("start", "jobs/job0", "--hosts", f.hosts[0]) // its orders come one after another
	if fmt.Sprint(f.ran("job1")) != "["+f.hosts[1]+"]" || last.State != "ok" {
		t.Errorf("with a host that is cut off the run is %+v, it ran on %v", last, f.ran("job1"))
	}
}

// TestOnceWhateverDies: hosts are cut off, and agents and servers are killed, at random moments. No job runs twice.
func TestOnceWhateverDies(t *testing.T) {
	t.Parallel()
	const jobs = 10
	f := newOneOf(t, jobs)
	for i := range jobs {
		name := fmt.Sprint("job", i)
		early, victim := f.rng.IntN(3) > 0, f.rng.IntN(4)/3
		if early {
			f.cut(victim, true)
		}
		f.CLI("schedule", "run", name)
		switch f.rng.IntN(3) {
		case 0: // its first batch begins
			harness.Eventually(t, "the first batch", func() bool {
				return !strings.Contains(f.CLI("rollout", "status", f.runs(name)[0].Rollout, "-o", "json"), `"batch": -1`)
			})
		case 1:
			if !early {
				harness.Eventually(t, "the job", func() bool { return len(f.ran(name)) > 0 })
			}
		}
		for range 1 + f.rng.IntN(3) {
			switch victim := f.rng.IntN(3); f.rng.IntN(4) {
			case 0:
				f.killServer()
			case 1:
				f.killAgent(victim)
			case 2:
				f.cut(victim, true)
			case 3:
				f.cut(victim, false)
			}
		}
		if early || f.rng.IntN(2) == 0 {
			f.elsewhere(name)
		}
		for host := range f.hosts {
			f.cut(host, false)
		}
	}
	for host := range f.hosts {
		f.cut(host, false)
	}
	for _, host := range f.hosts {
		f.Online(host)
	}
	once := 0
	for i := range jobs {
		name := fmt.Sprint("job", i)
		last := f.over(name)
		ran := f.ran(name)
		if len(ran) > 1 {
			t.Errorf("%s ran on %v: %+v", name, ran, last)
		}
		if last.State == "ok" && len(ran) != 1 {
			t.Errorf("%s is ok and ran on %v", name, ran)
		}
		once += len(ran)
		t.Logf("%s: %s on %v %s", name, last.State, ran, last.Message)
	}
	if once < jobs/2 {
		t.Errorf("%d of %d jobs have run", once, jobs)
	}
}

// TestRunOfAScheduleIsThatOfItsJob: a run goes on while its job runs, and tells how the job has ended. Nobody knows that of
// a job that ended while its agent was away.
func TestRunOfAScheduleIsThatOfItsJob(t *testing.T) {
	t.Parallel()
	f := newOneOf(t, 0)
	for name, body := range map[string]string{"falls": "exit 3", "lasts": "sleep 1000"} {
		spec := filepath.Join(f.Dir, name+".yaml")
		text := fmt.Sprintf("run: sleep 1; %s\ndirectory: %s\nonce: true\nready: {alive: 0s}\n", body, f.dir)
		must(t, os.WriteFile(spec, []byte(text), 0o600))
		f.CLI("register", "jobs/"+name, "--hosts", f.hosts[0], "--file", spec, "--yes")
		f.schedule(name, "0 0 1 1 *", "start", "jobs/"+name)
		f.CLI("schedule", "run", name)
	}
	if last := f.over("falls"); last.State != "failed" || !strings.Contains(last.Message, "exit status 3") {
		t.Errorf("the run of a job that fails is %+v", last)
	}
	f.agents[0].Kill() // the job ends with the agent of a test
	if last := f.runs("lasts")[0]; last.State != "running" {
		t.Errorf("while nobody knows more the run is %+v", last)
	}
	f.agents[0] = f.StartAgent(strings.TrimPrefix(f.hosts[0], "0:"), "--facts-dir", "/nonexistent")
	if last := f.over("lasts"); last.State != "unknown" || !strings.Contains(last.Message, "nobody knows how 1 of 1 runs ended") {
		t.Errorf("the run of a job whose end nobody saw is %+v", last)
	}
}

// TestOnDemand: an apply starts a job that runs on demand neither on its hosts nor on a host that joins; a start on one of
// them runs it once.
func TestOnDemand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.join(first, "role=web")
	f.CLI("apply", "-f", f.file("one", "on_demand: true"), "--yes")
	f.join(late, "role=web")
	harness.Eventually(t, "the job on both hosts", func() bool {
		return strings.Count(f.CLI("ps", "shop/web", "-o", "json"), `"state": "stopped"`) == 2
	})
	if list := f.CLI("drift", "-o", "json"); !strings.Contains(list, `"items": []`) {
		t.Errorf("there is drift:\n%s", list)
	}
	f.CLI("apply", "-f", f.file("two", "on_demand: true"), "--yes")
	f.started("an apply", "")
	f.CLI("start", "shop/web", "-l", "role=web", "--one-of", "--yes")
	f.started("the start", first+" two")
}
