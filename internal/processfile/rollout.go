package processfile

import (
	"fmt"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/selector"
)

// Limits of a rollout: the longest bake or pause, and the most canaries.
const (
	longestBake  = 24 * time.Hour
	mostCanaries = 10_000
)

// CheckRollout finds what is wrong with the plan of a rollout; nil is right.
func CheckRollout(p *v1.RolloutPlan) (faults Faults) {
	if p == nil {
		return nil
	}
	fault := func(field, format string, args ...any) {
		faults = append(faults, Fault{Path: field, Text: fmt.Sprintf(format, args...)})
	}
	if p.Batch.IsZero() {
		fault("batch", "is missing or 0: expected a number of hosts such as 20, or a share such as 10%%")
	}
	if p.Canary < 0 || p.Canary > mostCanaries {
		fault("canary", "is %d: expected 0 to %d", p.Canary, mostCanaries)
	}
	for _, span := range []struct {
		field string
		v1.Duration
	}{{"bake", p.Bake}, {"pause", p.Pause}} {
		if d := time.Duration(span.Duration); d < 0 || d > longestBake || d%time.Second != 0 {
			fault(span.field, "is %s: expected whole seconds, at most 24h", span.Duration)
		}
	}
	for _, key := range []struct{ field, name string }{{"order", p.Order}, {"spread", p.Spread}} {
		_, isFact := selector.FactName(key.name)
		if err := selector.CheckKey(key.name); key.name != "" && err != nil && !isFact && !selector.Reserved(key.name) {
			fault(key.field, "%v", err)
		}
	}
	if _, err := selector.Parse(p.CanarySelect); err != nil && p.CanarySelect != "" {
		fault("canary_select", "%v", err)
	}
	if p.CanaryApproval && p.Canary == 0 {
		fault("canary_approval", "stands without canary: expected the number of canaries")
	}
	if p.CanarySelect != "" && p.Canary == 0 {
		fault("canary_select", "stands without canary: expected the number of canaries")
	}
	return faults
}

// CheckRolloutOf is CheckRollout for an operation. An unknown operation takes every plan.
func CheckRolloutOf(op process.OpInfo, p *v1.RolloutPlan) Faults {
	faults := CheckRollout(p)
	if p != nil && !op.LeavesRunning() && !p.MaxUnavailable.IsZero() {
		faults = append(faults, Fault{
			Path: "max_unavailable", Text: "is for processes that drover watches afterwards: not for " + string(op.Op),
		})
	}
	if p != nil && op.Op != "" && p.UndoOnFailure {
		faults = append(faults, Fault{
			Path: "undo_on_failure", Text: "is for an apply: nothing undoes " + string(op.Op),
		})
	}
	return faults
}

func fieldsOfRollout() []Field {
	field := func(path, value, otherwise, text string) Field {
		return Field{Path: "rollout." + path, Value: value, Default: otherwise, Class: Live, Text: text}
	}
	return []Field{
		{
			Path: "rollout", Value: "names with values", Default: "all hosts at once", Class: Live,
			Text: "How an apply spreads over the hosts: the processes with equal rollouts go through them together, batch by " +
				"batch. The flags of drover apply override it.",
		},
		field("batch", "number, or percent of the hosts", "required",
			"The number of hosts in a batch. A share is rounded down to at least one host."),
		field("canary", "number from 0 to 10000", "0", "The number of hosts in the first batch, of which none may fail."),
		field("canary_select", "selector", "all hosts",
			"Takes the canaries from the hosts that match, such as ring=early. If fewer match than canary, those "+
				"are the canaries; if none matches, any host."),
		field("bake", "duration in whole seconds, at most 24h", "0s",
			"How long the processes of a batch must stay well after its last outcome."),
		field("pause", "duration in whole seconds, at most 24h", "0s", "The wait after the bake."),
		field("max_failures", "number, or percent of the hosts", "0",
			"How many hosts may fail before the rollout pauses. A share is rounded down."),
		field("max_unavailable", "number, or percent of the hosts", "no limit",
			"How many hosts may be without the running process at the same time, for any reason. A batch begins smaller or "+
				"later. A share is rounded down to at least one host."),
		field("order", "label or fact", "the name of the host",
			"What sorts the hosts; hosts without it come last."),
		field("spread", "label or fact", "none",
			"Spreads the canaries and each batch over the values of a label or fact, such as zone: hosts with different "+
				"values take turns."),
		field("skip_away", "true or false", "false",
			"With true the rollout leaves out hosts that are not connected; otherwise they count as failed."),
		field("canary_approval", "true or false", "false",
			"With true the rollout waits after its canaries until another person approves it."),
		field("undo_on_failure", "true or false", "false",
			"With true drover undoes the apply by itself, when more hosts fail than may fail: without it, the rollout pauses. "+
				"The hosts that it has reached go back at once."),
	}
}
