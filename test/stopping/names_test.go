package stopping_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// named is a process that is known by no pid file: an executable of its own in a directory of its own.
func named(t *testing.T, s *harness.Server, name string) *place {
	t.Helper()
	p := newPlace(t, s, name)
	harness.Sleeper(t, p.dir, "main")
	p.Identity["proc_name"], p.Identity["pid_path"] = "main", ""
	p.script("start.sh", "setsid DIR/main 3001 >/dev/null 2>&1 &")
	return p
}

// byHand starts the program of a process as somebody else would, with a working directory.
func (p *place) byHand(cwd string) *exec.Cmd {
	p.t.Helper()
	cmd := exec.Command(p.dir+"/main", "4001")
	cmd.Dir = cwd
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// TestKnownByName: a name alone lets drover look at what it has not started, but ends that only where the name leaves
// no doubt. What drover has started comes first, and what another key is does not count.
func TestKnownByName(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	for name, test := range map[string]func(t *testing.T){
		"another directory": func(t *testing.T) {
			p := named(t, s, "elsewhere")
			p.byHand("/")
			p.must(opHost, 0)
			if r := p.Query(); r.PID <= 0 {
				t.Error("it is not looked at")
			}
			for _, op := range []int{opStop, opKill, opRestart} {
				if r := p.must(op, 65535); !strings.Contains(r.Msg, "drover has not started it") {
					t.Errorf("operation %d is refused with %q", op, r.Msg)
				}
			}
			p.are("after the refusals", "main")
		},
		"several": func(t *testing.T) {
			p := named(t, s, "several")
			p.byHand(p.dir)
			p.byHand(p.dir)
			p.must(opHost, 0)
			p.must(opStop, 65535)
			p.are("after the refusal", "main", "main")
		},
		"another account": func(t *testing.T) {
			p := named(t, s, "account")
			p.Identity["user"] = "nobody"
			p.Policy["auto_type"] = 2 // a stop would succeed if it ended a relaunch
			p.byHand(p.dir)
			p.must(opHost, 0)
			if r := p.Query(); r.PID != -1 {
				t.Errorf("pid %d of another account is shown as the process", r.PID)
			}
			p.must(opStop, 829)
			p.must(opKill, 829)
			p.are("after the refusals", "main")
		},
		"no doubt": func(t *testing.T) {
			p := named(t, s, "certain")
			cmd := p.byHand(p.dir)
			p.must(opHost, 0)
			p.must(opStop, 0)
			if err := cmd.Wait(); err == nil {
				t.Error("it has ended by itself")
			}
		},
		"its own before an older one": func(t *testing.T) {
			p := named(t, s, "own")
			p.byHand("/")
			p.byHand("/")
			// They are seen as the process itself until it has one of its own.
			p.must(opStart, 828)
			q := named(t, s, "owner")
			r := named(t, s, "neighbour")
			r.Identity["setup_path"] = q.dir
			r.script("start.sh", "cd "+q.dir+" && setsid "+q.dir+"/main 5001 >/dev/null 2>&1 &")
			q.must(opStart, 0)
			r.must(opStart, 0)
			if a, b := q.Query().PID, r.Query().PID; a == b || a <= 0 || b <= 0 {
				t.Errorf("the two are pids %d and %d", a, b)
			}
			r.must(opStop, 0)
			q.are("after the stop of the other", "main")
			q.must(opStop, 0)
			q.are("after both stops")
		},
		"instances": func(t *testing.T) {
			p := named(t, s, "instances")
			p.script("start.sh", "for i in 1 2; do setsid DIR/main 3001 >/dev/null 2>&1 & done")
			spec := object{
				"process_name": "main", "directory": p.dir, "user": "root", "start": p.dir + "/start.sh",
				"expected_instances": 2, "compat": object{"start_check_begin": 1, "stop_check_secs": 2},
			}
			if r := s.Outcome(p.Ask("start", spec)); r["outcome"] != "ok" {
				t.Fatalf("start: %v", r)
			}
			p.are("after the start", "main", "main")
			p.byHand("/")
			if r := s.Outcome(p.Ask("stop", nil)); r["outcome"] != "ok" {
				t.Fatalf("stop: %v", r)
			}
			p.are("after the stop: what somebody else runs elsewhere is none of the instances", "main")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// TestRunsAsItWasStarted: a process whose account is changed while it runs is stopped with the account that it was
// started with.
func TestRunsAsItWasStarted(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p := newMaster(t, s, "account")
	p.Control["stop_cmd"] = "kill $(cat main.pid)"
	p.must(opStart, 0)
	p.Identity["user"] = "nobody"
	p.must(opHost, 0)
	p.must(opStop, 0)
	p.are("after the stop")
}

// TestSingleRun: its start command is the run, which has no time limit; a run goes on in the daemon that its command
// leaves behind, although that has not executed its program yet when the command ends.
func TestSingleRun(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p := newPlace(t, s, "migration")
	p.Policy["auto_type"], p.Policy["op_timeout"] = 2, 2
	p.Identity["pid_path"], p.Identity["proc_name"] = "", "start.sh"
	p.script("start.sh", "DIR/worker 4\necho done > DIR/done")
	p.must(opStart, 0)
	p.lives("after the check", "start.sh", "worker")
	harness.Eventually(t, "the end of the run", func() bool {
		_, err := os.Stat(p.dir + "/done")
		return err == nil
	})
	if e := p.AwaitEvents(1, "run-ended"); e[0]["exit"].(object)["code"] != 0.0 {
		t.Errorf("it ended %v", e[0])
	}

	q := newPlace(t, s, "nightly")
	q.Policy["auto_type"], q.Policy["start_check_secs"], q.Policy["crontab_rule"] = 0, 2, "0 0 1 1 *"
	q.script("slow.sh", "sleep 0.7; exec DIR/main.sh")
	q.script("main.sh", "exec DIR/worker 3")
	q.Identity["proc_name"] = "worker"
	q.Control["start_cmd"] = "setsid ./slow.sh >/dev/null 2>&1 & echo $! > main.pid"
	q.must(opStart, 0)
	q.are("after the start", "worker")
	if r := q.Query(); r.PID != q.pid() {
		t.Errorf("the run is pid %d, and the daemon %d", r.PID, q.pid())
	}
	q.AwaitEvents(1, "run-ended")
	q.must(opStop, 0)
}
