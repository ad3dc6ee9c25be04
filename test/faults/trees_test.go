package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// storm is a script that is never there for long: each process starts the next one, in a session of its own, and ends.
// It stops by itself after many steps.
const storm = `#!/bin/sh
[ "$1" -lt 20000 ] || exit 0
setsid /bin/sh ./storm $(($1+1)) >/dev/null 2>&1 &
`

// inside returns the live processes whose directory it is.
func inside(t *testing.T, dir string) (pids []int) {
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
		if cwd, _ := os.Readlink("/proc/" + e.Name() + "/cwd"); cwd == dir && harness.Alive(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestOperationTimeoutEndsEverything: what a command has started is gone when the time is up, or the text names what is
// left.
func TestOperationTimeoutEndsEverything(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	for name, command := range map[string]string{
		"storm":      "for i in 1 2 3 4 5 6 7 8; do ./storm 0; done; sleep 1000",
		"setsid":     "setsid sh -c 'sleep 1000 & sleep 1000' & (setsid sleep 1000 &) & sleep 1000",
		"no-term":    "trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & while :; do sleep 1; done",
		"stopped":    "sleep 1000 & kill -STOP $!; kill -STOP $$",
		"vfork-held": "exec sh -c 'sleep 1000'",
	} {
		t.Run(name, func(t *testing.T) {
			p := r.process(name)
			dir := filepath.Join(r.work, name)
			if err := harness.WriteProgram(filepath.Join(dir, "storm"), []byte(storm)); err != nil {
				t.Fatal(err)
			}
			p.Control["start_cmd"] = command
			p.Policy = harness.Object{"op_timeout": 2, "start_check_secs": 1}
			got := r.operate(p, judge.Start)
			if got.Code != 65535 || got.Hosted {
				t.Errorf("code %d hosted %v: %s", got.Code, got.Hosted, got.Msg)
			}
			for range 5 {
				for _, pid := range inside(t, dir) {
					if !strings.Contains(got.Msg, strconv.Itoa(pid)) && harness.Alive(pid) {
						t.Errorf("pid %d is left, and %q does not name it", pid, got.Msg)
					}
				}
			}
		})
	}
}

// TestStoppedProcess: a stop ends a process that SIGSTOP has stopped.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	p := r.process("p")
	p.Control["stop_cmd"] = ""
	p.Policy = harness.Object{"start_check_secs": 1, "stop_check_secs": 1}
	r.does(p, judge.Start)
	pid := harness.ReadPID(t, filepath.Join(r.work, "p", "d.pid"))
	harness.Signal(t, pid, syscall.SIGSTOP)
	// A process acts on signals when it next runs, and on the lowest number first (signal(7)): until it has stopped, a
	// SIGTERM that comes after the SIGSTOP still ends it.
	harness.Eventually(t, "the process to be stopped", func() bool {
		stat := harness.Stat(pid)
		return len(stat) > 0 && stat[0] == "T"
	})
	if got := r.operate(p, judge.Stop); got.Code != 0 || harness.Alive(pid) {
		t.Errorf("stop: %d %s, alive %v", got.Code, got.Msg, harness.Alive(pid))
	}
	if n := judge.Ran(p, "start"); n != 1 {
		t.Errorf("%sstarted %d times", harness.MoreThan(1, n), n)
	}
}

// TestI6_PIDFilesThatLie: none of them makes drover signal, adopt or report what is not the process.
func TestI6_PIDFilesThatLie(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	other := r.process("other")
	r.does(other, judge.Start)
	bystander := harness.ReadPID(t, filepath.Join(r.work, "other", "d.pid"))
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", r.server.cmd.Process.Pid))
	if err != nil || len(threads) < 2 {
		t.Fatalf("drover has %d threads: %v", len(threads), err)
	}
	thread := slices.IndexFunc(threads, func(e os.DirEntry) bool {
		return e.Name() != strconv.Itoa(r.server.cmd.Process.Pid)
	})
	for name, text := range map[string]string{
		"one": "1", "zero": "0", "minus-one": "-1", "drover": strconv.Itoa(r.server.cmd.Process.Pid),
		"another-key": strconv.Itoa(bystander),
		"a-thread":    threads[thread].Name(), "two-to-the-63": "9223372036854775808", "minus-a-pid": "-" +
			strconv.Itoa(bystander), "hexadecimal": fmt.Sprintf("0x%x", bystander),
	} {
		p := r.process(name)
		if name == "drover" || name == "a-thread" {
			p.Identity["proc_name"] = "drover"
		}
		if err := os.WriteFile(filepath.Join(r.work, name, "d.pid"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		p.Control["stop_cmd"], p.Control["kill_cmd"] = "", ""
		if got := r.operate(p, judge.Query); got.PID != -1 {
			t.Errorf("%s: shown as pid %d", name, got.PID)
		}
		for _, op := range []int{judge.Stop, judge.Kill} {
			if got := r.operate(p, op); got.Code != 829 {
				t.Errorf("%s: op %d: %d %s, want 829", name, op, got.Code, got.Msg)
			}
		}
	}
	if got := r.operate(other, judge.Query); got.PID != bystander {
		t.Errorf("the bystander is pid %d, was %d", got.PID, bystander)
	}
}
