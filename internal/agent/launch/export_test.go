package launch

// Begin is what Run does with ctx left out: it returns once the thread takes jobs.
func (f *Forker) Begin() (stop func(), err error) { return f.begin() }

// ExposureFor is exposure where the agent has a score.
func ExposureFor(score []byte) string { return exposureFor(score) }
