// Package past tells what a process was at a moment of the past, from the records of its agent. It has no clock and no
// I/O. Where records are missing, it says since when the state is unknown, and does not guess. All times are Unix
// milliseconds by the clock of the host.
package past

import (
	"drover/internal/process"
)

// Record is what an agent recorded of a process: what was shown of it from a time on. A later record of the agent has a
// greater cursor.
type Record struct {
	Cursor int64
	At     int64
	Shown  process.Shown
}

// Run is one run of an agent, from its start to its end. At its start, an agent records all its processes.
type Run struct {
	Stream string
	// Began is the start. Last is the last time at which the run is known to have lived.
	Began, Last int64
	// Build is the version of the agent.
	Build string
	// Former is the Last of the run before; 0 if there is none. FormerBuild is its version.
	Former      int64
	FormerBuild string
	// Latest tells that no later run is known.
	Latest bool
	// Oldest is the time of the oldest kept record of the agent; 0 if there is none.
	Oldest int64
	// Gap is the last loss of records before the moment that was asked for; zero if there was none.
	Gap Gap
	// FirstGap is the cursor of the first loss that is known; 0 if there is none.
	FirstGap int64
}

// Gap is a loss of records: none of those with a smaller cursor is of a time after Since, until the next record of the
// same process.
type Gap struct {
	Cursor int64
	Since  int64
}

// Settling is how long an agent may take to record all its processes after its start, in milliseconds.
const Settling = 10_000

// State is what a process was at a moment.
type State struct {
	// Exists tells whether the host had the process.
	Exists bool
	// Known tells whether Shown is certain. Otherwise Shown is what was known last; it may be zero.
	Known bool
	Shown process.Shown
	// Since is since when an unknown state is unknown; 0 if nobody can tell. Why is the reason.
	Since int64
	Why   Why
}

// Why is the reason for an unknown state.
type Why string

// The reasons.
const (
	NotKept  Why = "not-kept" // no earlier record is kept
	NotHeard Why = "not-heard"
	Starting Why = "starting" // the agent had just started
	Lost     Why = "lost"     // records were lost
)

// At returns the state of a process at a moment. before is its last record up to that moment, and later the first one
// after it; one may be nil, and later counts only without before. run is the last run of the agent that had begun by
// then; nil if none is kept.
func At(moment int64, before, later *Record, run *Run) State {
	if before == nil {
		if kept := run != nil && run.Oldest > 0 && run.Oldest <= moment; kept && precedes(moment, later, run) {
			return State{}
		}
		return State{Exists: true, Why: NotKept}
	}
	if before.Shown.Gone && (run == nil || !lost(moment, before, run)) {
		return State{}
	}
	unknown := State{Exists: true, Shown: before.Shown}
	unknown.Shown.Gone = false
	switch {
	case run == nil:
		unknown.Why = NotKept
	case before.At < run.Began && moment >= run.Began+Settling && !lost(moment, before, run):
		if run.Last >= run.Began+Settling {
			return State{} // the agent has started without it
		}
		unknown.Since, unknown.Why = max(run.Former, before.At), NotHeard // perhaps of a part of its processes only
	case before.At < run.Began:
		unknown.Since, unknown.Why = max(run.Former, before.At), Starting
	case lost(moment, before, run):
		unknown.Since, unknown.Why = max(run.Gap.Since, before.At), Lost
	case moment > run.Last:
		unknown.Since, unknown.Why = max(run.Last, before.At), NotHeard
	default:
		return State{Exists: true, Known: true, Shown: before.Shown}
	}
	return unknown
}

// lost reports whether a later record of the process may have been lost before the moment.
func lost(moment int64, before *Record, run *Run) bool {
	return run.Gap.Cursor > before.Cursor && run.Gap.Since <= moment
}

// precedes reports whether a moment is before the registration of a process, by the first record of it. If anything was
// lost before that record, there may have been another registration.
func precedes(moment int64, first *Record, run *Run) bool {
	const second = 1000
	return first != nil && first.Shown.RegisteredAt > 0 && moment < (first.Shown.RegisteredAt+1)*second &&
		(run.FirstGap == 0 || run.FirstGap > first.Cursor)
}
