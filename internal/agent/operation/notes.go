package operation

import (
	"strings"

	"drover/internal/process"
)

// policyNotes says what of a policy is stored and not obeyed, or was not said by the caller.
func policyNotes(p process.Policy) []string {
	notes := unused(p)
	if p.KindAssumed {
		notes = append(notes, "neither type nor cycle_time was given, so the process is resident (type 1)")
	}
	return notes
}

func unused(p process.Policy) []string {
	var notes []string
	if p.Kind != process.Periodic {
		if p.Crontab != "" {
			notes = append(notes, "crontab_rule is stored and not used: it is for periodic processes (auto_type 0)")
		}
		if p.CycleTime > 0 {
			notes = append(notes, "cycle_time is stored and not used: it is for periodic processes (type 0)")
		}
	}
	return notes
}

// limitNotes says which of the hard limits of a spec are not in force.
func (o *Operator) limitNotes(spec *process.Spec) []string {
	if spec.Hard == (process.HardLimits{}) || o.LimitNotes == nil {
		return nil
	}
	return o.LimitNotes(spec.Hard)
}

// NotInForce says what of a spec is stored and not done on this host; empty for nothing.
func (o *Operator) NotInForce(spec *process.Spec) string {
	return strings.Join(append(unused(spec.Policy), o.limitNotes(spec)...), "; ")
}
