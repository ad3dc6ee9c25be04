package monitoring_test

import (
	"regexp"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// TestMetricsOfAnAgentAlone: an agent shows its own figures where it is asked to, also while it cannot reach the
// server.
func TestMetricsOfAnAgentAlone(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	_, dir := harness.Running(t, s, binaries.oddd, "orphan")
	pid := harness.ReadPID(t, dir+"/oddd.pid")
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}

	log := &harness.Log{}
	log.ShowIfFailed(t, "drover-agent")
	agent := harness.Launch(t, log, harness.Environment("/"), binaries.agent, "run", "--data-dir", s.DataDir,
		"--metrics", "127.0.0.1:0", "--process-metrics", "1", "--limit-interval", "1s")
	told := regexp.MustCompile(`serving metrics.*address=(\S+)`)
	at := ""
	harness.Eventually(t, "the agent to say where its metrics are", func() bool {
		m := told.FindStringSubmatch(log.String())
		if m != nil {
			at = "http://" + m[1]
		}
		return m != nil
	})
	harness.Eventually(t, "the agent to have its process",
		func() bool { return scrape(t, at).value("drover_agent_processes", "state=running") == 1 })
	if f := scrape(t, at); f.value("drover_agent_connected") != 0 || f.value("drover_agent_report_age_seconds") <= 0 ||
		f.value("drover_agent_processes_hosted") != 1 {
		t.Errorf("of an agent without a server: %v", f)
	}
	harness.Eventually(t, "the agent to measure its process", func() bool {
		f := scrape(t, at)
		return f.value("drover_agent_process_memory_bytes", "name=orphan") > 0 &&
			f.value("drover_agent_process_metrics_left_out") == 0
	})
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "the relaunch to be counted", func() bool {
		f := scrape(t, at)
		return f.value("drover_agent_relaunches_total") == 1 && f.value("drover_agent_events_pending_bytes") > 0
	})
	if err := agent.Terminate(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
}
