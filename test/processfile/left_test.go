package processfile_test

import (
	"strconv"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// leaving is a process whose commands leave processes behind, and a daemon whose reload replaces it.
const leaving = `
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}}
processes:
  api:
    run: sleep 1000
    before_start: {run: "echo >>starts; sleep 1001 >/dev/null 2>&1 & echo $! >before_start.pid"}
    reload: "sleep 1002 >/dev/null 2>&1 & echo $! >reload.pid"
    before_stop: {run: "sleep 1003 >/dev/null 2>&1 & echo $! >before_stop.pid"}
  daemon:
    start: "setsid sleep 1004 >/dev/null 2>&1 & echo $! >daemon.pid"
    reload: "setsid sleep 1004 >/dev/null 2>&1 & old=$(cat daemon.pid); echo $! >daemon.pid; kill $old"
    pid_file: DIR/daemon.pid
`

// TestLeftByCommands: what the commands around a process leave in the background ends with the process, also with
// another agent. A daemon that its reload has started lives on.
func TestLeftByCommands(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Apply(leaving)
	first, daemon := p.number("before_start.pid"), p.PID("daemon")
	for _, name := range []string{"api", "daemon"} {
		if f := p.CLI("reload", "shop/"+name); f.Code != 0 {
			t.Fatalf("%s%s", f.Out, f.Errors)
		}
	}
	harness.Eventually(t, "the daemon that its reload has started", func() bool {
		pid := p.PID("daemon")
		return pid != daemon && pid == p.number("daemon.pid")
	})
	was := p.PID("api")
	harness.Signal(t, was, syscall.SIGKILL)
	harness.Eventually(t, "a relaunch", func() bool {
		pid := p.PID("api")
		return p.count("starts") == 2 && pid != 0 && pid != was
	})
	harness.Eventually(t, "the end of what the first start and the reload have left", func() bool {
		return !harness.Alive(first) && !harness.Alive(p.number("reload.pid"))
	})
	second := p.number("before_start.pid")
	p.S.Kill()
	p.S.Run()
	harness.Eventually(t, "the process to run", func() bool { return p.State("api") == "running" })
	if !harness.Alive(second) {
		t.Error("what the last start has left did not live as long as the process")
	}
	if f := p.CLI("stop", "shop/*", "--yes"); f.Code != 0 {
		t.Errorf("%s%s", f.Out, f.Errors)
	}
	for _, file := range []string{"before_start.pid", "before_stop.pid", "reload.pid", "daemon.pid"} {
		pid := p.number(file) // nobody may have reaped it yet
		harness.Eventually(t, "the end of that of "+file, func() bool { return !harness.Alive(pid) })
	}
}

// number is the number in a file of the directory.
func (p *place) number(name string) int {
	p.T.Helper()
	n, err := strconv.Atoi(p.read(name))
	if err != nil {
		p.T.Fatal(err)
	}
	return n
}
