package stopping_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// beside returns the same process as another drover knows it.
func (p *place) beside(s *harness.Server) *place {
	q := *p
	process := *p.Process
	process.Server = s
	q.Process = &process
	return &q
}

// TestTwoDrovers: of two drovers on a host one manages a process, and the other one says so. When the first has gone,
// the other one takes over.
func TestTwoDrovers(t *testing.T) {
	t.Parallel()
	first, second := harness.Start(t, binaries.drover), harness.Start(t, binaries.drover)
	p := newMaster(t, first, "shared")
	p.must(opStart, 0)
	q := p.beside(second)
	for _, op := range []int{opHost, opStop, opKill, opRestart} {
		if r := q.must(op, 65535); !strings.Contains(r.Msg, "another drover on this host (pid ") {
			t.Errorf("operation %d is refused with %q", op, r.Msg)
		}
	}
	p.are("after the other drover was asked to end it", "main.sh", "worker", "worker", "worker")
	p.must(opUnhost, 0)
	q.must(opHost, 0)
	p.must(opHost, 65535)
	q.must(opStop, 0)
	p.must(opStart, 0)
	p.must(opStop, 0)
}

// TestCopiedDataDirectory: a drover over a copy of another one's disk starts nothing beside that, and takes over when
// that has gone.
func TestCopiedDataDirectory(t *testing.T) {
	t.Parallel()
	first := harness.Start(t, binaries.drover)
	p := newMaster(t, first, "copied")
	p.Policy["start_interval"] = 1
	p.must(opStart, 0)
	second := harness.Start(t, binaries.drover)
	second.Kill()
	if err := os.RemoveAll(second.DataDir); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", first.DataDir, second.DataDir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_ = os.Remove(second.DataDir + "/drover.sock")
	second.Run()
	q := p.beside(second)
	harness.Eventually(t, "the copy to say who manages it", func() bool {
		cause, _ := q.Status()["cause"].(object)
		return cause["id"] == "another-drover" && cause["since"] != nil
	})
	for range 2 {
		before := p.pid()
		harness.Signal(t, before, syscall.SIGKILL)
		harness.Eventually(t, "one relaunch", func() bool { return p.running() != before && p.running() != 0 })
		p.lives("after a crash", "main.sh", "worker", "worker", "worker")
	}
	before := p.pid()
	harness.Eventually(t, "the copy to see the process", func() bool {
		instance, _ := q.Status()["instance"].(object)
		pid, _ := instance["pid"].(float64)
		return int(pid) == before
	})
	first.Kill()
	harness.Signal(t, before, syscall.SIGKILL)
	harness.Eventually(t, "the copy to take over", func() bool { return p.running() != before && p.running() != 0 })
	p.lives("after the crash", "main.sh", "worker", "worker", "worker")
	q.must(opStop, 0)
	p.are("after the stop")
}

// running is the pid of the main process, 0 where none lives.
func (p *place) running() int {
	for pid, name := range p.processes() {
		if name == "main.sh" {
			return pid
		}
	}
	return 0
}
