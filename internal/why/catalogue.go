package why

import (
	"slices"

	"drover/internal/process"
	"drover/internal/words"
)

// Entry describes one kind of cause, independent of the process.
type Entry struct {
	ID process.CauseID
	// Cause holds the words of the entry, in every language.
	words.Cause
	// Severity applies to a process that should run and does not.
	Severity Severity
}

// entry returns the entry of a cause with its words.
func entry(id process.CauseID, s Severity) Entry { return Entry{id, words.CauseOf(string(id)), s} }

// Page returns the path of the entry's page, relative to the root of the repository.
func (e Entry) Page() string { return "docs/why/" + string(e.ID) + ".md" }

// Entries lists every cause, by theme.
func Entries() []Entry {
	return slices.Concat(byRequest(), ends(), troubles(), limits(), starts(), refusals(), findings(), timetables(),
		server())
}

// Catalogue holds all causes and judges processes by them. It never changes; any goroutine may use it.
type Catalogue struct {
	entries map[process.CauseID]Entry
	ends    map[process.CauseID]bool
}

// Open returns the catalogue. A caller that judges many processes opens it once.
func Open() Catalogue {
	c := Catalogue{entries: map[process.CauseID]Entry{}, ends: map[process.CauseID]bool{}}
	for _, e := range Entries() {
		c.entries[e.ID] = e
	}
	for _, e := range ends() {
		c.ends[e.ID] = true
	}
	return c
}

// Lookup returns the entry of a cause.
func (c Catalogue) Lookup(id process.CauseID) (Entry, bool) {
	e, ok := c.entries[id]
	return e, ok
}

// byRequest returns the causes of states that a caller requested.
func byRequest() []Entry {
	return []Entry{
		entry(process.CauseStopped, Notice),
		entry(process.CauseUnhosted, Notice),
		entry(process.CauseNeverStarted, Notice),
		entry(process.CauseFinished, Notice),
		entry(process.CauseOutside, Notice),
		entry(process.CauseRelaunched, Notice),
		entry(process.CauseNotInForce, Notice),
		entry(process.CauseOperating, Notice),
	}
}

// ends returns the causes by which a process ends by itself.
func ends() []Entry {
	return []Entry{
		entry(process.CauseExited, Critical),
		entry(process.CauseExitStatus, Critical),
		entry(process.CauseSignal, Critical),
		entry(process.CauseCore, Critical),
		entry(process.CauseOOM, Critical),
		entry(process.CauseUnseen, Critical),
	}
}

// troubles returns the causes of problems between two instances of a process.
func troubles() []Entry {
	return []Entry{
		entry(process.CauseRebooted, Critical),
		entry(process.CauseFlapping, Critical),
		entry(process.CauseHeldBack, Critical),
		entry(process.CauseBreakerOpen, Critical),
		entry(process.CauseWaitsForOthers, Critical),
		entry(process.CauseStopFailed, Critical),
	}
}

// limits returns the causes for exceeded limits.
func limits() []Entry {
	return []Entry{
		entry(process.CauseCPULimit, Critical),
		entry(process.CauseMemLimit, Critical),
		entry(process.CauseGroupLimit, Critical),
		entry(process.CauseTimeLimit, Warning),
	}
}

// starts returns the causes of failed starts.
func starts() []Entry {
	return []Entry{
		entry(process.CauseNoStartCommand, Critical),
		entry(process.CauseCommandMissing, Critical),
		entry(process.CauseCommandDenied, Critical),
		entry(process.CauseCommandFailed, Critical),
		entry(process.CauseCommandTimeout, Critical),
		entry(process.CauseNoDirectory, Critical),
		entry(process.CauseNoUser, Critical),
		entry(process.CauseNoVariables, Critical),
		entry(process.CauseNeedsRoot, Critical),
		entry(process.CausePolicy, Critical),
		entry(process.CauseNoPIDFile, Critical),
		entry(process.CauseOddPIDFile, Critical),
		entry(process.CauseFileHangs, Critical),
	}
}

// refusals returns the causes of starts that somebody else or a check prevents.
func refusals() []Entry {
	return []Entry{
		entry(process.CauseOwnedByOther, Critical),
		entry(process.CauseRival, Warning),
		entry(process.CauseCopy, Critical),
		entry(process.CauseKept, Warning),
		entry(process.CauseDiedEarly, Critical),
		entry(process.CausePreflight, Warning),
		entry(process.CauseNotReady, Critical),
	}
}

// findings returns the causes of problems in a running process.
func findings() []Entry {
	return []Entry{
		entry(process.CauseUnhealthy, Warning),
		entry(process.CauseDrift, Warning),
		entry(process.CauseWorkerOOM, Warning),
		entry(process.CauseTooFew, Warning),
		entry(process.CauseSuspended, Warning),
		entry(process.CauseLogRemoved, Warning),
		entry(process.CauseLogFull, Warning),
	}
}

// timetables returns the causes of periodic processes.
func timetables() []Entry {
	return []Entry{
		entry(process.CauseWaitsForSchedule, Notice),
		entry(process.CauseRunFailed, Warning),
		entry(process.CauseRunSkipped, Warning),
		entry(process.CauseRunMissed, Warning),
		entry(process.CauseBadSchedule, Critical),
	}
}

// server returns the causes that only the server can find.
func server() []Entry {
	return []Entry{
		entry(process.CauseAgentAway, Critical),
		entry(process.CauseAgentUnknown, Critical),
		entry(process.CauseUnknown, Critical),
		entry(process.CauseQueued, Warning),
	}
}
