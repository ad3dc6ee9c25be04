package lifecycle_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

func TestOddDaemons(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	t.Run("pid file comes late", func(t *testing.T) {
		t.Parallel()
		p, _ := harness.Odd(t, s, binaries.oddd, "late", "late", "-delay", "700ms")
		p.Operate(0).Want(t, "start", 0)
		p.Operate(1).Want(t, "stop", 0)
	})
	t.Run("holds stdout", func(t *testing.T) {
		t.Parallel()
		p, dir := harness.Odd(t, s, binaries.oddd, "holder", "hold-stdout", "-every", "1ms")
		p.Operate(0).Want(t, "start", 0)
		if n := harness.Starts(t, dir); n != 1 {
			t.Errorf("started %d times", n)
		}
		p.Operate(1).Want(t, "stop", 0)
	})
	t.Run("ignores SIGTERM", func(t *testing.T) {
		t.Parallel()
		p, dir := harness.Odd(t, s, binaries.oddd, "stubborn", "ignore-term")
		p.Policy = harness.Object{"stop_check_secs": 1}
		p.Operate(0).Want(t, "start", 0)
		r := p.Operate(1).Want(t, "stop", 836)
		if !strings.HasPrefix(r.Msg, "stop") || !r.Hosted {
			t.Errorf("stop says %q, hosted %v: want a text that begins with stop, still hosted", r.Msg, r.Hosted)
		}
		p.Operate(9).Want(t, "kill", 0)
		if harness.Alive(harness.ReadPID(t, dir+"/oddd.pid")) {
			t.Error("alive after a kill")
		}
	})
	t.Run("renames itself", func(t *testing.T) {
		t.Parallel()
		p, _ := harness.Odd(t, s, binaries.oddd, "renamed", "rename", "-title", "somebody")
		p.Operate(0).Want(t, "start", 0)
		p.Operate(1).Want(t, "stop", 0)
	})
	t.Run("has workers in sessions of their own", func(t *testing.T) {
		t.Parallel()
		p, dir := harness.Odd(t, s, binaries.oddd, "workers", "workers", "-workers", "5")
		p.Operate(0).Want(t, "start", 0)
		p.Operate(9).Want(t, "kill", 0)
		for _, pid := range harness.PIDs(t, dir) {
			if harness.Alive(pid) {
				t.Errorf("pid %d of the tree is alive after a kill", pid)
			}
		}
	})
	t.Run("exits 0 at once", func(t *testing.T) {
		t.Parallel()
		p, dir := harness.Odd(t, s, binaries.oddd, "brief", "exit-now")
		r := p.Operate(0).Want(t, "start", 836)
		if r.Hosted || harness.Starts(t, dir) != 1 {
			t.Errorf("hosted %v, started %d times: want neither hosted nor relaunched", r.Hosted,
				harness.Starts(t, dir))
		}
	})
	t.Run("dies in its check time", func(t *testing.T) {
		t.Parallel()
		p, _ := harness.Odd(t, s, binaries.oddd, "dying", "crash-after", "-delay", "300ms", "-code", "7")
		r := p.Operate(0).Want(t, "start", 836)
		if !strings.Contains(r.Msg, "exit status 7") {
			t.Errorf("836 says %q, want the exit status in it", r.Msg)
		}
	})
	t.Run("has a long name", func(t *testing.T) {
		t.Parallel()
		p, dir := harness.Odd(t, s, binaries.oddd, "long", "plain")
		long := filepath.Join(dir, "a-daemon-with-a-name-of-many-characters")
		data, err := os.ReadFile(binaries.oddd)
		if err != nil {
			t.Fatal(err)
		}
		if err := harness.WriteProgram(long, data); err != nil {
			t.Fatal(err)
		}
		p.Identity["proc_name"] = filepath.Base(long)
		p.Control["start_cmd"] = strings.Replace(p.Control["start_cmd"].(string), binaries.oddd, long, 1)
		p.Operate(0).Want(t, "start", 0)
		p.Identity["proc_name"] = filepath.Base(long)[:15] + "-another-daemon-altogether"
		if r := p.Query(); r.PID > 0 && r.Item["procname"] == p.Identity["proc_name"] {
			t.Errorf("a daemon with the same first 15 characters was taken for it: %v", r.Item)
		}
		p.Identity["proc_name"] = filepath.Base(long)
		p.Operate(1).Want(t, "stop", 0)
	})
}

func TestRelaunch(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	t.Run("is given up after start_retries", func(t *testing.T) {
		t.Parallel()
		p, dir := harness.Odd(t, s, binaries.oddd, "loop", "crash-after", "-delay", "3s", "-code", "3")
		p.Policy = harness.Object{"start_check_secs": 1, "start_retries": 2}
		p.Operate(0).Want(t, "start", 0)
		var message string
		harness.Eventually(t, "the process to be given up", func() bool {
			row := p.Row()
			message = row["message"].(string)
			return strings.Contains(message, "given up")
		})
		if n := harness.Starts(t, dir); n != 3 {
			t.Errorf("started %d times, want once and two relaunches", n)
		}
		if !strings.Contains(message, "exit status 3") {
			t.Errorf("message %q, want the exit status in it", message)
		}
	})
	t.Run("of a stopped process that is hosted comes after the interval", func(t *testing.T) {
		t.Parallel()
		p, dir := harness.Odd(t, s, binaries.oddd, "hosted", "plain")
		p.Operate(3).Want(t, "host", 0)
		harness.Eventually(t, "the process to be started", func() bool { return p.Query().PID > 1 })
		p.Operate(3).Want(t, "host again", 0)
		if n := harness.Starts(t, dir); n != 1 {
			t.Errorf("started %d times", n)
		}
		pid := p.Query().PID
		if r := p.Operate(4).Want(t, "unhost", 0); r.Hosted {
			t.Error("hosted after op 4")
		}
		harness.Signal(t, pid, syscall.SIGKILL)
		harness.Eventually(t, "the end to be noticed", func() bool { return p.Row()["pid"] == -1.0 })
		if n := harness.Starts(t, dir); n != 1 {
			t.Errorf("started %d times after op 4", n)
		}
	})
	t.Run("never happens to a single run", func(t *testing.T) {
		t.Parallel()
		p, dir := harness.Odd(t, s, binaries.oddd, "single", "plain")
		p.Policy = harness.Object{"auto_type": 2}
		p.Operate(0).Want(t, "start", 0)
		harness.Signal(t, harness.ReadPID(t, dir+"/oddd.pid"), syscall.SIGKILL)
		harness.Eventually(t, "the end to be noticed", func() bool { return p.Row()["pid"] == -1.0 })
		if n := harness.Starts(t, dir); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
	t.Run("does not follow a stop that kills", func(t *testing.T) {
		t.Parallel()
		p, dir := harness.Odd(t, s, binaries.oddd, "killed", "plain")
		p.Control["stop_cmd"] = "kill -9 $(cat oddd.pid)"
		p.Operate(0).Want(t, "start", 0)
		p.Operate(1).Want(t, "stop", 0)
		if n := harness.Starts(t, dir); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
}
