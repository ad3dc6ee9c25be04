package instance

import (
	"errors"
	"fmt"

	"drover/internal/process"
)

// Scope is a process with its run: everything that an end of the process ends.
type Scope struct {
	// Root is the main process, which may have ended; zero when there is none.
	Root Identity
	// Run is the run of the main process; empty if it is not a run of drover.
	Run string
	// LeftoverRuns are the runs of the commands around it that have left processes behind, such as its before_start.
	LeftoverRuns []string
	// FormerMembers are processes that were seen to belong to it earlier.
	FormerMembers []Identity
	// Spared returns those of the processes that belong to somebody else. They and their trees are left alone. Nil
	// spares none.
	Spared func([]Identity) []Identity
}

// ErrBestEffort means that drover searched for a tree in /proc, where it can miss processes that fork fast.
var ErrBestEffort = errors.New("no control group holds what was started")

// Marks are what the kernel has noted of the processes of a run; 0 is unknown or none.
type Marks struct {
	// Peak is the most memory that they together had at a time, with their part of the page cache, in bytes.
	Peak int64
	// Refused is how often they got no new process or thread because of a limit of tasks.
	Refused int64
}

// TasksLimit says that a run has reached the limit of tasks of its spec; empty if it has not.
func (m Marks) TasksLimit(spec *process.Spec) string {
	if m.Refused == 0 || spec.GroupLimits().Tasks == 0 {
		return ""
	}
	return fmt.Sprintf("its limit of %d tasks was reached: the kernel refused %s", spec.GroupLimits().Tasks,
		process.Count(int(m.Refused), "process or thread", "processes or threads"))
}
