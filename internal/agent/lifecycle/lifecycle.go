// Package lifecycle is the pure state machine of one watched process. Between operations it decides whether the agent
// locates, watches or relaunches the process, or leaves it alone. It owns no clock, no goroutine and no I/O: its
// caller feeds it events and performs the returned actions. It does not decide what an operation itself does.
package lifecycle

import (
	"time"

	"drover/internal/process"
)

// State is where a process stands.
type State string

// The states. Stopped, Finished and GivenUp are resting: nothing but an operation, or somebody outside, changes them.
const (
	Unknown   State = "unknown"   // the agent has just started and has not looked yet
	Stopped   State = "stopped"   // not running, and nothing will start it
	Running   State = "running"   // proven alive and watched
	Starting  State = "starting"  // a relaunch is under way
	Backoff   State = "backoff"   // ended by itself; the retry timer will start it again
	GivenUp   State = "given-up"  // ended by itself once more than its policy allows
	Operating State = "operating" // an operation holds the process and the watch is suspended
	Stopping  State = "stopping"  // is being ended by policy: over its limit, unhealthy, or due to run again
	Scheduled State = "scheduled" // a periodic process between two runs
	Finished  State = "finished"  // a single run that is over
)

// States lists all states.
func States() []State {
	return []State{Unknown, Stopped, Scheduled, Starting, Running, Stopping, Backoff, GivenUp, Finished, Operating}
}

// Timer names the one timer that may be armed.
type Timer string

// The timers.
const (
	NoTimer Timer = ""
	Retry   Timer = "retry"   // the next relaunch is due
	Healthy Timer = "healthy" // the process has run long enough to restore its budget
)

// Await is what a state that has neither a timer nor a watch is waiting for.
type Await string

// What can be under way.
const (
	Nothing   Await = ""
	Probe     Await = "probe"
	Launch    Await = "launch"
	Operation Await = "operation"
	Schedule  Await = "schedule"
	Removal   Await = "removal"
)

// Policy is the part of a spec that the machine decides by.
type Policy struct {
	// Hosted says that the process is to be kept alive, if it is a resident one, or run by its timetable, if a periodic one.
	Hosted bool
	Kind   process.Kind
	// Overlap is what becomes of a run that is due while the one before it lasts.
	Overlap process.Overlap
	// GivenUp says that it was, and that no operation has changed that.
	GivenUp bool
	// Retries is how many relaunches in a row are tried, Interval how far apart at least.
	Retries  int
	Interval time.Duration
	// HealthyAfter is how long a run must last to restore the budget.
	HealthyAfter time.Duration
}

func (p Policy) keepsAlive() bool { return p.Hosted && p.Kind == process.Resident }

func (p Policy) runsByTimetable() bool { return p.Hosted && p.Kind == process.Periodic }

// Machine is the state of one process: a value, to be copied and compared. All times are since boot, so that a stepped
// wall clock changes nothing.
type Machine struct {
	State State
	// Attempts counts the relaunches since the budget was last full.
	Attempts int
	// LaunchedAt is when the last relaunch began, RetryAt when the next one is due; 0 is never.
	LaunchedAt time.Duration
	RetryAt    time.Duration
	Armed      Timer
	Awaits     Await
	// Pending says that a run is to begin as soon as the present one is over.
	Pending bool
	// Final says that what is being ended is not to be started again.
	Final bool
	// Held says that the next relaunch has its place in the budget of the host.
	Held bool
}

// New returns the machine of a process that the agent has not looked at yet, and the look that begins its life.
// Attempts and retryAt come from the agent's last run, or are zero.
func New(attempts int, launchedAt, retryAt time.Duration) (Machine, []Action) {
	m := Machine{State: Unknown, Attempts: attempts, LaunchedAt: launchedAt, RetryAt: retryAt, Awaits: Probe}
	return m, []Action{Look{}}
}

// Watched says that the machine counts on hearing of the death of the process.
func (m Machine) Watched() bool { return m.State == Running }

// Resting says that nothing needs to happen for the state to be right.
func (m Machine) Resting() bool {
	return m.State == Stopped || m.State == GivenUp || m.State == Finished
}

// An Event is something that has happened.
type Event interface{ event() }

// The events.
type (
	// Began says that an operation has taken hold of the process.
	Began struct{}
	// Ended says that the operation is over: whether the process was seen alive, whether the budget is restored, and whether
	// one that is kept alive is to be started at once.
	Ended struct{ Alive, Restore, Now bool }
	// Found says that a look, or the regular listing, saw the process alive.
	Found struct{}
	// NotFound says that it saw none.
	NotFound struct{}
	// Exited says that the watched process has ended and that no successor of it was seen.
	Exited struct{}
	// Launched says that a relaunch brought the process up.
	Launched struct{}
	// LaunchFailed says that it did not.
	LaunchFailed struct{}
	// HeldBack answers Relaunch: the budget of the host has no room before the given time, but will have then.
	HeldBack struct{ Until time.Duration }
	// PutOff answers Relaunch: it could not be tried, for a reason that is not the process's own, and is to be at the given time.
	PutOff struct{ Until time.Duration }
	// Due says that a periodic process is to run by its timetable.
	Due struct{}
	// Condemned says that the running process must be ended, and with Final that it is not to be started again.
	Condemned struct{ Final bool }
	// TakenDown answers TakeDown, and says whether the process is still there.
	TakenDown struct{ Alive bool }
	// Fired says that a timer ran out. One that is not the armed one is old and changes nothing.
	Fired struct{ Timer Timer }
)

func (Began) event()        {}
func (Ended) event()        {}
func (Found) event()        {}
func (NotFound) event()     {}
func (Exited) event()       {}
func (Launched) event()     {}
func (LaunchFailed) event() {}
func (HeldBack) event()     {}
func (PutOff) event()       {}
func (Due) event()          {}
func (Condemned) event()    {}
func (TakenDown) event()    {}
func (Fired) event()        {}

// An Action is something that the caller must do, in the order given.
type Action interface{ action() }

// The actions.
type (
	// Look asks for one look at the process, answered by Found or NotFound.
	Look struct{}
	// Watch asks to be told, by Exited, when the process that was seen last ends.
	Watch struct{}
	// Relaunch asks for the start command, answered by Launched, LaunchFailed, PutOff or, unless it has its place in the budget
	// already, HeldBack.
	Relaunch struct{ Held bool }
	// TakeDown asks for the end of the process and of all that it has started, answered by TakenDown.
	TakeDown struct{}
	// Skip says that a run that was due is left out: it comes to nothing.
	Skip struct{}
	// Arm sets the one timer, replacing any other.
	Arm struct {
		Timer Timer
		After time.Duration
	}
	// Disarm stops it.
	Disarm struct{}
	// GiveUp says that the budget has just been spent.
	GiveUp struct{}
)

func (Look) action()     {}
func (Watch) action()    {}
func (Relaunch) action() {}
func (Arm) action()      {}
func (Disarm) action()   {}
func (GiveUp) action()   {}
func (TakeDown) action() {}
func (Skip) action()     {}
