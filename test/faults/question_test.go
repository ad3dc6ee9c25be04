package faults_test

import (
	"fmt"
	"testing"

	"drover/test/judge"
)

// TestI3_SlowQuestionAtEveryMoment kills the agent while it is asked something that takes longer than a receipt waits: it answers in a
// report, or its successor does.
func TestI3_SlowQuestionAtEveryMoment(t *testing.T) {
	t.Parallel()
	a := &attack{rig: newRig(t), role: roleAgent, op: judge.Query, after: trace{hosted: true, running: true, ran: "start"}}
	a.begin(never)
	for i, moment := range []string{
		"agent: Accept 1 before", "agent: Accept 1 after", "agent: Acknowledge 1 before", "agent: Acknowledge 1 after",
	} {
		p := a.process(fmt.Sprint("p", i+1))
		p.Control["health_cmd"] = "sleep 0.3; echo fine"
		a.does(p, judge.Start)
		if !a.strike(p, moment, i%2 == 1) {
			t.Errorf("%q was not passed", moment)
		}
		if got := a.operate(p, judge.Query); got.Item["health"] != "fine" {
			t.Errorf("%s: health %v", moment, got.Item["health"])
		}
	}
}
