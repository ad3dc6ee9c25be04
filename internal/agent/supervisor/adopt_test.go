package supervisor_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/agent/supervisor"
	"drover/internal/process"
)

// TestAdoptRunning: a process outlives its agent untouched, and is watched again by the next one.
func TestAdoptRunning(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		who := r.instance("a")
		for range 3 {
			r.kill()
			if n := r.Watched(who); n != 0 {
				t.Fatalf("%d watches are left by a dead agent", n)
			}
			r.begin()
			r.state("a", "running", true)
			if now := r.instance("a"); now != who || r.Watched(who) != 1 {
				t.Fatalf("%v is %v, watched %d times", who, now, r.Watched(who))
			}
		}
		r.ran("start a")
		r.Kill(file("a"))
		r.pass(2 * time.Second)
		r.ran("start a", "start a")
		r.state("a", "running", true)
		if rt := r.disk.runtime(id("a")); rt.LastExit == nil || rt.LastExit.Signal != 9 {
			t.Errorf("its last instance is noted to have ended with %+v", rt.LastExit)
		}
	})
}

// TestAdoptedIsKnown from the beginning, even before it is supervised: what the server is told first must not leave it
// out.
func TestAdoptedIsKnown(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Host, "a", r.spec("a"))
		operations := r.Operations()
		super := supervisor.New(supervisor.Config{
			Store: r.handle, Histories: r.handle, Revisions: r.handle,
			Sink: r.sink, Operation: operations, BootStarts: 1, Log: operations.Log,
			Timetables: r.timetable, Probes: r.parts, Usages: r.parts,
		})
		super.Adopt(r.disk.taken())
		if known := super.ProcessIDs(); len(known) != 1 || known[0] != id("a") {
			t.Errorf("%v are known", known)
		}
		if s, _, ok := super.Snapshot(id("a")); !ok || !s.Hosted {
			t.Errorf("status %+v, %v", s, ok)
		}
	})
}

// TestAdoptDead: a crash that nobody saw is made good at once, and a stopped process stays stopped.
func TestAdoptDead(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		b := r.spec("b")
		r.do(process.Start, "a", r.spec("a"))
		r.do(process.Start, "b", b)
		r.do(process.Stop, "b", b)
		r.kill()
		r.Kill(file("a"))
		r.pass(time.Minute)
		r.begin()
		r.ran("start a", "start b", "stop b", "start a")
		r.pass(time.Hour)
		r.ran("start a", "start b", "stop b", "start a")
		r.state("a", "running", true)
		r.state("b", "stopped", false)
	})
}

// TestAdoptALaunchThatHasNotBegun: the agent died after it had counted the last relaunch that the policy allows, and
// before it had begun it. The next agent begins it.
func TestAdoptALaunchThatHasNotBegun(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		spec := r.spec("a")
		r.do(process.Start, "a", spec)
		r.kill()
		r.Kill(file("a"))
		rt := r.disk.runtime(id("a"))
		rt.Attempts, rt.Process, rt.RetryAt = spec.Restarts().GiveUpAfter, nil, 0
		r.disk.putRuntime(id("a"), rt)
		r.begin()
		r.pass(time.Minute)
		r.ran("start a", "start a")
		r.state("a", "running", true)
	})
}

// TestAdoptKeepsTheBudget: an agent that is started anew goes on counting where the last one was.
func TestAdoptKeepsTheBudget(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		at := r.starts("a", crashing(r, "a", 2*time.Second))
		r.Kill(file("a"))
		for range 4 {
			r.pass(4 * time.Second)
			r.kill()
			r.begin()
		}
		r.pass(time.Hour)
		if want := []float64{0, 10, 20, 30}; !slices.Equal(*at, want) {
			t.Errorf("launched at %v, want %v", *at, want)
		}
		r.state("a", "given-up", true)
		r.kill()
		r.begin()
		r.pass(time.Hour)
		if s := r.state("a", "given-up", true); len(*at) != 4 ||
			!strings.Contains(s.Message, "given up after 4 starts") {
			t.Errorf("launched at %v, message %q", *at, s.Message)
		}
	})
}

// TestAdoptRelaunch: an agent that dies at any moment of a relaunch leaves it to the next, which does not launch again.
func TestAdoptRelaunch(t *testing.T) {
	for _, after := range []time.Duration{
		0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond,
		4 * time.Second, 5 * time.Second,
	} {
		t.Run(after.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				s := r.spec("a")
				r.do(process.Start, "a", s)
				r.Script("start a", operationtest.Script{Takes: time.Second, End: func(run string) {
					time.AfterFunc(3*time.Second, func() { r.Spawn("a", file("a"), run) })
				}})
				r.Kill(file("a"))
				r.pass(after)
				r.kill()
				r.pass(time.Second)
				r.begin()
				item := r.submit(process.Query, "a", nil)
				r.pass(10 * time.Second)
				r.ran("start a", "start a")
				r.state("a", "running", true)
				if o, ok := r.sink.outcome(item); !ok || !o.Status.Hosted {
					t.Errorf("the query is answered with %+v", o)
				}
				if rt := r.disk.runtime(id("a")); rt.Run != operationtest.RunID(id("a"), 2) || rt.Outside {
					t.Errorf("the instance is not known to be ours: %+v", rt)
				}
			})
		})
	}
}

// TestAdoptOperation: an operation that the agent's death has cut is finished by the next agent, runs its command once,
// and nothing is launched in between.
func TestAdoptOperation(t *testing.T) {
	for _, c := range []struct {
		op    process.Op
		lines []string
		state string
	}{
		{process.Stop, []string{"start a", "stop a"}, "stopped"},
		{process.Restart, []string{"start a", "restart a"}, "running"},
		{process.Reload, []string{"start a", "reload a"}, "running"},
		{process.Unhost, []string{"start a"}, "running"},
	} {
		for _, after := range []time.Duration{
			0, 500 * time.Millisecond, time.Second, 2 * time.Second,
			5 * time.Second,
		} {
			t.Run(fmt.Sprintf("%s after %v", c.op, after), func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					s := r.spec("a")
					r.do(process.Start, "a", s)
					// The old instance is gone before the agent is back, the new one comes up later.
					r.Script("restart a", operationtest.Script{Takes: time.Second, End: func(run string) {
						r.Kill(file("a"))
						time.AfterFunc(3*time.Second, func() { r.Spawn("a", file("a"), run) })
					}})
					item := r.submit(c.op, "a", s)
					query := r.submit(process.Query, "a", nil)
					if after > 0 {
						r.pass(after)
					}
					_, told := r.sink.outcome(item)
					r.kill()
					r.pass(time.Second)
					r.begin()
					r.pass(time.Minute)
					if o, _ := r.sink.outcome(item); !told &&
						(o.Fault != process.None || !strings.HasPrefix(o.Text, "success")) {
						t.Errorf("outcome %+v", o)
					}
					r.ran(c.lines...)
					r.state("a", c.state, c.op != process.Stop && c.op != process.Unhost)
					if _, open := r.disk.taken(); len(open) > 0 {
						t.Errorf("%d operations are left open, %s of them or %s", len(open), item, query)
					}
				})
			})
		}
	}
}

// TestBegunOperationDoesNotExpire: only what has not begun may be too late.
func TestBegunOperationDoesNotExpire(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.Script("start a", operationtest.Script{Takes: 30 * time.Second, End: func(run string) {
			r.Spawn("a", file("a"), run)
		}})
		item := r.submit(process.Start, "a", s)
		r.pass(time.Second)
		r.kill()
		r.pass(2 * time.Hour)
		r.begin()
		r.pass(time.Minute)
		r.expect(item, process.None,
			"success: start_cmd ended while the agent was away, exit status unknown, so only the state of the process was checked")
	})
}

// TestReboot: what was under way is interrupted, what was hosted is started, what was given up is not.
func TestReboot(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.spec("a"), r.spec("b")
		r.do(process.Start, "a", a)
		r.do(process.Start, "b", b)
		r.starts("b", crashing(r, "b", time.Second))
		r.Kill(file("b"))
		r.pass(time.Hour)
		r.state("b", "given-up", true)
		r.starts("a", crashing(r, "a", time.Second))
		r.Kill(file("a"))
		r.pass(15 * time.Second) // two of its four starts are spent
		reload := r.submit(process.Reload, "a", a)
		queued := r.submit(process.Restart, "a", a)
		synctest.Wait()
		query := record.Entry{
			Item: "query", Process: id("a"), Op: process.Query, Spec: a,
			Expires: time.Now().Add(time.Hour), Boot: r.disk.boot,
		}
		r.disk.accept(query)
		r.reboot()
		at := r.starts("a", crashing(r, "a", time.Second))
		r.begin()
		r.pass(time.Second)
		r.expect(reload, process.Failed,
			"interrupted: the host rebooted during the operation, and drover cannot find out how far the operation came")
		r.expect(queued, process.Failed, "not begun: the host was rebooted while the operation waited for an older one")
		r.expect(query.Item, process.None, "success")
		r.pass(time.Hour)
		if len(*at) != 4 {
			t.Errorf("it was launched at %v after the reboot, want a full budget of 4", *at)
		}
		if n := len(r.Lines()); n != 1+1+4+2+1+4 {
			t.Errorf("%d commands have run: %v", n, r.Lines())
		}
	})
}

// TestBootStarts: after a reboot only a few processes are started at a time.
func TestBootStarts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		names := []string{"a", "b", "c", "d", "e", "f", "g"}
		for _, name := range names {
			r.do(process.Start, name, r.spec(name))
		}
		r.reboot()
		var under, most atomic.Int32
		for _, name := range names {
			r.Kill(file(name))
			r.Script(line("start", name), operationtest.Script{
				Takes: time.Second,
				Begin: func(string) { most.Store(max(most.Load(), under.Add(1))) },
				End: func(run string) {
					under.Add(-1)
					r.Spawn(name, file(name), run)
				},
			})
		}
		r.boots = 3
		r.begin()
		r.pass(time.Minute)
		if n := most.Load(); n != 3 {
			t.Errorf("%d were started at a time, want 3", n)
		}
		for _, name := range names {
			r.state(name, "running", true)
		}
	})
}

// TestStopIsPrompt: an agent that is told to stop does so in the middle of everything.
func TestStopIsPrompt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		r.do(process.Start, "b", r.spec("b"))
		r.Script("start a", operationtest.Script{Takes: time.Hour})
		r.Kill(file("a"))
		r.submit(process.Reload, "b", r.spec("b"))
		synctest.Wait()
		who := r.instance("b")
		began := time.Now()
		r.stop()
		if n := r.Watched(who); n != 0 {
			t.Errorf("%d watches are left", n)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		r.Crash()
		r.begin()
		r.pass(30 * time.Second)
		r.state("a", "starting", true)
		r.state("b", "running", true)
		if got := sorted(r.Lines()); !slices.Equal(got, []string{"reload b", "start a", "start a", "start b"}) {
			t.Errorf("%v have run", got)
		}
	})
}

// TestTellOf: an agent tells of an operation that the agent before has ended, if the log neither tells of it nor is too
// young to know.
func TestTellOf(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		r.kill()
		r.begin()
		ended := func(item string, op process.Op, at int64) record.Entry {
			return record.Entry{Item: item, Process: id("a"), Op: op, Outcome: &process.Outcome{}, Ended: at}
		}
		r.TellOf([]record.Entry{
			ended("told", process.Reload, 1000), ended("old", process.Reload, 999), ended("new", process.Start, 1001),
			ended("silent", process.SetGroups, 1001),
		}, map[string]bool{"told " + id("a").String(): true}, 1000)
		synctest.Wait()
		if got := r.sink.history(id("a")); len(got) != 1 || got[0] != "started →" {
			t.Errorf("told %q, want that it was started", got)
		}
		if e := r.lastEvent(process.EventStarted); e.Actor.Operation != "new" || e.PID != r.instance("a").PID {
			t.Errorf("told %+v", e)
		}
	})
}

// TestGivenUpWhileTheAgentDied: the agent before has counted the last relaunch and died. The next agent begins none,
// and says so.
func TestGivenUpWhileTheAgentDied(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		r.kill()
		r.Kill(file("a"))
		rt := r.disk.runtime(id("a"))
		rt.Process, rt.Attempts = nil, 99
		data, err := json.Marshal(rt)
		if err != nil {
			t.Fatal(err)
		}
		r.disk.mu.Lock()
		r.disk.runtimes[id("a")] = data
		r.disk.mu.Unlock()
		for _, want := range [][]string{{"given-up unknown→given-up odd-pid-file"}, nil} {
			r.begin()
			r.state("a", "given-up", true)
			r.kill()
			if got := r.sink.history(id("a")); !slices.Equal(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		r.begin()
	})
}
