package instance

import (
	"errors"

	"drover/internal/agent/procfs"
)

// Scope is a process and whatever its run consists of besides: what an end of the process ends.
type Scope struct {
	// Root is the main process, which may have ended; zero when there is none.
	Root procfs.Identity
	// Run is the run of the main process; empty if it is not a run of drover.
	Run string
	// Noted are processes that were seen to belong to it earlier.
	Noted []procfs.Identity
	// Spared returns those of the processes that belong to somebody else. They and their trees are left alone. Nil
	// spares none.
	Spared func([]procfs.Identity) []procfs.Identity
}

// ErrBestEffort means that a tree was searched for in /proc, where what forks fast enough is not found.
var ErrBestEffort = errors.New("no control group holds what was started")
