package process

// Event is something that has happened to a process. The agent of its host writes it down first; Stream and Seq together
// name it for ever, so that it can be told again without being counted twice.
type Event struct {
	// Stream is one life of one agent's record of events, Seq rises by one within it, beginning with 1.
	Stream string `json:"stream"`
	Seq    uint64 `json:"seq"`
	// At is in Unix milliseconds, by the clock of the host.
	At      int64     `json:"at"`
	Process ID        `json:"process"`
	Kind    EventKind `json:"kind"`
	// From and To are states of docs/states.md; they are the same, or empty, where the state did not change.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Cause says why, Actor who or what did it.
	Cause Cause `json:"cause,omitzero"`
	Actor Actor `json:"actor,omitzero"`
	// PID is the instance that the event is about; 0 where there is none.
	PID int `json:"pid,omitempty"`
	// Exit is how that instance, or a command, ended; RunTime how long it had run, in milliseconds.
	Exit    *Exit `json:"exit,omitempty"`
	RunTime int64 `json:"run_time,omitempty"`
	// Output is the end of what it wrote, as far as it is kept.
	Output string `json:"output,omitempty"`
	// Attempt counts the relaunches since the budget was last full.
	Attempt int `json:"attempt,omitempty"`
	// Breach is set where a limit was exceeded.
	Breach *Breach `json:"breach,omitempty"`
	// ReportID is the alarm id of the spec; 0 where it has none.
	ReportID int64 `json:"report_id,omitempty"`
}

// EventKind says what has happened.
type EventKind string

// The kinds of events.
const (
	EventStarted        EventKind = "started"              // an operation brought it up
	EventFound          EventKind = "found"                // it was seen running, started by somebody else
	EventRestarted      EventKind = "restarted"            // an operation put another one in its place
	EventExited         EventKind = "exited"               // it ended by itself
	EventStopped        EventKind = "stopped"              // an operation ended it in order
	EventKilled         EventKind = "killed"               // an operation ended it at once
	EventReplaced       EventKind = "main-pid-changed"     // another process of the same run, or one from outside, has taken its place
	EventLeftovers      EventKind = "leftovers-ended"      // what its run had left behind was ended
	EventOOMKilled      EventKind = "oom-killed"           // the kernel has ended a part of its run for want of memory; it lives on
	EventRelaunched     EventKind = "relaunched"           // it was brought up again after it had ended
	EventRelaunchFailed EventKind = "relaunch-failed"      // it could not be
	EventGivenUp        EventKind = "given-up"             // it will not be tried any more
	EventRetried        EventKind = "retried"              // somebody asked for another try
	EventHosted         EventKind = "hosted"               // it is kept running from now on
	EventUnhosted       EventKind = "unhosted"             // it is left alone from now on
	EventRegistered     EventKind = "registered"           // its spec became known
	EventUpdated        EventKind = "updated"              // it has another spec
	EventUnregistered   EventKind = "unregistered"         // it was forgotten
	EventReloaded       EventKind = "reloaded"             // an operation reloaded it
	EventFailed         EventKind = "operation-failed"     // an operation did not do what it was asked for
	EventBreach         EventKind = "limit-exceeded"       // it used more than its own limit, and is ended for it
	EventGroupBreach    EventKind = "group-limit-exceeded" // its group used more than the pool, and it is the victim
	EventTakenDown      EventKind = "taken-down"           // what was ended for a limit or its health is gone
	EventRunStarted     EventKind = "run-started"          // a periodic run began
	EventRunEnded       EventKind = "run-ended"            // it ended well
	EventRunFailed      EventKind = "run-failed"           // it did not
	EventRunSkipped     EventKind = "run-skipped"          // the run before it had not ended
	EventRunMissed      EventKind = "run-missed"           // its time passed while the agent or the host was away
	EventUnhealthy      EventKind = "unhealthy"            // its health command has failed too often running
	EventHealthy        EventKind = "healthy"              // it does not fail any more
	EventDrifted        EventKind = "config-drifted"       // a configuration file is not the one that the spec names
	EventRestored       EventKind = "config-restored"      // it is again
	EventFlapping       EventKind = "flapping"             // it was relaunched too often lately
	EventSteady         EventKind = "steady"               // that is over
	EventsLost          EventKind = "events-lost"          // the agent's disk was full; Attempt says how many
)

// EventKinds lists them.
func EventKinds() []EventKind {
	return []EventKind{
		EventStarted, EventRestarted, EventFound, EventExited, EventStopped, EventKilled, EventReplaced, EventLeftovers, EventOOMKilled, EventRelaunched, EventRelaunchFailed, EventGivenUp, EventRetried, EventHosted,
		EventUnhosted, EventRegistered, EventUpdated, EventUnregistered, EventReloaded, EventFailed, EventBreach, EventGroupBreach, EventTakenDown,
		EventRunStarted, EventRunEnded, EventRunFailed, EventRunSkipped, EventRunMissed, EventUnhealthy, EventHealthy, EventDrifted, EventRestored,
		EventFlapping, EventSteady, EventsLost,
	}
}

// Actor is who or what caused an event.
type Actor struct {
	Kind ActorKind `json:"kind,omitempty"`
	// App and User are the caller's, Operation the item of his task.
	App       string `json:"app,omitempty"`
	User      string `json:"user,omitempty"`
	Operation string `json:"operation,omitempty"`
}

// ActorKind is the kind of an actor.
type ActorKind string

// The kinds of actors.
const (
	ActorCaller  ActorKind = "caller"  // somebody, by an operation
	ActorPolicy  ActorKind = "policy"  // drover, because the spec says so
	ActorKernel  ActorKind = "kernel"  // the out-of-memory killer, a fault of the program
	ActorSelf    ActorKind = "self"    // the process ended by itself
	ActorOutside ActorKind = "outside" // somebody on the host, not through drover
)

// Exit is how a process or a command ended.
type Exit struct {
	// Known is whether the kernel could be asked: not after the end of a process that is no child.
	Known bool `json:"known"`
	// Code is the exit status; Signal is set instead where a signal ended it, Core where it dumped core.
	Code   int  `json:"code"`
	Signal int  `json:"signal,omitempty"`
	Core   bool `json:"core,omitempty"`
	// OOM says that the kernel's out-of-memory killer did it.
	OOM bool `json:"oom,omitempty"`
	// At is in Unix milliseconds.
	At int64 `json:"at,omitempty"`
}

// Cause names how it ended. Without an Exit (nil) nobody saw it.
func (e *Exit) Cause() CauseID {
	switch {
	case e == nil:
		return CauseUnseen
	case e.OOM: // which is counted apart, so it may be all that is known
		return CauseOOM
	case !e.Known:
		return CauseUnseen
	case e.Core:
		return CauseCore
	case e.Signal != 0:
		return CauseSignal
	case e.Code != 0:
		return CauseExitStatus
	}
	return CauseExited
}

// Breach is the proof of an exceeded limit.
type Breach struct {
	// Resource is "cpu" or "mem"; Limit and Samples are percent of the whole machine, oldest sample first.
	Resource string    `json:"resource"`
	Limit    float64   `json:"limit"`
	Samples  []float64 `json:"samples"`
	// Group is the id of the process group whose pool it was; Scores are all the candidates, highest first.
	Group  string  `json:"group,omitempty"`
	Scores []Score `json:"scores,omitempty"`
}

// Score is how one process of a group stood when a victim was chosen.
type Score struct {
	Process ID      `json:"process"`
	Usage   float64 `json:"usage"`
	Limit   float64 `json:"limit,omitempty"`
	Score   float64 `json:"score"`
}

// Run is one run of a periodic or single-run process. Times are Unix milliseconds; Ended is 0 while it lasts.
type Run struct {
	Started int64  `json:"started"`
	Ended   int64  `json:"ended,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Exit    *Exit  `json:"exit,omitempty"`
	Output  string `json:"output,omitempty"`
}
