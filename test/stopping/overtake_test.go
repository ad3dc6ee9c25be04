package stopping_test

import (
	"strings"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// TestKillOvertakes: a kill does not wait for a command that hangs, and what waits is carried out after it.
func TestKillOvertakes(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	for name, c := range map[string]struct {
		op   int
		verb string
	}{
		"start": {opStart, "start"}, "stop": {opStop, "stop"}, "restart": {opRestart, "restart"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newMaster(t, s, "hang-"+name)
			p.Policy["op_timeout"] = 3600
			p.script("hang.sh", "cp DIR/worker DIR/hangs\nDIR/worker 9001 &\nexec DIR/hangs 9002")
			if c.op != opStart {
				p.must(opStart, 0)
			}
			control := p.Control[c.verb+"_cmd"]
			p.Control[c.verb+"_cmd"] = p.dir + "/hang.sh"
			hangs := p.Submit(c.op)
			harness.Eventually(t, "the command that hangs",
				func() bool { return strings.Contains(strings.Join(p.living(), " "), "hangs") })
			p.Control[c.verb+"_cmd"] = control
			p.must(opKill, 0)
			if r := p.Await(hangs).Want(t, "the operation that hung", 65535); !strings.Contains(r.Msg,
				"ended by a kill") {
				t.Errorf("it says %q", r.Msg)
			}
			p.are("after the kill")
			p.must(opStart, 0)
			p.must(opStop, 0)
		})
	}
}

// TestNothingLocksAKey: a check that lasts for an hour holds up neither a query nor a stop, and status and why tell
// what goes on.
func TestNothingLocksAKey(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p := newMaster(t, s, "long")
	p.Policy["start_check_secs"] = 3600
	start := p.Submit(opStart)
	p.lives("while it is checked", "main.sh", "worker", "worker", "worker")
	if r := p.Query(); r.PID != p.pid() {
		t.Errorf("a query shows pid %d, and %d runs", r.PID, p.pid())
	}
	// The agent tells that it has begun a little later than it begins.
	harness.Eventually(t, "why to tell what is under way", func() bool {
		_, out, _ := cli(t, s, "why", "stopping/long")
		return strings.Contains(out, "start by tester") && strings.Contains(out, "under way since")
	})
	code, out, _ := cli(t, s, "status", "stopping/long")
	if code != 3 || !strings.Contains(out, "under way since") {
		t.Errorf("status exits with %d: %s", code, out)
	}
	row := p.Row()
	if message, _ := row["message"].(string); !strings.Contains(message, "start under way since") {
		t.Errorf("get_proc_status says %v", row)
	}
	p.must(opStop, 0)
	p.Await(start).Want(t, "the start", 0)
	p.are("after the stop")

	q := newPlace(t, s, "silent")
	q.script("start.sh", "sleep 3000")
	q.Policy["op_timeout"] = 3600
	start = q.Submit(opStart)
	began := time.Now()
	if r := q.Query(); r.PID != -1 || time.Since(began) > time.Minute {
		t.Errorf("a query beside a command that hangs: %+v after %v", r, time.Since(began))
	}
	q.must(opKill, 0)
	q.Await(start).Want(t, "the start", 65535)
}

// cli runs the command line against a server.
func cli(t *testing.T, s *harness.Server, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	f := harness.Finish(t, "", harness.Environment(t.TempDir()), binaries.drover,
		append(args, "--data-dir", s.DataDir)...)
	return f.Code, f.Out, f.Errors
}
