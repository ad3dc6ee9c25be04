package lifecycle

import "time"

// Step returns the machine after the event and what must be done about it. now is the time since boot. An event that
// means nothing in the present state changes nothing.
func (m Machine) Step(p Policy, ev Event, now time.Duration) (Machine, []Action) {
	if _, ok := ev.(Began); ok {
		return m.begin()
	}
	switch m.State {
	case Operating:
		if e, ok := ev.(Ended); ok {
			return m.operated(p, e, now)
		}
	case Unknown:
		switch ev.(type) {
		case Found:
			return m.running(p)
		case NotFound:
			return m.gone(p, now)
		}
	case Starting:
		switch ev.(type) {
		case Launched:
			return m.running(p)
		case LaunchFailed:
			return m.gone(p, now)
		}
	case Running:
		switch e := ev.(type) {
		case Exited, NotFound:
			return m.gone(p, now)
		case Found:
			return m.running(p) // another instance than the one that is watched
		case Fired:
			if e.Timer == m.Armed && e.Timer == Healthy {
				m.Armed, m.Attempts = NoTimer, 0
			}
		}
	case Backoff:
		switch e := ev.(type) {
		case Found:
			return m.running(p)
		case Fired:
			if e.Timer == m.Armed && e.Timer == Retry {
				return m.launch(now)
			}
		}
	case Stopped, GivenUp:
		if _, ok := ev.(Found); ok {
			return m.running(p)
		}
	}
	return m, nil
}

// begin suspends everything but the memory of what was planned.
func (m Machine) begin() (Machine, []Action) {
	if m.State == Operating {
		return m, nil
	}
	m.State, m.Awaits = Operating, Operation
	return m.disarm()
}

// operated takes up the watch again after an operation. A relaunch that was due at a later time stays due then.
func (m Machine) operated(p Policy, e Ended, now time.Duration) (Machine, []Action) {
	if e.Restore {
		m.Attempts, m.RetryAt = 0, 0
	}
	switch {
	case e.Alive:
		return m.running(p)
	case !p.keepsAlive():
		return m.rest(Stopped)
	case m.Attempts >= p.Retries:
		return m.rest(GivenUp)
	}
	if m.RetryAt <= now {
		m.RetryAt = now + p.Interval
	}
	return m.wait(now)
}

// running watches a process that is proven alive.
func (m Machine) running(p Policy) (Machine, []Action) {
	m.State, m.Awaits, m.RetryAt = Running, Nothing, 0
	if m.Attempts > 0 {
		m.Armed = Healthy
		return m, []Action{Watch{}, Arm{Timer: Healthy, After: p.HealthyAfter}}
	}
	m, disarm := m.disarm()
	return m, append([]Action{Watch{}}, disarm...)
}

// gone decides what becomes of a process that has ended by itself: the first relaunch is at once, the others are at
// least the interval apart.
func (m Machine) gone(p Policy, now time.Duration) (Machine, []Action) {
	switch {
	case !p.keepsAlive():
		return m.rest(Stopped)
	case m.Attempts >= p.Retries:
		m, actions := m.rest(GivenUp)
		return m, append(actions, GiveUp{})
	case m.RetryAt > now:
		return m.wait(now)
	case m.Attempts == 0:
		return m.launch(now)
	}
	if m.RetryAt = m.LaunchedAt + p.Interval; m.RetryAt <= now {
		return m.launch(now)
	}
	return m.wait(now)
}

func (m Machine) launch(now time.Duration) (Machine, []Action) {
	m.State, m.Awaits = Starting, Launch
	m.Attempts++
	m.LaunchedAt, m.RetryAt = now, 0
	m, actions := m.disarm()
	return m, append(actions, Relaunch{})
}

func (m Machine) wait(now time.Duration) (Machine, []Action) {
	m.State, m.Awaits, m.Armed = Backoff, Nothing, Retry
	return m, []Action{Arm{Timer: Retry, After: m.RetryAt - now}}
}

func (m Machine) rest(s State) (Machine, []Action) {
	m.State, m.Awaits, m.RetryAt = s, Nothing, 0
	return m.disarm()
}

func (m Machine) disarm() (Machine, []Action) {
	if m.Armed == NoTimer {
		return m, nil
	}
	m.Armed = NoTimer
	return m, []Action{Disarm{}}
}
