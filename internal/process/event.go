package process

import (
	"fmt"
	"slices"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/spec"
)

// Event is a change of a process. The agent of its host records it first. Stream and Seq together identify an event
// for ever, so a resent event counts once.
type Event struct {
	// Stream identifies one event log of an agent. Seq rises by one within it, beginning with 1.
	Stream string `json:"stream"`
	Seq    uint64 `json:"seq"`
	// At is in Unix milliseconds, by the clock of the host.
	At      int64     `json:"at"`
	Process ID        `json:"process"`
	Kind    EventKind `json:"kind"`
	// From and To are states of docs/states.md. They are equal or empty if the state did not change.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Cause explains the event; Actor caused it.
	Cause Cause `json:"cause,omitzero"`
	Actor Actor `json:"actor,omitzero"`
	// PID is the instance of the event; 0 if there is none.
	PID int `json:"pid,omitempty"`
	// Exit tells how that instance, or a command, ended; RunTime is its run time in milliseconds, 0 if nobody saw the
	// end.
	Exit    *Exit `json:"exit,omitempty"`
	RunTime int64 `json:"run_time,omitempty"`
	// Output is the end of its output, as far as drover keeps it.
	Output string `json:"output,omitempty"`
	// Attempt counts the relaunches since the budget was last full.
	Attempt int `json:"attempt,omitempty"`
	// Breach is set if a limit was exceeded.
	Breach *Breach `json:"breach,omitempty"`
	// ReportID is the alarm id of the spec; 0 if it has none.
	ReportID int64 `json:"report_id,omitempty"`
	// Revision and Former are the revisions of the spec after and before a change of it; 0 if they are unknown. Fields
	// are the paths of the changed fields in the form of process files. Only a server knows and sets them.
	Revision int64    `json:"revision,omitempty"`
	Former   int64    `json:"former,omitempty"`
	Fields   []string `json:"fields,omitempty"`
	// Schedule is the name of the schedule that the event is about. Only a server sets it.
	Schedule string `json:"schedule,omitempty"`
	// Shown is set for EventState only.
	Shown *Shown `json:"shown,omitempty"`
}

// EventState is the kind of a record that travels with the events and is none of them: what is shown of a process from
// its time on. Without a process it is about the agent itself: its state is running with its build as the version, or
// stopped. No reader of events gets it.
const EventState EventKind = "state"

// OnTrial follows the version of an agent in the record of a run in which that version was only tried.
const OnTrial = " (trial)"

// EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	EventStarted   EventKind = "started"   // an operation started it
	EventFound     EventKind = "found"     // it runs, and drover did not start it
	EventRestarted EventKind = "restarted" // an operation replaced the instance
	EventExited    EventKind = "exited"    // it exited without an operation
	EventStopped   EventKind = "stopped"   // an operation stopped it
	EventKilled    EventKind = "killed"    // an operation killed it
	// another process, of the same run or from outside, is its main process now
	EventReplaced  EventKind = "main-pid-changed"
	EventLeftovers EventKind = "leftovers-ended" // drover ended the processes that its run left behind
	// the kernel killed a part of its run, because memory ran out; it still runs
	EventOOMKilled      EventKind = "oom-killed"
	EventRelaunched     EventKind = "relaunched"           // drover relaunched it after its end
	EventRelaunchFailed EventKind = "relaunch-failed"      // a relaunch failed
	EventGivenUp        EventKind = "given-up"             // drover no longer retries
	EventRetried        EventKind = "retried"              // a caller asked for a retry
	EventHosted         EventKind = "hosted"               // drover keeps it running from now on
	EventUnhosted       EventKind = "unhosted"             // drover leaves it alone from now on
	EventRegistered     EventKind = "registered"           // it was registered
	EventUpdated        EventKind = "updated"              // its spec changed
	EventUnregistered   EventKind = "unregistered"         // its record was removed
	EventReloaded       EventKind = "reloaded"             // an operation reloaded it
	EventSignalled      EventKind = "signalled"            // an operation sent it a signal
	EventFailed         EventKind = "operation-failed"     // an operation failed
	EventBreach         EventKind = "limit-exceeded"       // it exceeded its own limit, and drover ends it
	EventGroupBreach    EventKind = "group-limit-exceeded" // its group exceeded the pool, and it is the victim
	EventTakenDown      EventKind = "taken-down"           // a limit, its health or a shutdown of its host ended it
	EventRunStarted     EventKind = "run-started"          // a periodic run began
	EventRunEnded       EventKind = "run-ended"            // the run succeeded
	EventRunFailed      EventKind = "run-failed"           // the run failed
	EventRunSkipped     EventKind = "run-skipped"          // a due run was left out
	EventRunMissed      EventKind = "run-missed"           // it was due while the agent or the host was down
	EventUnhealthy      EventKind = "unhealthy"            // its health check failed too often in a row
	EventHealthy        EventKind = "healthy"              // its health check succeeds again
	EventNotReady       EventKind = "not-ready"            // it runs, and was not ready in time
	EventReady          EventKind = "ready"                // it has become ready, some time after it began to run
	EventDrifted        EventKind = "config-drifted"       // a configuration file differs from the checksum in the spec
	EventRestored       EventKind = "config-restored"      // the file matches the checksum again
	EventFlapping       EventKind = "flapping"             // it was relaunched too often lately
	EventSteady         EventKind = "steady"               // it no longer flaps
	EventBreakerOpened  EventKind = "breaker-opened"       // the servers withhold its relaunches on all hosts
	EventBreakerClosed  EventKind = "breaker-closed"       // the servers withhold them no longer
	EventScheduleFailed EventKind = "schedule-failed"      // a run of a schedule failed, first on this host
	// the schedule whose failed run was told of this host has succeeded, or nobody schedules it any more
	EventScheduleRecovered EventKind = "schedule-recovered"
	// events of a rollout, on its first host with its first process: it begins no batch until somebody resumes it
	EventRolloutPaused EventKind = "rollout-paused"
	EventRolloutHeld   EventKind = "rollout-held" // it waits for an approval
	// somebody has resumed, approved or retried it
	EventRolloutResumed EventKind = "rollout-resumed"
	EventRolloutDone    EventKind = "rollout-done"
	EventRolloutFailed  EventKind = "rollout-failed"
	EventRolloutAborted EventKind = "rollout-aborted"
	// events of a host: its agent has not been connected for a minute, or has been connected again for a minute
	EventHostAway EventKind = "host-away"
	EventHostBack EventKind = "host-back"
	// somebody has removed the host from the fleet; of a process: its alarm on that host ends with the host
	EventHostRemoved EventKind = "host-removed"
	// events of a host: another version of its agent is in use, or was refused or has not proven itself
	EventAgentUpgraded EventKind = "agent-upgraded"
	EventAgentKept     EventKind = "agent-upgrade-failed"
	EventsLost         EventKind = "events-lost" // the agent's disk was full; Attempt is their number
)

// EventKinds lists them.
func EventKinds() []EventKind {
	return []EventKind{
		EventStarted, EventRestarted, EventFound, EventExited, EventStopped, EventKilled, EventReplaced, EventLeftovers,
		EventOOMKilled, EventRelaunched, EventRelaunchFailed, EventGivenUp, EventRetried, EventHosted,
		EventUnhosted, EventRegistered, EventUpdated, EventUnregistered, EventReloaded,
		EventSignalled, EventFailed, EventBreach,
		EventGroupBreach, EventTakenDown,
		EventRunStarted, EventRunEnded, EventRunFailed, EventRunSkipped, EventRunMissed, EventUnhealthy, EventHealthy,
		EventNotReady, EventReady,
		EventDrifted, EventRestored,
		EventFlapping, EventSteady, EventBreakerOpened, EventBreakerClosed,
		EventScheduleFailed, EventScheduleRecovered,
		EventRolloutPaused, EventRolloutHeld, EventRolloutResumed, EventRolloutDone, EventRolloutFailed,
		EventRolloutAborted,
		EventHostAway, EventHostBack, EventHostRemoved, EventAgentUpgraded, EventAgentKept, EventsLost,
	}
}

// The parts of an event that are the same in drover's own API.
type (
	// Actor is the cause of an event; its Kind is one of the constants below.
	Actor = v1.Actor
	// Breach is the proof of an exceeded limit. Samples are in order, oldest first.
	Breach = v1.Breach
	// Score is the rank of one process of a group when a victim was chosen.
	Score = v1.Score
)

// The kinds of actors.
const (
	ActorCaller  = "caller"  // a caller, by an operation
	ActorPolicy  = "policy"  // drover, by the policy in the spec
	ActorKernel  = "kernel"  // the out-of-memory killer, a fault of the program
	ActorSelf    = "self"    // the process itself
	ActorOutside = "outside" // a person or program on the host, not through drover
)

// Exit tells how a process or a command ended.
type Exit struct {
	// Known tells whether the kernel gave the exit status: it does not for a process that is not a child.
	Known bool `json:"known"`
	// Code is the exit status. If a signal ended the process, Signal is set instead; Core tells whether it dumped
	// core.
	Code   int  `json:"code"`
	Signal int  `json:"signal,omitempty"`
	Core   bool `json:"core,omitempty"`
	// OOM tells that the kernel's out-of-memory killer ended the process.
	OOM bool `json:"oom,omitempty"`
	// Peak is the most memory that it had at a time, in bytes; 0 if that is not known.
	Peak int64 `json:"peak,omitempty"`
	// At is in Unix milliseconds.
	At int64 `json:"at,omitempty"`
}

// String says it in words, such as "exit status 3".
func (e *Exit) String() string {
	switch {
	case !e.Known:
		return "ended (exit status unknown)"
	case e.Signal == 0:
		return fmt.Sprintf("exit status %d", e.Code)
	}
	text := fmt.Sprintf("killed by signal %d", e.Signal)
	if name := SignalName(e.Signal); name != "" {
		text += " (SIG" + name + ")"
	}
	if e.Core {
		text += ", core dumped"
	}
	return text
}

// Fault reports whether a signal ended the process that the kernel sends for a fault of the program, or that abort(3)
// sends.
func (e *Exit) Fault() bool {
	if e == nil || e.Signal == 0 {
		return false
	}
	const (
		ill, trap, abrt, bus, fpe = 4, 5, 6, 7, 8 // signal(7), for all architectures of drover
		segv, xcpu, xfsz, sys     = 11, 24, 25, 31
	)
	return slices.Contains([]int{ill, trap, abrt, bus, fpe, segv, xcpu, xfsz, sys}, e.Signal)
}

// Cause names the kind of the end. Exit is nil if the agent did not see the end.
func (e *Exit) Cause() CauseID {
	switch {
	case e == nil:
		return CauseUnseen
	case e.OOM: // OOM may be all that is known, because drover counts it separately
		return CauseOOM
	case !e.Known:
		return CauseUnseen
	case e.Core || e.Fault():
		return CauseCore
	case e.Signal != 0:
		return CauseSignal
	case e.Code != 0:
		return CauseExitStatus
	}
	return CauseExited
}

// Limit names the limit of a spec that ended the process; empty if none did. Exit may be nil.
func (e *Exit) Limit(s *Spec) string {
	const xfsz = 25 // signal(7)
	size, limited := s.RLimits().Get(spec.FileSize)
	switch memory := s.GroupLimits().Memory; {
	case e == nil:
	case e.OOM && memory > 0:
		return "the memory limit of its spec is " + spec.Size(memory).String()
	case e.Signal == xfsz && limited && size != Unlimited:
		return "its spec limits the size of a file to " + spec.Size(size).String()
	}
	return ""
}

// FilesLimit names the limit of open files of a spec if a process seems to have reached it; else it is empty. Output is
// the end of what the process wrote. Files is how many files it had open at the last reading, so the last tenth counts.
func FilesLimit(s *Spec, files int, output string) string {
	limit, limited := s.RLimits().Get(spec.OpenFiles)
	if !limited || limit == Unlimited ||
		int64(files)*10 < limit*9 && !strings.Contains(strings.ToLower(output), "too many open files") {
		return ""
	}
	return fmt.Sprintf("its spec limits the open files of each process to %d", limit)
}

// Run is one run of a periodic or single-run process. Times are Unix milliseconds; Ended is 0 while it lasts.
type Run struct {
	Started int64  `json:"started"`
	Ended   int64  `json:"ended,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Exit    *Exit  `json:"exit,omitempty"`
	Output  string `json:"output,omitempty"`
}
