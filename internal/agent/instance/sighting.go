// Package instance holds the nouns by which operations and the host speak about a running process: the result of a
// look for it, the processes that belong to it, a command that waits at its gate, and claims against other drovers. It
// does no I/O.
package instance

import (
	"fmt"
	"time"

	"drover/internal/process"
)

// Sighting is the result of one look for a process.
type Sighting struct {
	// ID is the live instance; nil when there is none.
	ID *Identity
	// PIDFile is the file that led to it, links resolved; empty when it was found by name.
	PIDFile string
	// Matches is how many live processes fit the spec. Instances are the matches that are proven to be the process, if
	// the process has several instances.
	Matches   int
	Instances []Identity
	// Note says what was odd, or why nothing was found. Cause is the kind of trouble.
	Note  string
	Cause process.CauseID
	// Run is the run of the process that the instance was born in; empty if there is none, or if it is already on
	// record.
	Run string
	// Doubt says why the name alone does not prove that the instance is the process. If ID is nil, it says why the
	// process in the pid file may be another one. It is empty if there is no doubt.
	Doubt string
	// Ended is the process in the pid file, if it has ended; else nil.
	Ended *Ended
}

// Ended is a process that has ended and is still in its pid file.
type Ended struct {
	PID int
	// PIDFileTime is when the pid file was written, since boot.
	PIDFileTime time.Duration
	// How is nil if drover does not know it.
	How *process.Exit
}

// Alive reports whether an instance was seen.
func (s Sighting) Alive() bool { return s.ID != nil }

// Unsure reports whether the process may run although the look did not find it, because a file system hangs.
func (s Sighting) Unsure() bool { return s.ID == nil && s.Cause == process.CauseFileHangs }

// Ownership tells, for a look by name, whose the processes are.
type Ownership struct {
	// Other reports whether another process of the agent is this instance: it is not found.
	Other func(Identity) bool
	// Own reports whether a run belongs to the process that drover looks for: an instance that was born in such a run
	// is found first.
	Own func(run string) bool
}

// TooFew tells that fewer instances run than the spec expects.
func TooFew(matches, expected int) string {
	return fmt.Sprintf("%d of %d instances are running", matches, expected)
}
