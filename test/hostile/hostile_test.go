package hostile_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// What the programs may take, whoever attacks (docs/security.md).
const (
	serverMemory = 512 // MB
	agentMemory  = 64  // MB
	outputDisk   = 512 // MB, of what the processes of an agent write
	slower       = 5.0 // times as long good calls may take
)

// size is how many there are of all.
type size struct {
	length                  time.Duration
	good, agents, strangers int
	seed                    uint64
}

// TestHostile has good callers operate on the processes of good hosts, first beside programs that only use the
// processors, then beside attackers that use as much. In its short form it asks for what holds on any machine: nothing
// is lost, and all bounds are kept. In its long form (make hostile) it compares the times, too.
func TestHostile(t *testing.T) {
	s := size{good: 3, agents: 16, strangers: 60}
	s.length, s.seed = judge.Choices(t, 8*time.Second)
	if judge.Long() {
		s.good, s.agents, s.strangers = 20, 256, 400
	}
	b := newBattle(t, s)
	idle := b.phase("idle load", max(s.length/5, 4*time.Second), b.attackers(plan{As: "idle", Many: 4}))
	attacked := b.phase("attack", s.length,
		b.attackers(
			plan{As: "agents", Many: s.agents, Token: b.Token(0, "--uses", strconv.Itoa(s.agents)), Dir: b.dir},
			plan{As: "app", App: "reader", Secret: b.secret, Host: host(0), Task: b.task},
			plan{As: "person", Link: strings.TrimSpace(b.CLI("login", "eve"))},
			plan{As: "strangers", Many: s.strangers, Fabric: b.fabric},
		))
	b.check()
	for _, kind := range []string{"call", "query", "stop"} {
		before, then := idle[kind], attacked[kind]
		if len(before) == 0 || len(then) == 0 {
			t.Fatalf("%s: %d times before, %d under attack", kind, len(before), len(then))
		}
		ratio := float64(at(then, 0.99)) / float64(at(before, 0.99))
		t.Logf("%-5s p50 %v → %v, p99 %v → %v, %.1f times as long; %d and %d of them", kind,
			at(before, 0.5), at(then, 0.5), at(before, 0.99), at(then, 0.99), ratio, len(before), len(then))
		if judge.Long() && ratio > slower {
			t.Errorf("a good %s takes %.1f times as long under attack, want at most %.1f", kind, ratio, slower)
		}
	}
}

// plan is what an attacker reads (test/hostile/attacker).
type plan struct {
	As, URL, Fabric, Token, Dir, App, Secret, Host, Task, Link string
	Seed                                                       uint64
	Many                                                       int
}

// battle is a fleet with its good callers.
type battle struct {
	*harness.Fleet
	t                         *testing.T
	size                      size
	dir, secret, task, fabric string
	processes                 []*harness.Process
	dirs                      []string
	agents                    []*harness.Program
	// starts is how often each process was started by an operation that succeeded.
	starts []int
	writer string // the pid file of the process that writes without end
	disk   int    // of the server's directory, in MB, before the attack
}

func host(i int) string { return fmt.Sprintf("0:127.0.1.%d", i+1) }

func newBattle(t *testing.T, s size) *battle {
	t.Helper()
	b := &battle{
		Fleet: harness.NewFleet(t, binaries.drover, binaries.agent, "--log-level", "info"), t: t, size: s,
		dir: t.TempDir(), starts: make([]int, s.good),
	}
	for i := range s.good {
		name := fmt.Sprint("good-", i)
		b.agents = append(b.agents, b.JoinAndStart(name, strings.TrimPrefix(host(i), "0:"), 0, "--log-level", "info"))
		p, dir := harness.Odd(t, nil, binaries.oddd, name, "plain")
		p.Namespace, p.Host, p.Policy = "good", host(i), harness.Object{"start_check_secs": 0}
		b.processes, b.dirs = append(b.processes, p), append(b.dirs, dir)
	}
	b.fabric = strings.TrimPrefix(harness.Enrolment(t, b.AgentDir("good-0")).URLs[0], "tls://")
	var made struct{ Secret string }
	if err := json.Unmarshal([]byte(b.CLI("app", "create", "reader", "--grant", "read on mine", "-o", "json")),
		&made); err != nil {
		t.Fatal(err)
	}
	b.secret = made.Secret
	b.task, _ = b.Call("operate_proc_v2", b.processes[0].Request(2))["task_id"].(string)
	b.CLI("user", "create", "eve")
	b.flood()
	b.disk = megabytes(b.ServerDir())
	return b
}

// flood has an account on the first host write without end. In the short form it writes 200 MB/s: a machine that holds
// the agent's thread back for two seconds still keeps the bound. In the long form it writes as fast as the kernel takes
// it, at the lowest priority: of all sessions, where the kernel goes by those (sched(7)).
func (b *battle) flood() {
	b.t.Helper()
	p, dir := harness.Odd(b.t, nil, binaries.oddd, "writer", "hold-stdout", "-every", "20ms", "-kib", "4096")
	p.Namespace, p.Host = "flood", host(0)
	p.Identity["user"], b.writer = "nobody", dir+"/oddd.pid"
	if judge.Long() {
		p.Identity = harness.Object{
			"proc_name": "yes", "setup_path": dir, "pid_path": b.writer, "user": "nobody",
		}
		// It becomes slow only once it bears its name, which the check after the start looks for.
		p.Control["start_cmd"] = `yes & pid=$!; echo $pid >` + b.writer + `; ` +
			`until [ "$(cat /proc/$pid/comm)" = yes ]; do :; done; ` +
			`renice -n 19 -p $pid; echo 19 >/proc/$pid/autogroup`
	}
	b.Want(0, b.Operate(p, 0, host(0)))
}

// attackers starts programs at the lowest priority, and waits until they attack.
func (b *battle) attackers(plans ...plan) map[string]*harness.Program {
	b.t.Helper()
	all := map[string]*harness.Program{}
	for _, p := range plans {
		p.URL, p.Seed = b.URL, b.size.seed
		text, err := json.Marshal(p)
		if err != nil {
			b.t.Fatal(err)
		}
		log := &harness.Log{}
		log.ShowIfFailed(b.t, p.As)
		a := harness.Launch(b.t, log, harness.Environment(b.dir, "PLAN="+string(text)), "nice", "-n", "19",
			binaries.attacker)
		harness.Eventually(b.t, "the "+p.As+" to be ready",
			func() bool { return a.Ended() || strings.Contains(a.Out.String(), "ready\n") })
		all[p.As] = a
	}
	return all
}

// times are how long good calls took, by their kind.
type times map[string][]time.Duration

// at returns the time that a part of all is not longer than.
func at(all []time.Duration, part float64) time.Duration {
	slices.Sort(all)
	return all[int(float64(len(all)-1)*part)].Round(100 * time.Microsecond)
}

// phase has every good caller operate on its process for a while beside others, ends these, and returns the times.
func (b *battle) phase(what string, length time.Duration, others map[string]*harness.Program) times {
	b.t.Helper()
	all := times{}
	var mu sync.Mutex
	var callers sync.WaitGroup
	until := time.Now().Add(length)
	for i := range b.processes {
		callers.Go(func() {
			c := &caller{
				battle: b, number: i, random: rand.New(rand.NewPCG(b.size.seed, uint64(1000+i))),
				times: times{},
			}
			for time.Now().Before(until) && c.round() {
			}
			mu.Lock()
			defer mu.Unlock()
			for kind, list := range c.times {
				all[kind] = append(all[kind], list...)
			}
		})
	}
	over := make(chan struct{})
	most := 0
	go func() {
		defer close(over)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for time.Now().Before(until) {
			most = max(most, megabytes(filepath.Join(b.AgentDir("good-0"), "agent", "output")))
			<-tick.C
		}
	}()
	callers.Wait()
	<-over
	for as, other := range others {
		if other.Ended() {
			b.t.Errorf("the %s have ended before the battle", as)
		}
		_ = other.Terminate()
		b.t.Logf("%s: %s: %s", what, as, strings.TrimSpace(other.Out.String()))
	}
	b.t.Logf("%s: outputs of a host took %d MB at most", what, most)
	if most > outputDisk {
		b.t.Errorf("%s: outputs of a host took %d MB, want at most %d", what, most, outputDisk)
	}
	return all
}
