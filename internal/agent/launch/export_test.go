package launch

// Begin is what Run does with ctx left out: it returns once the thread takes errands.
func (f *Forker) Begin() (stop func(), err error) { return f.begin() }
