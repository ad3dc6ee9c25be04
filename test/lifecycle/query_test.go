package lifecycle_test

import (
	"fmt"
	"testing"

	"drover/internal/test/harness"
)

// TestSlowHealthCommand: what takes longer than the receipt of an order is answered all the same, with what the process
// says.
func TestSlowHealthCommand(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p, dir := harness.Odd(t, s, binaries.oddd, "thoughtful", "plain")
	// However soon it is asked by its timetable, the answer comes after the question.
	p.Control["health_cmd"] = "until [ -e asked ]; do sleep 0.05; done; sleep 0.3; echo fine"
	p.Control["version_cmd"] = "echo 1.2.3"
	p.Operate(0).Want(t, "start", 0)
	quick, _ := harness.Odd(t, s, binaries.oddd, "quick", "plain")
	run(t, "touch", dir+"/asked")
	task, other := p.Submit(2), quick.Submit(2)
	if r := quick.Await(other).Want(t, "query of another process", 0); r.PID != -1 {
		t.Errorf("pid %d of what does not run", r.PID)
	}
	r := p.Await(task).Want(t, "query", 0)
	if r.PID != harness.ReadPID(t, dir+"/oddd.pid") || r.Item["health"] != "fine" || r.Item["version"] != "1.2.3" {
		t.Errorf("pid %d, health %v, version %v", r.PID, r.Item["health"], r.Item["version"])
	}
	if again := p.Await(task); again.Content != r.Content {
		t.Errorf("the answer changed from %s to %s", r.Content, again.Content)
	}
}

// TestQueryBehindAStart waits for the command of the start, though not for its check, and does not hold up those of
// other processes.
func TestQueryBehindAStart(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	p, dir := harness.Odd(t, s, binaries.oddd, "slow", "plain")
	p.Control["start_cmd"] = fmt.Sprintf("echo begin >>%[1]s/cmd.log; read x <%[1]s/go; exec %[2]s", dir,
		p.Control["start_cmd"])
	run(t, "mkfifo", dir+"/go")
	start := p.Submit(0)
	harness.Eventually(t, "the command to begin", func() bool { return lines(dir+"/cmd.log") == 1 })
	query := p.Submit(2)
	other, _ := harness.Odd(t, s, binaries.oddd, "other", "plain")
	other.Query().Want(t, "query of another process", 0)
	run(t, "sh", "-c", fmt.Sprintf("echo go >%s/go", dir))
	if r := p.Await(query).Want(t, "query", 0); r.PID != harness.ReadPID(t, dir+"/oddd.pid") {
		t.Errorf("pid %d: the query did not wait for the command", r.PID)
	}
	p.Await(start).Want(t, "start", 0)
}
