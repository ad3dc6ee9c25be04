package stopping_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/test/harness"
)

// hostile are foreground processes that do what they can to outlive a stop. Each says up when it has begun.
func hostile() map[string]string {
	return map[string]string{
		// It is deaf, and so are its children in sessions of their own.
		"deaf": `trap '' TERM INT HUP; (setsid DIR/worker 1001 &); echo up; while :; do DIR/worker 0.1; done`,
		// Each of its processes starts another one in a new session and ends.
		"storm": `body='DIR/worker 0.005; (setsid sh -c "$body" &)'; export body
for i in 1 2 3; do (setsid sh -c "$body" &); done; echo up; exec DIR/worker 1000`,
		// It leaves its children to the reaper of orphans, twice removed.
		"double fork": `(setsid sh -c '(setsid DIR/worker 1001 & ) ; exec DIR/worker 1002' &) ; echo up; exec DIR/worker 1000`,
		// It stops itself, as SIGSTOP from outside would.
		"stopped": `DIR/worker 1001 & echo up; kill -STOP $$; wait`,
		// A debugger holds it.
		"traced": `DIR/worker 1001 & echo up; exec DIR/worker 1000`,
	}
}

// TestHostile: a stop of a foreground process ends everything that it started, within its own times, whatever it does.
func TestHostile(t *testing.T) {
	t.Parallel()
	for name, drover := range map[string]string{"with groups": binaries.drover, "without groups": withoutGroups(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for name, script := range hostile() {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					p := harness.NewPlace(t, drover)
					text := "#!/bin/sh\n" + strings.ReplaceAll(script, "DIR", p.Dir) + "\n"
					if err := harness.WriteProgram(filepath.Join(p.Dir, "main"), []byte(text)); err != nil {
						t.Fatal(err)
					}
					harness.Sleeper(t, p.Dir, "worker")
					p.Apply(`
namespace: shop
processes:
  api:
    hosts: ["0:127.0.0.1"]
    user: root
    directory: DIR
    run: DIR/main
    stop_signals: [TERM 300ms, KILL]
    ready: {log: up}
    environment: {PLACE: DIR}
    restart: {when: never}
`)
					if name == "traced" {
						defer trace(t, p.PID("api"))()
					}
					harness.Eventually(t, "processes beside the main one", func() bool { return len(within(t, p.Dir)) > 1 })
					if a := p.CLI("stop", "shop/api", "--yes"); a.Code != 0 {
						t.Errorf("stop: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
					}
					for range 3 { // what forks meanwhile is found by one of them
						if left := within(t, p.Dir); len(left) != 0 {
							t.Errorf("there are left: %v", left)
						}
					}
				})
			}
		})
	}
}

// within returns the processes that have a directory as their PLACE, as ps shows them.
func within(t *testing.T, dir string) (lines []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		environ, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), "PLACE="+dir) || zombie(pid) {
			continue
		}
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		lines = append(lines, e.Name()+" "+strings.ReplaceAll(string(line), "\x00", " "))
	}
	return lines
}

// trace holds a process as a debugger does, until the function that it returns is called.
func trace(t *testing.T, pid int) (end func()) {
	t.Helper()
	attached, over, ended := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the tracer is a thread
		defer runtime.UnlockOSThread()
		attached <- unix.PtraceAttach(pid)
		<-over
		_ = unix.PtraceDetach(pid) // it has ended
	}()
	if err := <-attached; err != nil {
		t.Fatal(err)
	}
	return func() { close(over); <-ended }
}
