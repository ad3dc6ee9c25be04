package faults_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// TestThingsThatAreTakenAway removes what drover has made outside of its databases, one thing after another, while it
// runs. Each time all processes are relaunched after a kill -9, a restart and a stop work, and the events tell of it.
func TestThingsThatAreTakenAway(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(fmt.Sprintf(`namespace: shop
processes:
  web:
    hosts: ["0:127.0.0.1"]
    run: echo begun; exec sleep 1000
    restart: {delay: 100ms}
    runtime_directory: drover-test-BASE
  descriptor:
    hosts: ["0:127.0.0.1"]
    run: echo ready >&3; exec 3>&-; exec sleep 1000
    ready: {notify_fd: 3}
    restart: {delay: 100ms}
  herald:
    hosts: ["0:127.0.0.1"]
    run: exec %s say READY=1 hold
    directory: DIR
    ready: {notify: true}
    restart: {delay: 100ms}
  daemon:
    hosts: ["0:127.0.0.1"]
    start: sleep 1000 >/dev/null 2>&1 & echo $! >DIR/daemon.pid
    process_name: sleep
    pid_file: DIR/daemon.pid
    restart: {delay: 100ms}
`, binaries.herald))
	names := []string{"web", "descriptor", "herald", "daemon"}
	socket := variable(t, p.PID("herald"), "NOTIFY_SOCKET")
	agent := filepath.Join(p.S.DataDir, "agent")
	t.Cleanup(func() { _ = os.RemoveAll("/run/drover-test-" + filepath.Base(p.Dir)) })
	relaunches := 0
	for _, thing := range []string{
		"log", "output", "ready", "notices", "events", "runtime-directories", "proofs", "runtime.db", "socket",
		"/run/drover-test-" + filepath.Base(p.Dir),
	} {
		path := filepath.Join(agent, thing)
		switch {
		case thing == "socket":
			path = socket
		case filepath.IsAbs(thing):
			path = thing
		}
		// A log gets its name back while its directory is being removed.
		if err := os.RemoveAll(path); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
			t.Fatal(err)
		}
		if thing == "socket" {
			harness.Eventually(t, "the socket for notifications", func() bool {
				_, err := os.Stat(socket)
				return err == nil
			})
		}
		relaunches++
		for _, name := range names {
			before := p.PID(name)
			if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
				t.Fatalf("without %s, %s: %v", thing, name, err)
			}
			harness.Eventually(t, "a relaunch of "+name+" without "+thing, func() bool {
				pid := p.PID(name)
				return pid > 0 && pid != before && p.State(name) == "running"
			})
			p.Process(name).AwaitEvents(relaunches, "relaunched")
		}
		for _, operation := range []string{"restart", "stop", "start"} {
			if a := p.CLI(operation, "shop/*", "--yes"); a.Code != 0 {
				t.Fatalf("%s without %s: exit code %d\n%s%s", operation, thing, a.Code, a.Out, a.Errors)
			}
		}
		if a := p.CLI("logs", "shop/web"); !strings.Contains(a.Out, "begun") {
			t.Errorf("without %s the log is %q", thing, a.Out)
		}
	}
	before := map[string]int{}
	for _, name := range names {
		before[name] = p.PID(name)
	}
	p.S.Kill()
	p.S.Run()
	for _, name := range names {
		if pid := p.PID(name); pid != before[name] || pid == 0 {
			t.Errorf("%s has pid %d under the next drover, want %d", name, pid, before[name])
		}
	}
}

// variable is a variable in the environment of a process.
func variable(t *testing.T, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(text), "\x00") {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return value
		}
	}
	t.Fatalf("pid %d has no %s", pid, name)
	return ""
}
