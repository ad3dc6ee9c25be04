package faults_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// copyDisk keeps what is on the agent's disk, which must not be in use. What is returned brings it back: all of it, or
// without what is good for one boot.
func (r *rig) copyDisk() (back func(runtime bool)) {
	r.t.Helper()
	dir, copied := filepath.Join(r.dir, "agent"), r.t.TempDir()
	move := func(from, to, name string) {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o600)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	files := []string{"state.db", "runtime.db"}
	for _, name := range files {
		move(dir, copied, name)
	}
	return func(runtime bool) {
		r.t.Helper()
		move(copied, dir, files[0])
		if runtime {
			move(copied, dir, files[1])
		}
	}
}

// end ends the process's instance, if there is one.
func (r *rig) end(p *harness.Process) {
	r.t.Helper()
	path := filepath.Join(r.work, p.Name, "d.pid")
	if _, err := os.Stat(path); err != nil {
		return
	}
	if pid := harness.ReadPID(r.t, path); harness.Alive(pid) {
		harness.Signal(r.t, pid, syscall.SIGKILL)
		harness.Eventually(r.t, "the process to end", func() bool { return !harness.Alive(pid) })
	}
}

// put carries out one of the operations that end hosting.
func (r *rig) put(p *harness.Process, what string) {
	r.t.Helper()
	switch what {
	case "unregister":
		body := p.Request(judge.Query)
		delete(body, "op_type")
		result, err := r.caller().GSE("unregister_proc_info", body)
		if err != nil {
			r.t.Fatal(err)
		}
		if entry, ok := result[p.Key()].(harness.Object); !ok || entry["error_code"] != 0.0 {
			r.t.Fatalf("unregister: %v", result)
		}
	default:
		if got := r.operate(p, map[string]int{"stop": judge.Stop, "unhost": judge.Unhost}[what]); got.Code != 0 {
			r.t.Fatalf("%s: %d %s", what, got.Code, got.Msg)
		}
	}
}

// TestI7_OldDisk: what was stopped, taken out of hosting or unregistered does not come back with a copy of the agent's
// disk from before that. Where the copy finds no server it goes by itself, and what it has started is left alone from
// the moment the server is there.
func TestI7_OldDisk(t *testing.T) {
	t.Parallel()
	for i, what := range []string{"stop", "unhost", "unregister"} {
		for _, alone := range []bool{false, true} {
			if alone != (i == 1) && !judge.Long() {
				continue // each of the three once, and one without a server
			}
			name := what
			if alone {
				name += " without a server at first"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				oldDisk(t, what, alone)
			})
		}
	}
}

func oldDisk(t *testing.T, what string, alone bool) {
	r := newRig(t)
	r.start(true, never)
	p := r.process("p")
	r.does(p, judge.Start)
	r.agent.kill()
	back := r.copyDisk()
	r.agent = r.run(roleAgent, never)
	r.put(p, what)
	for _, runtime := range []bool{false, true} {
		starts := judge.Ran(p, "start")
		r.agent.kill()
		r.end(p)
		back(runtime)
		if alone {
			r.server.kill()
		}
		r.agent = r.run(roleAgent, never)
		if alone {
			harness.Eventually(t, "the agent to go on by itself", func() bool {
				return judge.Ran(p, "start") > starts && judge.Instances(t, filepath.Join(r.work, "p")) == 1
			})
			starts++
			r.server = r.run(roleServer, never)
			r.ready()
			harness.Eventually(t, "the server's word to come", func() bool {
				got := r.operate(p, judge.Query)
				return got.PID > 1 && !got.Hosted
			})
			r.end(p)
		}
		// A question is answered after whatever was to be begun at the start.
		if got := r.operate(p, judge.Query); got.PID > 1 || got.Hosted {
			t.Errorf("runtime.db restored %v: pid %d, hosted %v", runtime, got.PID, got.Hosted)
		}
		if n := judge.Ran(p, "start"); n != starts || judge.Instances(t, filepath.Join(r.work, "p")) != 0 {
			t.Errorf("%sruntime.db restored %v: started %d times, want %d", harness.MoreThan(starts, n), runtime, n, starts)
		}
		// What has been made good stands without the server, too.
		r.agent.kill()
		r.agent = r.run(roleAgent, never)
		if got := r.operate(p, judge.Query); got.PID > 1 || got.Hosted {
			t.Errorf("after another restart: pid %d, hosted %v", got.PID, got.Hosted)
		}
	}
	// And it is not in the way of what comes next.
	r.does(p, judge.Start)
	r.agent.kill()
	r.agent = r.run(roleAgent, never)
	if got := r.operate(p, judge.Query); got.PID <= 1 || !got.Hosted {
		t.Errorf("a new start did not last: pid %d, hosted %v", got.PID, got.Hosted)
	}
}

// TestI4_WipedDisk: an agent whose disk is empty, or from before its processes were registered, gets back what it had:
// what runs is left alone and hosted, what was hosted and is down is started, and what was stopped stays so.
func TestI4_WipedDisk(t *testing.T) {
	t.Parallel()
	for _, wiped := range []bool{true, false} {
		t.Run(map[bool]string{true: "wiped", false: "old"}[wiped], func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.start(true, never)
			first, up, down, stopped := r.process("first"), r.process("up"), r.process("down"), r.process("stopped")
			r.does(first, judge.Start)
			r.agent.kill()
			back := r.copyDisk()
			r.agent = r.run(roleAgent, never)
			for _, p := range []*harness.Process{up, down, stopped} {
				r.does(p, judge.Start)
			}
			r.put(stopped, "stop")
			pid := harness.ReadPID(t, filepath.Join(r.work, "up", "d.pid"))
			r.agent.kill()
			r.end(down)
			if wiped {
				wipe(t, filepath.Join(r.dir, "agent"))
			} else {
				back(true)
			}
			r.agent = r.run(roleAgent, never)
			harness.Eventually(t, "what was hosted to be back", func() bool {
				got := r.operate(down, judge.Query)
				return got.PID > 1 && got.Hosted
			})
			if got := r.operate(up, judge.Query); got.PID != pid || !got.Hosted {
				t.Errorf("up: pid %d hosted %v, want pid %d, hosted", got.PID, got.Hosted, pid)
			}
			if got := r.operate(stopped, judge.Query); got.PID > 1 || got.Hosted {
				t.Errorf("stopped: pid %d, hosted %v", got.PID, got.Hosted)
			}
			for p, want := range map[*harness.Process]int{first: 1, up: 1, down: 2, stopped: 1} {
				if n := judge.Ran(p, "start"); n != want {
					t.Errorf("%s%s was started %d times, want %d", harness.MoreThan(want, n), p.Name, n, want)
				}
			}
			// It is watched, and what comes next counts.
			harness.Signal(t, pid, syscall.SIGKILL)
			harness.Eventually(t, "a relaunch", func() bool {
				return judge.Ran(up, "start") == 2 && judge.Instances(t, filepath.Join(r.work, "up")) == 1
			})
			r.put(down, "stop")
			r.agent.kill()
			r.agent = r.run(roleAgent, never)
			if got := r.operate(down, judge.Query); got.PID > 1 || got.Hosted {
				t.Errorf("stopped after all: pid %d, hosted %v", got.PID, got.Hosted)
			}
			if got := r.operate(first, judge.Query); got.PID <= 1 || !got.Hosted {
				t.Errorf("first: pid %d, hosted %v", got.PID, got.Hosted)
			}
		})
	}
}

// wipe empties an agent's directory but for its keys and its enrolment.
func wipe(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if slices.Contains([]string{"agent.nkey", "sealing.nkey", "enrolment.json"}, e.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "state.db")); !os.IsNotExist(err) {
		t.Fatalf("state.db: %v, want %v", err, fs.ErrNotExist)
	}
}
