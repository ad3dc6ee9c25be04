package linkstate

// Step returns the machine after the event, and the actions to perform. An event without a meaning in the present
// state changes nothing.
func (m Machine) Step(ev Event) (Machine, []Action) {
	switch e := ev.(type) {
	case Connected:
		m.State, m.Sent = Linked, false
		m, actions := m.linked()
		return m, append(actions, Introduce{})
	case Lost:
		m.State, m.Sent = Offline, false
	case Outdated:
		return m.outdated()
	case Sent:
		m.Sent = m.MustIntroduce()
	case Accepted:
		return m.accepted(e)
	case Refused:
		m.Sent = false
		if m.State == Estranged {
			m.State = Linked
		}
	case Rejected:
		return m.rejected(e)
	case Expired:
		if m.HoldsBack() && m.Hold != ForIdentity {
			m.Hold = Released
			return m, []Action{Release{Unconfirmed: true}}
		}
	}
	return m, nil
}

// linked gives the server time to answer. Only the first link counts: another one does not extend the wait.
func (m Machine) linked() (Machine, []Action) {
	if m.Hold != ForLink {
		return m, nil
	}
	m.Hold = ForAnswer
	return m, []Action{Arm{After: answerLimit}}
}

// outdated makes the agent introduce itself again. The server knows the agent meanwhile, so the agent still takes
// orders.
func (m Machine) outdated() (Machine, []Action) {
	m.Sent = false
	switch m.State {
	case Confirmed:
		m.State = Introduced
		return m, []Action{Introduce{}}
	case Linked, Introduced:
		return m, []Action{Introduce{}}
	case Offline, Estranged: // the next attempt is an introduction anyway
	}
	return m, nil
}

// accepted handles the server's acceptance of an introduction. An answer to an outdated introduction, or over an
// earlier link, does not change the state, but it still confirms the disk.
func (m Machine) accepted(e Accepted) (Machine, []Action) {
	var actions []Action
	if m.Sent && m.State != Offline {
		m.State = Confirmed
		if e.More {
			m.State = Introduced
			actions = append(actions, Introduce{})
		}
	}
	m.Sent = false
	if m.HoldsBack() && !e.More {
		m.Hold = Released
		actions = append(actions, Disarm{}, Release{})
	}
	return m, actions
}

// rejected handles the case that the server takes the agent for another host. The disk may then belong to another
// host.
func (m Machine) rejected(e Rejected) (Machine, []Action) {
	m.Sent = false
	if m.State != Offline {
		m.State = Estranged
	}
	switch {
	case !m.HoldsBack():
		return m, nil
	case e.Certain:
		m.Hold = ForIdentity
		return m, []Action{Disarm{}}
	}
	m.Hold = ForKeyHolder
	return m, []Action{Arm{After: keyHolderLimit}}
}
