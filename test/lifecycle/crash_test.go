package lifecycle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// TestDroverDies: whatever happens to drover, its processes live on, are taken over again, and nothing runs twice.
func TestDroverDies(t *testing.T) {
	for _, end := range []struct {
		name string
		how  func(*harness.Server)
	}{
		{"by SIGKILL", func(s *harness.Server) { s.Kill() }},
		{"by SIGTERM", func(s *harness.Server) {
			if err := s.Terminate(); err != nil {
				t.Errorf("ended with %v", err)
			}
		}},
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			s := harness.Start(t, binaries.drover)
			steady, steadyDir := harness.Odd(t, s, binaries.oddd, "steady", "hold-stdout", "-every", "10ms")
			victim, victimDir := harness.Odd(t, s, binaries.oddd, "victim", "plain")
			steady.Operate(0).Want(t, "start", 0)
			victim.Operate(0).Want(t, "start", 0)
			steadyPID, victimPID := harness.ReadPID(t, steadyDir+"/oddd.pid"), harness.ReadPID(t, victimDir+"/oddd.pid")

			end.how(s)
			if !harness.Alive(steadyPID) || !harness.Alive(victimPID) {
				t.Fatal("a process ended with drover")
			}
			harness.Signal(t, victimPID, syscall.SIGKILL)
			s.Run()

			if r := steady.Query(); r.PID != steadyPID || !r.Hosted {
				t.Errorf("after the restart: pid %d hosted %v, want pid %d, hosted", r.PID, r.Hosted, steadyPID)
			}
			harness.Eventually(t, "the victim to be relaunched", func() bool { return victim.Query().PID > 1 })
			killed(t, steady, steadyPID)
			if a, b := harness.Starts(t, steadyDir), harness.Starts(t, victimDir); a != 2 || b != 2 {
				t.Errorf("started %d and %d times, want 2 and 2", a, b)
			}
		})
	}
}

// TestDroverDiesDuringAnOperation: an accepted operation is finished by the next drover and its command runs once.
func TestDroverDiesDuringAnOperation(t *testing.T) {
	s := harness.Start(t, binaries.drover)
	p, dir := harness.Odd(t, s, binaries.oddd, "slow", "plain")
	start := p.Control["start_cmd"].(string)
	p.Control["start_cmd"] = fmt.Sprintf("echo begin >>%s/cmd.log; read x <%s/go; echo end >>%s/cmd.log; exec %s", dir,
		dir, dir, start)
	run(t, "mkfifo", dir+"/go")
	task := p.Submit(0)
	harness.Eventually(t, "the command to begin", func() bool { return lines(dir+"/cmd.log") == 1 })
	s.Kill()
	s.Run()
	run(t, "sh", "-c", fmt.Sprintf("echo go >%s/go", dir))
	r := p.Await(task).Want(t, "start", 0)
	if !r.Hosted {
		t.Errorf("not hosted: %s", r.Msg)
	}
	if n := lines(dir + "/cmd.log"); n != 2 {
		t.Errorf("the command wrote %d lines, want 2", n)
	}
	if n := harness.Starts(t, dir); n != 1 {
		t.Errorf("started %d times", n)
	}
	// An outcome never changes.
	if again := p.Await(task); again.Code != r.Code || again.Msg != r.Msg {
		t.Errorf("outcome changed from %v to %v", r, again)
	}
}

func lines(path string) int {
	data, err := readFile(path)
	if err != nil {
		return 0
	}
	return strings.Count(data, "\n")
}

// TestDroverLosesASealingKey: the server of drover dev takes the new key of its own agent, which cannot join by hand.
func TestDroverLosesASealingKey(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p, dir := harness.Odd(t, s, binaries.oddd, "steady", "plain")
	p.Operate(0).Want(t, "start", 0)
	pid := harness.ReadPID(t, dir+"/oddd.pid")
	s.Kill()
	if err := os.Remove(filepath.Join(s.DataDir, "agent", "sealing.nkey")); err != nil {
		t.Fatal(err)
	}
	s.Run()
	if r := p.Query(); r.PID != pid || !r.Hosted {
		t.Errorf("after the restart: pid %d hosted %v, want pid %d, hosted", r.PID, r.Hosted, pid)
	}
}
