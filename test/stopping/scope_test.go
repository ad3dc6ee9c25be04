package stopping_test

import (
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// master writes its pid file and starts a worker in its own group, one in a session of its own, and one that is deaf to
// SIGTERM.
const master = `echo $$ > DIR/main.pid
DIR/worker 1001 &
setsid DIR/worker 1002 &
(trap '' TERM; exec DIR/worker 1003) &
wait`

const daemonize = `setsid DIR/main.sh >/dev/null 2>&1 &
while ! [ -s DIR/main.pid ]; do sleep 0.02; done`

func newMaster(t *testing.T, s *harness.Server, name string) *place {
	p := newPlace(t, s, name)
	p.script("main.sh", master)
	p.script("start.sh", daemonize)
	return p
}

// TestWithGroups and TestWithoutGroups: what is promised holds with control groups, without them, and for processes
// that somebody else has started.
func TestWithGroups(t *testing.T) { t.Parallel(); scopes(t, harness.Start(t, binaries.drover)) }

func TestWithoutGroups(t *testing.T) { t.Parallel(); scopes(t, harness.Start(t, withoutGroups(t))) }

func scopes(t *testing.T, s *harness.Server) {
	for name, test := range map[string]func(t *testing.T, s *harness.Server){
		"stop": func(t *testing.T, s *harness.Server) { ends(t, s, "stop", opStop, "", false) },
		"stop by a command": func(t *testing.T, s *harness.Server) {
			ends(t, s, "stopcmd", opStop, "kill $(cat main.pid)", false)
		},
		"kill":              func(t *testing.T, s *harness.Server) { ends(t, s, "kill", opKill, "", false) },
		"stop of another's": func(t *testing.T, s *harness.Server) { ends(t, s, "adopted", opStop, "", true) },
		"kill of another's": func(t *testing.T, s *harness.Server) { ends(t, s, "adoptedkill", opKill, "", true) },
		"leftovers":         leftovers,
		"restart":           restart,
		"replacement":       replacement,
		"label":             label,
		"neighbour":         neighbour,
		"failed starts":     failedStarts,
		"late failure":      lateFailure,
		"late end":          lateEnd,
		"crash loop":        crashLoop,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// ends: a stop or kill leaves nothing of the run, and its event names what was ended besides the process.
func ends(t *testing.T, s *harness.Server, name string, op int, line string, adopted bool) {
	p := newMaster(t, s, name)
	p.Control["stop_cmd"] = line
	if adopted {
		p.outside("main.sh")
		p.must(opHost, 0)
	} else {
		p.must(opStart, 0)
	}
	p.lives("after the start", "main.sh", "worker", "worker", "worker")
	if r := p.must(op, 0); r.Hosted {
		t.Error("it is hosted after its stop")
	}
	p.are("after the end")
	e := p.AwaitEvents(1, "leftovers-ended")
	text, _ := e[0]["cause"].(object)["text"].(string)
	if op == opStop && (!strings.Contains(text, "worker 1002") || !strings.Contains(text, "worker 1003")) {
		t.Errorf("the event says %q", text)
	}
}

// leftovers: what has outlived a main process that somebody killed is ended by a stop, and by the next start.
func leftovers(t *testing.T, s *harness.Server) {
	p := newMaster(t, s, "leftovers")
	p.must(opStart, 0)
	p.must(opUnhost, 0)
	harness.Signal(t, p.pid(), syscall.SIGKILL)
	p.lives("after the kill", "worker", "worker", "worker")
	p.must(opStop, 0)
	p.are("after the stop of what is left")
	p.must(opStop, 829)

	p.must(opStart, 0)
	p.must(opUnhost, 0)
	harness.Signal(t, p.pid(), syscall.SIGKILL)
	p.lives("after the kill", "worker", "worker", "worker")
	p.must(opStart, 0)
	p.lives("after the next start", "main.sh", "worker", "worker", "worker")

	// A relaunch does the same.
	harness.Signal(t, p.pid(), syscall.SIGKILL)
	p.AwaitEvents(1, "relaunched")
	p.lives("after the relaunch", "main.sh", "worker", "worker", "worker")
	p.must(opStop, 0)
}

// restart: the stop half of a restart ends all of the run.
func restart(t *testing.T, s *harness.Server) {
	p := newMaster(t, s, "restart")
	p.must(opStart, 0)
	before := p.pid()
	p.must(opRestart, 0)
	if p.pid() == before {
		t.Error("it was not restarted")
	}
	p.lives("after the restart", "main.sh", "worker", "worker", "worker")
	p.must(opStop, 0)
	p.are("after the stop")
}

// replacement: what a restart_cmd leaves of the former run is ended; a run in which the new main process was born goes
// on.
func replacement(t *testing.T, s *harness.Server) {
	p := newMaster(t, s, "replacement")
	p.Control["restart_cmd"] = p.dir + "/restart.sh"
	p.script("restart.sh", "kill -9 $(cat DIR/main.pid)\nrm DIR/main.pid\n"+daemonize)
	p.must(opStart, 0)
	before := p.processes()
	p.must(opRestart, 0)
	p.lives("after the restart", "main.sh", "worker", "worker", "worker")
	for pid := range p.processes() {
		if before[pid] != "" {
			t.Errorf("pid %d is of the former run", pid)
		}
	}
	p.must(opStop, 0)

	// The main process puts another one in its place by itself, as nginx does at SIGUSR2: its workers live on.
	p.script("main.sh", `echo $$ > DIR/main.pid
DIR/worker 1001 &
trap 'DIR/second.sh & exit 0' USR2
while :; do sleep 0.05; done`)
	p.script("second.sh", "echo $$ > DIR/main.pid\nexec DIR/main2.sh")
	p.script("main2.sh", "while :; do sleep 0.05; done")
	p.script("restart.sh", "kill -USR2 $(cat DIR/main.pid)")
	p.Identity["proc_name"] = "main.sh"
	p.script("second.sh", "echo $$ > DIR/main.pid\nexec DIR/again/main.sh")
	p.script("start.sh", daemonize)
	p.script("restart.sh",
		"old=$(cat DIR/main.pid)\nkill -USR2 $old\nwhile [ $(cat DIR/main.pid) = $old ]; do sleep 0.02; done")
	p.script("second.sh", "exec DIR/main.sh")
	p.must(opStart, 0)
	p.lives("before the successor", "main.sh", "worker")
	p.must(opRestart, 0)
	p.lives("with the successor", "main.sh", "worker", "worker")
	p.must(opStop, 0)
	p.are("after the stop")
}

// label: a process that says so keeps its children.
func label(t *testing.T, s *harness.Server) {
	p := newMaster(t, s, "label")
	labels := object{"drover.stop_scope": "process"}
	call := func(op, code int) {
		t.Helper()
		request := p.Request(op)
		request["meta"].(object)["labels"] = labels
		p.Await(s.Call("operate_proc_v2", request)["task_id"].(string)).Want(t, "operation", code)
	}
	call(opStart, 0)
	call(opStop, 0)
	p.are("after the stop", "worker", "worker", "worker")
	call(opStart, 0)
	p.lives("after the next start", "main.sh", "worker", "worker", "worker", "worker", "worker", "worker")
	call(opKill, 0)
	labels["drover.stop_scope"] = "children"
	call(opStart, 65535)
	for pid := range p.processes() {
		harness.Signal(t, pid, syscall.SIGKILL)
	}
}

// neighbour: a start script that starts two registered processes: the end of one leaves the other alone, with its
// children.
func neighbour(t *testing.T, s *harness.Server) {
	p := newMaster(t, s, "first")
	p.script("other.sh", "echo $$ > DIR/other.pid\nDIR/worker 2001 &\nwait")
	p.script("start.sh", "setsid DIR/other.sh >/dev/null 2>&1 &\n"+daemonize)
	q := &place{t: t, dir: p.dir, Process: &harness.Process{
		Server: s, Namespace: "stopping", Name: "second", Control: object{"start_cmd": "false"}, Policy: p.Policy,
		Identity: object{
			"proc_name": "other.sh", "setup_path": p.dir, "pid_path": p.dir + "/other.pid",
			"user": "root",
		},
	}}
	q.must(opHost, 0)
	for _, op := range []int{opStop, opKill} {
		p.must(opStart, 0)
		p.lives("after the start", "main.sh", "other.sh", "worker", "worker", "worker", "worker")
		p.must(op, 0)
		p.are("after the end of the first", "other.sh", "worker")
		if r := q.Query(); r.PID <= 0 {
			t.Error("the second is not known to run")
		}
		q.must(op, 0)
		p.are("after the end of the second")
		q.must(opHost, 0)
	}
	q.must(opUnhost, 0)
}

// failedStarts: a start that fails its check leaves nothing running, however often it is tried.
func failedStarts(t *testing.T, s *harness.Server) {
	p := newMaster(t, s, "failed")
	p.Identity["pid_path"] = p.dir + "/typo.pid"
	for range 2 {
		p.must(opStart, 836)
		p.are("after a start that has failed")
	}
	p.Identity["pid_path"], p.Identity["proc_name"] = p.dir+"/main.pid", "mian.sh"
	p.must(opStart, 836)
	p.are("after a start that has failed")
	p.Identity["proc_name"] = "main.sh"
	p.must(opStart, 0)
	p.must(opStop, 0)
}

// lateFailure: a restart_cmd that starts the process and then fails leaves one instance, which is watched, also where
// the former instance has not ended and this one has not executed its program when the command ends.
func lateFailure(t *testing.T, s *harness.Server) {
	p := newMaster(t, s, "latefailure")
	p.Control["restart_cmd"] = p.dir + "/restart.sh"
	p.script("restart.sh",
		"(sleep 0.2; kill $(cat DIR/main.pid.old)) &\nmv DIR/main.pid DIR/main.pid.old\nsetsid sh -c 'sleep 0.5; exec DIR/main.sh' >DIR/out 2>&1 </dev/null &\necho $! >DIR/main.pid\nexit 1")
	p.must(opStart, 0)
	restarted := p.must(opRestart, 65535)
	if !restarted.Hosted {
		t.Error("it is not hosted any more")
	}
	pid := p.pid()
	if r := p.Query(); r.PID != pid {
		t.Errorf("pid %d is watched, and %d runs; the restart said %q", r.PID, pid, restarted.Msg)
	}
	p.must(opStop, 0)
	p.are("after the stop")
}

// lateEnd: a process that ends a little later than its stop waits stays down.
func lateEnd(t *testing.T, s *harness.Server) {
	p := newPlace(t, s, "lateend")
	p.script("main.sh", "trap 'sleep 3; exit 0' TERM\necho $$ > DIR/main.pid\nwhile :; do sleep 0.05; done")
	p.script("start.sh", daemonize)
	p.must(opStart, 0)
	if r := p.must(opStop, 836); !r.Hosted {
		t.Error("the flag does not stay until the process has ended")
	}
	e := p.AwaitEvents(1, "stopped")
	if actor, _ := e[0]["actor"].(object); actor["kind"] != "caller" {
		t.Errorf("the event says %v", e[0])
	}
	p.must(opStop, 829)
	if r := p.Query(); r.Hosted || r.PID > 0 {
		t.Errorf("it runs again: %+v", r)
	}
	p.are("after the end")
}

// crashLoop: a stop of a process that is about to be started again ends that.
func crashLoop(t *testing.T, s *harness.Server) {
	p := newPlace(t, s, "crashloop")
	p.Policy["start_interval"] = 60
	p.script("main.sh", "echo $$ > DIR/main.pid\nuntil [ -e DIR/end ]; do sleep 0.05; done\nexit 3")
	p.script("start.sh", daemonize)
	p.must(opStart, 0)
	p.script("end", "")
	harness.Eventually(t, "back-off", func() bool { return p.Status()["state"] == "backoff" })
	if r := p.must(opStop, 829); r.Hosted {
		t.Error("isAuto is true")
	}
	if status := p.Status(); status["state"] != "stopped" || status["hosted"] == true {
		t.Errorf("status %v", status)
	}
}
