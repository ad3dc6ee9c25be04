package schedule

// Failures returns how many schedules have a run that the runner could not begin.
func (rn *Runner) Failures() int { return len(rn.failures) }
