package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// TestI3_SlowQuestionAtEveryMoment kills the agent while it is asked something that takes longer than a receipt waits:
// it has answered in a report, or its successor does.
func TestI3_SlowQuestionAtEveryMoment(t *testing.T) {
	t.Parallel()
	a := &attack{rig: newRig(t), role: roleAgent, op: judge.Query}
	a.begin(never)
	for i, moment := range []string{
		"agent: Accept 1 before", "agent: Accept 1 after", "agent: Acknowledge 1 before", "agent: Acknowledge 1 after",
	} {
		p := a.process(fmt.Sprint("p", i+1))
		// However soon it is asked by its timetable, the answer comes after the question.
		p.Control["health_cmd"] = "until [ -e asked ]; do sleep 0.05; done; sleep 0.3; echo fine"
		a.does(p, judge.Start)
		a.agent.kill()
		a.victim = p.Name
		a.begin(moment)
		a.linked()
		if err := os.WriteFile(filepath.Join(a.work, p.Name, "asked"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		task, err := a.submit(p, judge.Query)
		if err != nil {
			t.Fatal(err)
		}
		if !a.agent.died(harness.Patience) {
			t.Errorf("%q was not passed", moment)
		}
		a.agent.kill()
		a.begin(never)
		first := a.await(p, task)
		if first.Code != 0 || first.PID <= 1 || first.Item["health"] != "fine" {
			t.Errorf("%s: %d %q, pid %d, health %v", moment, first.Code, first.Msg, first.PID, first.Item["health"])
		}
		a.does(p, judge.Query) // what was asked before it is over
		if again := a.await(p, task); again.Content != first.Content {
			t.Errorf("%s: the answer changed from %s to %s", moment, first.Content, again.Content)
		}
	}
}
