package operation

import "drover/internal/process"

// Allow returns nil if the policy of the host lets an operation be carried out with the spec. What drover does by
// itself is asked for likewise: a relaunch and a run of a timetable as a Start, an end for a limit or bad health as a
// Stop.
func (o *Operator) Allow(id process.ID, op process.Op, spec *process.Spec) error {
	if o.Policy == nil {
		return nil
	}
	return o.Policy.Allow(id, op, spec)
}

// MayAsk reports whether the policy of the host lets the commands of the spec be run that only ask.
func (o *Operator) MayAsk(id process.ID, spec *process.Spec) bool {
	return o.Policy == nil || o.Policy.MayAsk(id, spec) == nil
}
