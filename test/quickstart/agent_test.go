package quickstart_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// TestAgentAlone: drover-agent takes over the data directory of a drover dev that was stopped, says that it cannot
// reach the server, and keeps the processes alive without it; the next drover dev takes over from there.
func TestAgentAlone(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p, dir := harness.Running(t, s, binaries.oddd, "orphan")
	first := harness.ReadPID(t, dir+"/oddd.pid")
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}

	log := &harness.Log{}
	log.ShowIfFailed(t, "drover-agent")
	agent := harness.Launch(t, log, harness.Environment("/"), binaries.agent, "run", "--data-dir", s.DataDir)
	harness.Eventually(t, "the agent to say that it cannot reach the server", func() bool {
		return strings.Contains(log.String(), "cannot reach fabric")
	})
	if text := log.String(); !strings.Contains(text, "connection refused") || strings.Contains(text, "goroutine ") {
		t.Error("the agent did not say cleanly why")
	}
	harness.Signal(t, first, syscall.SIGKILL)
	second := first
	harness.Eventually(t, "the process to be launched again without a server", func() bool {
		if harness.Starts(t, dir) < 2 || !exists(dir+"/oddd.pid") {
			return false
		}
		second = harness.ReadPID(t, dir+"/oddd.pid")
		return second != first && harness.Alive(second)
	})
	before := time.Now()
	if err := agent.Terminate(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if took := time.Since(before); took > stopTime {
		t.Errorf("took %v, want at most %v", took, stopTime)
	}
	if !harness.Alive(second) {
		t.Error("the process ended with the agent")
	}

	s.Run()
	if r := p.Query(); r.PID != second || !r.Hosted {
		t.Errorf("drover dev sees pid %d, hosted %v, want pid %d, hosted", r.PID, r.Hosted, second)
	}
	if n := harness.Starts(t, dir); n != 2 {
		t.Errorf("%sstarted %d times, want 2", harness.MoreThan(2, n), n)
	}
}

// TestAgentThatNeverJoined fails at once and says what is missing.
func TestAgentThatNeverJoined(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	r := harness.Finish(t, "", harness.Environment("/"), binaries.agent, "run", "--data-dir", dir)
	if r.Code != 1 || !strings.Contains(r.Errors, "join") {
		t.Errorf("exit code %d, says %q, want 1 and a word about joining", r.Code, r.Errors)
	}
}
