package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/server/plan"
)

// stepOf is a step for a foreground process with a batch in its file; 0 means without a rollout.
func stepOf(name, agent string, batch int, removes bool) plan.Step {
	s := &process.Spec{Run: "x"}
	if batch > 0 {
		s.Rollout = &v1.RolloutPlan{Batch: v1.HostCount{Number: batch}}
	}
	step := plan.Step{
		Op: process.Restart, Process: process.ID{Namespace: "shop", Name: name}, Agent: agent, Spec: s, Removes: removes,
	}
	if removes {
		step.Op, step.Spec, step.Former = process.Stop, nil, s
	}
	return step
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []plan.Step
		want  string
	}{
		{"no rollout", []plan.Step{stepOf("a", "x", 0, false), stepOf("b", "x", 0, true)}, ""},
		{
			"equal ones together, the others at once",
			[]plan.Step{stepOf("a", "x", 2, false), stepOf("b", "x", 0, false), stepOf("c", "y", 2, false), stepOf("d", "y", 3, false)},
			"2: a@x c@y; 100%: b@x; 3: d@y",
		},
		{
			"a removed copy goes with its file",
			[]plan.Step{stepOf("a@2", "x", 5, true), stepOf("a@1", "x", 2, false)},
			"2: a@2@x a@1@x",
		},
		{"a removed process goes by its own", []plan.Step{stepOf("a", "x", 5, true)}, "5: a@x"},
	} {
		parts, err := plan.Split(c.steps, func(p *v1.RolloutPlan) (*v1.RolloutPlan, error) { return p, nil })
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var got []string
		for _, part := range parts {
			text := part.Plan.Batch.String() + ":"
			for _, s := range part.Steps {
				text += " " + s.Process.Name + "@" + s.Agent
			}
			got = append(got, text)
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
	}
}

// TestSplitRejects: a process has one rollout on all of its hosts. Every such process is named, once.
func TestSplitRejects(t *testing.T) {
	asIs := func(p *v1.RolloutPlan) (*v1.RolloutPlan, error) { return p, nil }
	_, err := plan.Split([]plan.Step{
		stepOf("a", "x", 1, false), stepOf("a", "y", 2, false), stepOf("a", "z", 3, false), stepOf("b", "x", 0, false),
		stepOf("b", "y", 2, false),
	}, asIs)
	faults, _ := errors.AsType[processfile.Faults](err)
	if got := fmt.Sprint(len(faults), " ", err); got != "2 processes.a.rollout: differs between hosts: expected the same for all\n"+
		"processes.b.rollout: differs between hosts: expected the same for all" {
		t.Errorf("the faults are %s", got)
	}
	wrong := errors.New("wrong")
	if _, err := plan.Split([]plan.Step{stepOf("a", "x", 1, false)}, func(*v1.RolloutPlan) (*v1.RolloutPlan, error) {
		return nil, wrong
	}); !errors.Is(err, wrong) {
		t.Errorf("a wrong flag gives %v", err)
	}
}

// TestNow: a step that was planned some time ago leaves alone what somebody has stopped since, and removes what is there.
func TestNow(t *testing.T) {
	running := &process.Status{State: process.StateRunning, Hosted: true, Want: process.WantRunning, Instance: process.Instance{PID: 1}}
	stopped := &process.Status{State: process.StateStopped, Want: process.WantStopped, Instance: process.Instance{PID: -1}}
	for _, c := range []struct {
		op               process.Op
		removes, existed bool
		status           *process.Status
		want             process.Op
	}{
		{process.Restart, false, true, running, process.Restart},
		{process.Restart, false, true, stopped, process.Update},
		{process.Restart, false, true, nil, ""},
		{process.Start, false, false, nil, process.Start},
		{process.Start, false, false, stopped, process.Start},
		{process.Start, false, true, stopped, process.Update},
		{process.Start, false, true, nil, ""},
		{process.Update, false, true, stopped, process.Update},
		{process.Stop, true, true, running, process.Stop},
		{process.Stop, true, true, stopped, process.Unregister},
		{process.Unregister, true, true, running, process.Stop},
		{process.Stop, true, true, nil, ""},
	} {
		if got := plan.Now(c.op, c.removes, c.existed, c.status); got != c.want {
			t.Errorf("%s of %+v, removes %v, existed %v: %q, want %q", c.op, c.status, c.removes, c.existed, got, c.want)
		}
	}
}
