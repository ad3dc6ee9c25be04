package operation

import "drover/internal/process"

// policyNotes says what of a policy is stored and not obeyed, or was not said by the caller.
func policyNotes(p process.Policy) []string {
	var notes []string
	if p.Kind != process.Periodic {
		if p.Crontab != "" {
			notes = append(notes, "crontab_rule is stored and not used: it is for periodic processes (auto_type 0)")
		}
		if p.CycleTime > 0 {
			notes = append(notes, "cycle_time is stored and not used: it is for periodic processes (type 0)")
		}
	}
	if p.KindAssumed {
		notes = append(notes, "neither type nor cycle_time was given, so the process is resident (type 1)")
	}
	return notes
}

// limitNotes says which of the hard limits of the spec are not in force.
func (n *session) limitNotes() []string {
	if n.spec.Hard == (process.HardLimits{}) || n.LimitNotes == nil {
		return nil
	}
	return n.LimitNotes(n.spec.Hard)
}
