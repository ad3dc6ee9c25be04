package instance

import "time"

// UnwatchedCopy is a running process that no drover watches and that may be the process of a spec. It has the account,
// the executable, and the command line or the working directory of the spec.
type UnwatchedCopy struct {
	ID Identity
	// Run is the run of a drover that it was born in; empty if it was born in none.
	Run string
	// Cmdline is the command line for people, without control characters. SameLine says that it is that of the spec.
	Cmdline  string
	SameLine bool
	Since    time.Time
}
