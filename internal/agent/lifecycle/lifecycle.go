// Package lifecycle is the pure state machine of one watched process. Between operations it decides whether the agent
// locates, watches or relaunches the process, or leaves it alone. It owns no clock, no goroutine and no I/O: its
// caller feeds it events and performs the returned actions. It does not decide what an operation itself does.
package lifecycle

import (
	"time"

	"drover/internal/process"
)

// State is the state of a process.
type State string

// The states. Stopped, Finished and GivenUp are resting: only an operation, or a change from outside, leaves them.
const (
	Unknown   State = "unknown"   // the agent has just started and has not located it yet
	Stopped   State = "stopped"   // not running, and drover does not start it
	Running   State = "running"   // proven alive and watched
	Starting  State = "starting"  // a relaunch is under way
	Backoff   State = "backoff"   // exited; the retry timer relaunches it
	GivenUp   State = "given-up"  // exited more often than its policy allows
	Operating State = "operating" // an operation holds the process and the watch is suspended
	Stopping  State = "stopping"  // drover ends it by policy: over its limit, unhealthy, or due for its next run
	Scheduled State = "scheduled" // a periodic process between two runs
	Finished  State = "finished"  // over: a single run, or a process that is not relaunched after its success
)

// States lists all states.
func States() []State {
	return []State{Unknown, Stopped, Scheduled, Starting, Running, Stopping, Backoff, GivenUp, Finished, Operating}
}

// Timer names the timer that is armed; at most one is.
type Timer string

// The timers.
const (
	NoTimer Timer = ""
	Retry   Timer = "retry"   // the next relaunch is due
	Healthy Timer = "healthy" // the process has run long enough to restore its budget
)

// Await is the awaited answer in a state without a timer and without a watch.
type Await string

// The values of Await.
const (
	Nothing      Await = ""
	Probe        Await = "probe"        // a look
	Confirmation Await = "confirmation" // the server's word on the record, before a relaunch; at a shutdown, nothing
	Budget       Await = "budget"       // a place in the budget of the host, with the retry timer
	Order        Await = "order"        // the processes that it is after, after a reboot of the host
	Launch       Await = "launch"       // the end of a relaunch
	Operation    Await = "operation"    // the end of an operation
	Check        Await = "check"        // the end of an operation whose command is over
	Schedule     Await = "schedule"     // the next run
	Removal      Await = "removal"      // the end of the process, or of its leftovers
	Notice       Await = "notice"       // the watch, after a look did not find the running process
	Successor    Await = "successor"    // a look for the process that the command of a run left behind
)

// Policy is the part of a spec that the machine uses for its decisions.
type Policy struct {
	// Hosted tells that drover keeps a resident process alive, or runs a periodic process by its timetable.
	Hosted bool
	Kind   process.Kind
	// Overlap says what happens if a run is due while the previous run still runs.
	Overlap process.Overlap
	// When says after which ends a resident process is relaunched; empty means after every end.
	When process.When
	// GivenUp tells that the process was given up, Finished that it has succeeded and is not relaunched. An operation
	// ends both.
	GivenUp, Finished bool
	// Retries is the number of relaunches in a row; 0 is any number. Interval is the least time from the first to the
	// second. Each further one is Factor times as long, at most MaxInterval. Stretch is the random share of the next
	// one, near 1; 0 means 1.
	Retries     int
	Interval    time.Duration
	MaxInterval time.Duration
	Factor      float64
	Stretch     float64
	// HealthyAfter is the run time that restores the budget.
	HealthyAfter time.Duration
	// Unconfirmed tells that no relaunch begins: the server has not yet sent its records of this host, or the host
	// shuts down.
	Unconfirmed bool
	// Unready tells that the running process is not ready yet: its run time does not count before Readied.
	Unready bool
}

func (p Policy) keepsAlive() bool { return p.Hosted && p.Kind == process.Resident }

// exhausted reports whether no relaunch is left.
func (p Policy) exhausted(attempts int) bool { return p.Retries > 0 && attempts >= p.Retries }

// pause is the least time between the relaunch with that number, from 1, and the next one.
func (p Policy) pause(attempt int) time.Duration {
	most := float64(max(p.MaxInterval, p.Interval))
	pause := min(float64(p.Interval), most)
	for ; attempt > 1 && pause < most && p.Factor > 1; attempt-- {
		pause = min(pause*p.Factor, most)
	}
	if p.Stretch > 0 {
		pause *= p.Stretch
	}
	return time.Duration(pause)
}

func (p Policy) runsByTimetable() bool { return p.Hosted && p.Kind == process.Periodic }

// Machine is the state of one process: a value, to be copied and compared. All times are since boot, so that a change
// of the wall clock has no effect.
type Machine struct {
	State State
	// Attempts counts the relaunches since the budget was last full.
	Attempts int
	// LaunchedAt is the start of the last relaunch, RetryAt the time of the next; 0 is never.
	LaunchedAt time.Duration
	RetryAt    time.Duration
	Armed      Timer
	Awaits     Await
	// Pending tells that a run begins as soon as the present run ends.
	Pending bool
	// Final tells not to start the process again after the present end.
	Final bool
	// Placed tells that the next relaunch has its place in the budget of the host.
	Placed bool
	// Resumed tells that an earlier agent began the relaunch that waits for its confirmation.
	Resumed bool
}

// New returns the machine of a process that the agent has not located yet, and the Look that begins its life.
// Attempts and retryAt come from the agent's last run, or are zero.
func New(attempts int, launchedAt, retryAt time.Duration) (Machine, []Action) {
	m := Machine{State: Unknown, Attempts: attempts, LaunchedAt: launchedAt, RetryAt: retryAt, Awaits: Probe}
	return m, []Action{Look{}}
}

// Resume returns the machine of a process whose relaunch an earlier agent began, and the remaining actions.
func Resume(m Machine, p Policy) (Machine, []Action) {
	m.State, m.Resumed = Starting, true
	return m.relaunch(p)
}

// ResumeTakeDown returns the machine of a process that an earlier agent began to end.
func ResumeTakeDown(m Machine, final bool) Machine {
	m.State, m.Awaits, m.Final = Stopping, Removal, final
	return m
}

// Busy tells that an operation, a relaunch or an end by policy holds the process. Nothing else may begin.
func (m Machine) Busy() bool {
	return m.Awaits == Operation || m.Awaits == Check || m.Awaits == Launch || m.Awaits == Removal
}

// Watched tells that the machine relies on the notice of the process's death.
func (m Machine) Watched() bool { return m.State == Running }

// Resting tells that the state needs no further event.
func (m Machine) Resting() bool {
	return m.State == Stopped || m.State == GivenUp || m.State == Finished
}

// AtRest tells that the process does not run, and that no relaunch follows: only an operation or a timetable starts it.
func (m Machine) AtRest() bool { return m.Resting() || m.State == Scheduled }

// An Event is an input of the machine.
type Event interface{ event() }

// The events.
type (
	// Began tells that an operation has begun on the process.
	Began struct{}
	// Ended tells that the operation is over: whether the process was seen alive, whether the budget is restored,
	// whether to start a hosted process now, and whether the policy forbids a relaunch after the end of what the
	// operation has started.
	Ended struct{ Alive, Restore, Now, Forbidden bool }
	// Found tells that a Look, or the regular listing, saw the process alive.
	Found struct{}
	// NotFound tells that a Look saw no process.
	NotFound struct{}
	// Missed tells that a look did not find the running process, and that the watch has not reported its end.
	Missed struct{}
	// Seen tells that a look found a process that was missed.
	Seen struct{}
	// CommandEnded tells that the command of a run has ended. The process that it may have left behind is looked for,
	// answered by Found or Exited.
	CommandEnded struct{}
	// Exited tells that the watched process has ended without a successor: whether it succeeded, and whether the policy
	// forbids a relaunch after such an end.
	Exited struct{ Success, Forbidden bool }
	// Confirmed tells that the server has sent its records of this host, or that the agent waits no longer.
	Confirmed struct{}
	// Checking tells that the command of the operation is over.
	Checking struct{}
	// Sweeping tells that the leftovers of a process that has ended are being ended.
	Sweeping struct{}
	// Swept tells that the leftovers are gone, or cannot be ended.
	Swept struct{}
	// Launched tells that a relaunch succeeded.
	Launched struct{}
	// Readied tells that the running process has become ready.
	Readied struct{}
	// LaunchFailed tells that a relaunch failed, and whether the policy forbids another one after its end.
	LaunchFailed struct{ Forbidden bool }
	// HeldBack answers Relaunch: the budget of the host has no place before the given time, but has one then.
	HeldBack struct{ Until time.Duration }
	// Held answers Relaunch: after a reboot, the processes that this one is after are not up yet.
	Held struct{}
	// Freed tells that they are up.
	Freed struct{}
	// PutOff answers Relaunch: a reason outside the process prevents the relaunch until the given time.
	PutOff struct{ Until time.Duration }
	// Due tells that a periodic process is due by its timetable.
	Due struct{}
	// Condemned tells to end the running process: with Final not to start it again, with Placed that its relaunch has a
	// place in the budget of the host.
	Condemned struct{ Final, Placed bool }
	// TakenDown answers TakeDown, and tells whether the process still runs.
	TakenDown struct{ Alive bool }
	// Fired tells that a timer has expired. If another timer is armed now, the event is stale and changes nothing.
	Fired struct{ Timer Timer }
)

func (Began) event()        {}
func (Ended) event()        {}
func (Found) event()        {}
func (NotFound) event()     {}
func (Missed) event()       {}
func (Seen) event()         {}
func (CommandEnded) event() {}
func (Exited) event()       {}
func (Confirmed) event()    {}
func (Checking) event()     {}
func (Sweeping) event()     {}
func (Swept) event()        {}
func (Launched) event()     {}
func (Readied) event()      {}
func (LaunchFailed) event() {}
func (HeldBack) event()     {}
func (Held) event()         {}
func (Freed) event()        {}
func (PutOff) event()       {}
func (Due) event()          {}
func (Condemned) event()    {}
func (TakenDown) event()    {}
func (Fired) event()        {}

// An Action is an output of the machine: the caller must perform the actions in the given order.
type Action interface{ action() }

// The actions.
type (
	// Look asks to locate the process once, answered by Found or NotFound.
	Look struct{}
	// Watch asks for an Exited when the located process ends.
	Watch struct{}
	// Relaunch asks for the start command, answered by Launched, LaunchFailed, PutOff, Held or HeldBack. Placed tells
	// that the relaunch has waited for its place, or that the place was free before. Resumed tells that an earlier
	// agent began the relaunch, which continues.
	Relaunch struct{ Placed, Resumed bool }
	// TakeDown asks to end the process and all processes that it has started, answered by TakenDown.
	TakeDown struct{}
	// Skip tells that a due run is left out.
	Skip struct{}
	// Arm sets the timer, and replaces any other.
	Arm struct {
		Timer Timer
		After time.Duration
	}
	// Disarm stops the timer.
	Disarm struct{}
	// GiveUp tells that the process is not relaunched any more.
	GiveUp struct{}
	// Finish tells that a resident process has succeeded and is not relaunched.
	Finish struct{}
)

func (Look) action()     {}
func (Watch) action()    {}
func (Relaunch) action() {}
func (Arm) action()      {}
func (Disarm) action()   {}
func (GiveUp) action()   {}
func (Finish) action()   {}
func (TakeDown) action() {}
func (Skip) action()     {}
