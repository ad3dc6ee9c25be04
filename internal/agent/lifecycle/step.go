package lifecycle

import (
	"time"

	"drover/internal/process"
)

// Step returns the machine after the event, and the actions to perform. now is the time since boot. An event without
// a meaning in the present state changes nothing.
func (m Machine) Step(p Policy, ev Event, now time.Duration) (Machine, []Action) {
	switch ev.(type) {
	case Began:
		return m.begin()
	case Due:
		return m.due(p, now)
	}
	switch m.State {
	case Operating:
		switch e := ev.(type) {
		case Ended:
			return m.operated(p, e, now)
		case Checking:
			m.Awaits = Check
		}
	case Unknown:
		switch ev.(type) {
		case Found:
			return m.running(p)
		case NotFound:
			return m.afterNoProcess(p, now)
		}
	case Starting:
		switch e := ev.(type) {
		case Confirmed:
			if m.Awaits == Confirmation {
				p.Unconfirmed = false
				return m.relaunch(p)
			}
		case Launched:
			return m.running(p)
		case LaunchFailed:
			return m.afterEnd(p, Exited{Forbidden: e.Forbidden}, now)
		case HeldBack:
			return m.heldBack(e, now)
		case Held:
			return m.awaitOrder(p)
		case PutOff:
			return m.putOff(p, e, now)
		}
	case Running:
		return m.whileRunning(p, ev, now)
	case Stopping:
		if e, ok := ev.(TakenDown); ok {
			return m.takenDown(p, e, now)
		}
	case Backoff:
		switch e := ev.(type) {
		case Found:
			return m.running(p)
		case Freed:
			if m.Awaits == Order {
				return m.launch(p, now)
			}
		case Fired:
			if e.Timer == m.Armed && e.Timer == Retry {
				return m.launch(p, now)
			}
		}
	case Stopped, GivenUp, Finished, Scheduled:
		return m.whileDown(p, ev)
	}
	return m, nil
}

func (m Machine) whileDown(p Policy, ev Event) (Machine, []Action) {
	switch ev.(type) {
	case Found:
		return m.running(p)
	case Sweeping:
		if m.State == Stopped {
			m.Awaits = Removal
		}
	case Swept:
		if m.State == Stopped {
			m.Awaits = Nothing
		}
	}
	return m, nil
}

func (m Machine) whileRunning(p Policy, ev Event, now time.Duration) (Machine, []Action) {
	switch e := ev.(type) {
	case Exited:
		return m.afterEnd(p, e, now)
	case NotFound:
		return m.afterEnd(p, Exited{}, now)
	case Found:
		return m.running(p) // an instance other than the watched one
	case Condemned:
		return m.takeDown(e)
	case Missed:
		m.Awaits = Notice
	case CommandEnded:
		m.Awaits = Successor
	case Seen:
		m.Awaits = Nothing
	case Readied:
		return m.proving(p)
	case Fired:
		if e.Timer == m.Armed && e.Timer == Healthy {
			m.Armed, m.Attempts = NoTimer, 0
		}
	}
	return m, nil
}

// begin suspends everything, but keeps the planned times.
func (m Machine) begin() (Machine, []Action) {
	if m.State == Operating {
		return m, nil
	}
	m.State, m.Awaits = Operating, Operation
	m.Pending, m.Final, m.Placed, m.Resumed = false, false, false, false
	return m.disarm()
}

// operated resumes the watch after an operation. A relaunch that was due later stays due at that time.
func (m Machine) operated(p Policy, e Ended, now time.Duration) (Machine, []Action) {
	if e.Restore {
		m.Attempts, m.RetryAt = 0, 0
	}
	switch {
	case e.Alive:
		return m.running(p)
	case !p.keepsAlive():
		return m.settle(p, now)
	case p.Finished:
		return m.rest(Finished)
	case p.GivenUp || p.exhausted(m.Attempts):
		return m.rest(GivenUp)
	case e.Now:
		return m.launch(p, now)
	case e.Forbidden || p.When == process.Never:
		return m.giveUp()
	}
	if m.RetryAt <= now {
		m.RetryAt = now + p.pause(1)
	}
	return m.wait(now)
}

// running watches a process that is proven alive.
func (m Machine) running(p Policy) (Machine, []Action) {
	m.State, m.Awaits, m.RetryAt, m.Placed = Running, Nothing, 0, false
	if p.Unready {
		m, disarm := m.disarm()
		return m, append([]Action{Watch{}}, disarm...)
	}
	m, timer := m.proving(p)
	return m, append([]Action{Watch{}}, timer...)
}

// proving lets a process that counts as up prove that it lasts: the timer restores its budget.
func (m Machine) proving(p Policy) (Machine, []Action) {
	if m.Attempts == 0 {
		return m.disarm()
	}
	m.Armed = Healthy
	return m, []Action{Arm{Timer: Healthy, After: p.HealthyAfter}}
}

// afterNoProcess decides after the first look of the agent has found no process.
func (m Machine) afterNoProcess(p Policy, now time.Duration) (Machine, []Action) {
	switch {
	case p.keepsAlive() && p.Finished:
		return m.rest(Finished)
	case p.keepsAlive() && p.GivenUp:
		return m.rest(GivenUp)
	}
	return m.afterEnd(p, Exited{}, now)
}

// afterEnd decides after the end of a process: the first relaunch is immediate, the others are at least the interval
// apart.
func (m Machine) afterEnd(p Policy, e Exited, now time.Duration) (Machine, []Action) {
	switch {
	case !p.keepsAlive():
		return m.settle(p, now)
	case e.Success && p.When != process.Always && p.When != "":
		m, actions := m.rest(Finished)
		return m, append(actions, Finish{})
	case e.Forbidden || p.When == process.Never || p.exhausted(m.Attempts):
		return m.giveUp()
	case m.RetryAt > now:
		return m.wait(now)
	case m.Attempts == 0:
		return m.launch(p, now)
	}
	if m.RetryAt = m.LaunchedAt + p.pause(m.Attempts); m.RetryAt <= now {
		return m.launch(p, now)
	}
	return m.wait(now)
}

// settle puts a process to rest that drover does not keep alive.
func (m Machine) settle(p Policy, now time.Duration) (Machine, []Action) {
	switch {
	case p.runsByTimetable() && p.GivenUp:
		return m.rest(GivenUp)
	case p.runsByTimetable() && m.Pending:
		return m.launch(p, now)
	case p.runsByTimetable():
		m, actions := m.rest(Scheduled)
		m.Awaits = Schedule
		return m, actions
	case p.Hosted && p.Kind == process.SingleRun:
		return m.rest(Finished)
	}
	return m.rest(Stopped)
}

// due begins a run. If a run is still active, the policy decides: skip the new run, queue it, or replace the active
// run.
func (m Machine) due(p Policy, now time.Duration) (Machine, []Action) {
	if !p.runsByTimetable() {
		return m, nil
	}
	switch m.State {
	case Scheduled:
		return m.launch(p, now)
	case Starting, Running, Stopping:
		if p.Overlap != process.OverlapWait && p.Overlap != process.OverlapReplace {
			return m, []Action{Skip{}}
		}
		m.Pending = true
		if p.Overlap == process.OverlapReplace && m.State == Running {
			return m.takeDown(Condemned{})
		}
		return m, nil
	case Operating:
		return m, []Action{Skip{}}
	case Unknown, Stopped, Backoff, GivenUp, Finished:
	}
	return m, nil
}

// takeDown ends the process.
func (m Machine) takeDown(e Condemned) (Machine, []Action) {
	m.State, m.Awaits, m.Final, m.Placed = Stopping, Removal, e.Final, e.Placed
	m, actions := m.disarm()
	return m, append(actions, TakeDown{})
}

// takenDown continues after an end by policy as after an exit, unless the process was condemned for good.
func (m Machine) takenDown(p Policy, e TakenDown, now time.Duration) (Machine, []Action) {
	final := m.Final && (p.keepsAlive() || p.runsByTimetable())
	m.Final = false
	switch {
	case e.Alive:
		left := m.Pending // the run that replaces this one
		m.Pending = false
		m, actions := m.running(p)
		if left {
			actions = append(actions, Skip{})
		}
		return m, actions
	case final:
		m.Pending = false
		return m.giveUp()
	}
	return m.afterEnd(p, Exited{}, now)
}

func (m Machine) launch(p Policy, now time.Duration) (Machine, []Action) {
	m.State, m.Pending = Starting, false
	if p.keepsAlive() {
		m.Attempts++
	}
	m.LaunchedAt, m.RetryAt = now, 0
	m, actions := m.disarm()
	m, relaunch := m.relaunch(p)
	return m, append(actions, relaunch...)
}

// relaunch asks for the start command as soon as the server has sent its records.
func (m Machine) relaunch(p Policy) (Machine, []Action) {
	if p.Unconfirmed {
		m.Awaits = Confirmation
		return m, nil
	}
	r := Relaunch{Placed: m.Placed, Resumed: m.Resumed}
	m.Awaits, m.Placed, m.Resumed = Launch, false, false
	return m, []Action{r}
}

// heldBack waits for a place in the budget of the host; the relaunch was not tried and does not count.
func (m Machine) heldBack(e HeldBack, now time.Duration) (Machine, []Action) {
	if e.Until <= now {
		return m, []Action{Relaunch{Placed: true}} // its time came while the answer was on its way
	}
	m.Attempts = max(m.Attempts-1, 0)
	m.RetryAt, m.Placed = e.Until, true
	m, actions := m.wait(now)
	m.Awaits = Budget
	return m, actions
}

// awaitOrder waits for the processes that this one is after; the relaunch was not tried and does not count.
func (m Machine) awaitOrder(p Policy) (Machine, []Action) {
	if !p.keepsAlive() {
		return m, nil // a run by a timetable waits for nobody
	}
	m.Attempts = max(m.Attempts-1, 0)
	m.State, m.Awaits = Backoff, Order
	return m.disarm()
}

// putOff waits until the relaunch may be tried; it was not tried and does not count. A run by a timetable is over.
func (m Machine) putOff(p Policy, e PutOff, now time.Duration) (Machine, []Action) {
	if !p.keepsAlive() {
		return m.afterEnd(p, Exited{}, now)
	}
	m.Attempts = max(m.Attempts-1, 0)
	m.RetryAt = e.Until
	return m.wait(now)
}

func (m Machine) wait(now time.Duration) (Machine, []Action) {
	m.State, m.Awaits, m.Armed = Backoff, Nothing, Retry
	return m, []Action{Arm{Timer: Retry, After: m.RetryAt - now}}
}

func (m Machine) giveUp() (Machine, []Action) {
	m, actions := m.rest(GivenUp)
	return m, append(actions, GiveUp{})
}

func (m Machine) rest(s State) (Machine, []Action) {
	m.State, m.Awaits, m.RetryAt, m.Pending, m.Placed = s, Nothing, 0, false, false
	return m.disarm()
}

func (m Machine) disarm() (Machine, []Action) {
	if m.Armed == NoTimer {
		return m, nil
	}
	m.Armed = NoTimer
	return m, []Action{Disarm{}}
}
