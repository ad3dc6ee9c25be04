package launch

import "os"

// Begin is what Run does with ctx left out: it returns once the thread takes jobs.
func (f *Forker) Begin() (stop func(), err error) { return f.begin() }

// Expose is what happens to a child at its gate where the agent has a score of its own.
func Expose(pid int, own []byte) { expose(pid, own) }

// Again returns another Forker with the same gate.
func (f *Forker) Again() *Forker { return (&Forker{proc: f.proc, log: f.log, open: f.Gate}).Busy() }

// Opening sets how the gate is opened.
func (f *Forker) Opening(open func() (*os.File, error)) { f.open = open }

// RealGate is how the gate is opened by default.
func (f *Forker) RealGate() func() (*os.File, error) { return f.open }

// OpenGate opens the gate, as the first Start does.
func (f *Forker) OpenGate() error {
	_, err := f.Gate()
	return err
}

// Busy makes a Forker act as in a process that has many descriptors.
func (f *Forker) Busy() *Forker {
	f.many(few)
	return f
}

// Many reports how a Forker judges a new descriptor.
func (f *Forker) Many(fd int) bool { return f.many(fd) }

// Setting says what sets a limit, and the most that this process may set.
func Setting(name string, value int64) string { return setting(name, value) }
