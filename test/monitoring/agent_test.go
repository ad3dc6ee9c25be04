package monitoring_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"

	"drover/test/harness"
)

// TestMetricsOfAnAgentAlone: an agent shows its own figures where it is asked to, also while it cannot reach the server.
func TestMetricsOfAnAgentAlone(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p, dir := harness.Odd(t, s, binaries.oddd, "orphan", "plain")
	p.Policy = harness.Object{"start_check_secs": 1}
	if r := p.Operate(0); r.Code != 0 {
		t.Fatalf("start: %+v", r)
	}
	pid := harness.ReadPID(t, dir+"/oddd.pid")
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}

	agent := exec.Command(binaries.agent, "run", "--data-dir", s.DataDir, "--metrics", "127.0.0.1:0")
	agent.Env = []string{"PATH=" + os.Getenv("PATH")}
	log, err := agent.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	url, drained := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(drained)
		told := regexp.MustCompile(`metrics are served.*address=(\S+)`)
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			if m := told.FindStringSubmatch(lines.Text()); m != nil {
				url <- "http://" + m[1]
			}
		}
		_, _ = io.Copy(io.Discard, log)
	}()
	t.Cleanup(func() {
		_ = agent.Process.Kill() // it has ended, if all went well
		<-drained
		_ = agent.Wait()
	})
	at := ""
	select {
	case at = <-url:
	case <-time.After(harness.Patience):
		t.Fatal("the agent does not say where its metrics are")
	}
	harness.Eventually(t, "the agent to have its process", func() bool { return scrape(t, at).value("drover_agent_processes", "state=running") == 1 })
	if f := scrape(t, at); f.value("drover_agent_connected") != 0 || f.value("drover_agent_report_age_seconds") <= 0 || f.value("drover_agent_processes_hosted") != 1 {
		t.Errorf("of an agent without a server: %v", f)
	}
	harness.Signal(t, pid, syscall.SIGKILL)
	harness.Eventually(t, "the relaunch to be counted", func() bool {
		f := scrape(t, at)
		return f.value("drover_agent_relaunches_total") == 1 && f.value("drover_agent_events_pending_bytes") > 0
	})
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-drained
	if err := agent.Wait(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
}
