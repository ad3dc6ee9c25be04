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
	if p.Order != "" {
		_, isFact := selector.FactName(p.Order)
		if err := selector.CheckKey(p.Order); err != nil && !isFact && !selector.Reserved(p.Order) {
			fault("order", "%v", err)
		}
	}
	if p.CanaryApproval && p.Canary == 0 {
		fault("canary_approval", "stands without canary: expected the number of canaries")
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
	return faults
}
