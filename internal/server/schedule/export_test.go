package schedule

// Failures returns how many schedules have a run that the keeper could not begin.
func (k *Keeper) Failures() int { return len(k.failures) }
