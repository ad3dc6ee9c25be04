package alarm

import (
	"slices"

	"drover/internal/process"
	"drover/internal/why"
)

// SeverityOf returns the severity of an alarm.
func SeverityOf(kind process.EventKind) why.Severity {
	switch kind {
	case process.EventGivenUp, process.EventBreakerOpened, process.EventRelaunchFailed, process.EventFlapping:
		return why.Critical
	case process.EventRelaunched, process.EventDrifted, process.EventRunMissed, process.EventRolloutHeld,
		process.EventRolloutDone, process.EventRolloutAborted, process.EventHostBack:
		return why.Notice
	default:
		return why.Warning
	}
}

// Holds reports whether the condition of an alarm still holds for a process with that status; nil for a process that
// the server does not know. An alarm about a moment, such as a relaunch, holds for that moment only. Of an alarm that
// is OnlyTold no status shows the condition, so Holds returns false.
func Holds(kind process.EventKind, s *process.Status) bool {
	if s == nil || !s.Known {
		return false
	}
	switch kind {
	case process.EventGivenUp:
		return s.State == process.StateGivenUp
	case process.EventRelaunchFailed:
		return s.Hosted && !s.Running() && s.State != process.StateFinished
	case process.EventFlapping:
		return s.Flapping
	case process.EventBreakerOpened:
		return s.Cause.ID == process.CauseBreakerOpen
	case process.EventUnhealthy:
		return s.Running() && s.Health != nil && s.Health.Bad
	case process.EventDrifted:
		return len(s.Config) > 0
	case process.EventRunFailed:
		return s.Cause.ID == process.CauseRunFailed ||
			slices.ContainsFunc(s.Further, func(c process.Cause) bool { return c.ID == process.CauseRunFailed })
	default:
		return false
	}
}

// Lasts reports whether an alarm is about a condition that lasts until another event ends it.
func Lasts(kind process.EventKind) bool {
	return slices.ContainsFunc(Endings(), func(end process.EventKind) bool { return slices.Contains(Ended(end), kind) })
}

// Open reports whether the condition of an alarm that lasts holds for a process with that status.
func Open(s *process.Status) bool {
	return slices.ContainsFunc(process.EventKinds(), func(kind process.EventKind) bool { return Holds(kind, s) })
}

// OnlyTold reports whether only an event tells the end of an alarm, because no status of a process shows its condition.
func OnlyTold(kind process.EventKind) bool {
	switch kind {
	case process.EventScheduleFailed, process.EventRolloutPaused, process.EventRolloutHeld, process.EventHostAway:
		return true
	default:
		return false
	}
}

// Ended returns the kinds of alarms that an event ends.
func Ended(by process.EventKind) []process.EventKind {
	switch by {
	case process.EventSteady:
		return []process.EventKind{process.EventFlapping}
	case process.EventHealthy:
		return []process.EventKind{process.EventUnhealthy}
	case process.EventRestored:
		return []process.EventKind{process.EventDrifted}
	case process.EventBreakerClosed:
		return []process.EventKind{process.EventBreakerOpened}
	case process.EventScheduleRecovered:
		return []process.EventKind{process.EventScheduleFailed}
	case process.EventRolloutResumed, process.EventRolloutDone, process.EventRolloutFailed, process.EventRolloutAborted:
		return []process.EventKind{process.EventRolloutPaused, process.EventRolloutHeld}
	case process.EventHostBack:
		return []process.EventKind{process.EventHostAway}
	case process.EventHostRemoved:
		return append(ofProcess(), process.EventHostAway)
	case process.EventRunEnded:
		return []process.EventKind{process.EventRunFailed}
	case process.EventStarted, process.EventRestarted, process.EventFound, process.EventRelaunched:
		return []process.EventKind{process.EventGivenUp, process.EventRelaunchFailed, process.EventUnhealthy}
	case process.EventStopped, process.EventKilled, process.EventUnhosted:
		return []process.EventKind{
			process.EventGivenUp, process.EventRelaunchFailed, process.EventUnhealthy, process.EventFlapping,
		}
	case process.EventUnregistered:
		return ofProcess()
	default:
		return nil
	}
}

// ofProcess returns the kinds of alarms about a condition of a process on a host. A breaker is about all hosts.
func ofProcess() []process.EventKind {
	return []process.EventKind{
		process.EventGivenUp, process.EventRelaunchFailed, process.EventUnhealthy, process.EventFlapping,
		process.EventDrifted, process.EventRunFailed,
	}
}

// Endings returns the kinds of events that end alarms.
func Endings() []process.EventKind {
	return slices.DeleteFunc(process.EventKinds(), func(kind process.EventKind) bool { return len(Ended(kind)) == 0 })
}
