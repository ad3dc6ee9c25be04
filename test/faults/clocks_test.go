package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// setClock sets how far the clock of a part is off. An agent sees it at once, a server when it starts: it reads its
// clock only then.
func (r *rig) setClock(whose string, off time.Duration) {
	r.t.Helper()
	path := filepath.Join(r.dir, "clock-"+whose)
	if err := os.WriteFile(path+".new", []byte(off.String()), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		r.t.Fatal(err)
	}
}

// promptly is how long an operation of a second or two may take, with a restart of drover in the middle. Whatever a
// stepped clock holds up takes minutes.
const promptly = 40 * time.Second

// TestI2_I3_SteppedClocks: the clocks of server and agent are an hour apart or not, and are set forward and back by a
// day while operations run and wait and while the server or the agent is restarted. Each operation is carried out once,
// none is held up, none expires, and a crash is followed by a relaunch. But for one that waits at a server whose clock
// is set forward while it is down: that one is told to have expired, and never runs.
func TestI2_I3_SteppedClocks(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct{ server, agent, serverStep, agentStep time.Duration }{
		{agentStep: day},
		{agentStep: -day},
		{serverStep: day},
		{serverStep: -day},
		{server: time.Hour, agent: -time.Hour, serverStep: -day, agentStep: day},
		{server: -time.Hour, agent: time.Hour, serverStep: day, agentStep: -day},
	} {
		name := fmt.Sprintf("server %v then %v, agent %v then %v", c.server, c.serverStep, c.agent, c.agentStep)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.setClock(roleServer, c.server)
			r.setClock(roleAgent, c.agent)
			r.start(true, never)
			p := r.process("p")
			starts := 1
			reload := p.Control["reload_cmd"].(string)
			r.does(p, judge.Start)
			for round := range 2 {
				p.Control["reload_cmd"] = "echo begun >>run.log; sleep 1; " + reload
				begin := time.Now()
				tasks := []string{r.accepted(p, judge.Reload), r.accepted(p, judge.Restart)}
				harness.Eventually(t, "the first to be under way",
					func() bool { return judge.Ran(p, "begun") == round+1 })
				r.setClock(roleAgent, c.agent+c.agentStep)
				r.setClock(roleServer, c.server+c.serverStep)
				if round == 0 {
					r.server.kill()
					r.start(true, never)
				} else {
					r.agent.kill()
					r.agent = r.run(roleAgent, never)
				}
				if got := r.await(p, tasks[0]); got.Code != 0 {
					t.Errorf("round %d, what ran: %d %s", round, got.Code, got.Msg)
				}
				switch got := r.await(p, tasks[1]); {
				case got.Code == 0:
					starts++
				case round == 1 || c.serverStep <= 0 || !strings.HasPrefix(got.Msg, "expired"):
					t.Errorf("round %d, what waited: %d %s", round, got.Code, got.Msg)
				}
				if took := time.Since(begin); took > promptly {
					t.Errorf("round %d took %v", round, took)
				}
				// The next round steps both back.
				c.agent, c.agentStep = c.agent+c.agentStep, -c.agentStep
				c.server, c.serverStep = c.server+c.serverStep, -c.serverStep
			}
			if started, reloaded := judge.Ran(p, "start"), judge.Ran(p, "reload"); started != starts || reloaded != 2 {
				t.Errorf("%s%sstarted %d times, want %d; reloaded %d times, want 2", harness.MoreThan(starts, started),
					harness.MoreThan(2, reloaded), started, starts, reloaded)
			}
			harness.Signal(t, harness.ReadPID(t, filepath.Join(r.work, "p", "d.pid")), syscall.SIGKILL)
			begin := time.Now()
			harness.Eventually(t, "a relaunch", func() bool {
				return judge.Ran(p, "start") == starts+1 && judge.Instances(t, filepath.Join(r.work, "p")) == 1
			})
			if took := time.Since(begin); took > promptly {
				t.Errorf("the relaunch took %v", took)
			}
		})
	}
}

// accepted begins an operation that must be accepted.
func (r *rig) accepted(p *harness.Process, op int) string {
	r.t.Helper()
	task, err := r.submit(p, op)
	if err != nil {
		r.t.Fatal(err)
	}
	return task
}
