package linkstate

import (
	"slices"
	"testing"
	"time"
)

// history is what has happened, as far as the rules speak of it. The test keeps it apart from the machine.
type history struct {
	// up tells that there is a link, known that the server has accepted an introduction which was sent over this link,
	// and has not taken that back.
	up, known bool
	// sent tells that an introduction was sent over this link and has no answer, covers that nothing has asked for
	// another one since.
	sent, covers bool
	// owed tells that the agent has to introduce itself: the last introduction that was accepted is not all.
	owed bool
	// armed is how long the timer was set to, 0 without one. released tells that work was released, copied that the
	// server's last word was that another host owns the key.
	armed            time.Duration
	released, copied bool
}

// after returns the history after an event and the actions that the machine has answered it with.
func (h history) after(ev Event, actions []Action) history {
	switch e := ev.(type) {
	case Connected:
		h.up, h.known, h.sent, h.covers, h.owed = true, false, false, false, true
	case Lost:
		h.up, h.known, h.sent, h.covers, h.owed = false, false, false, false, true
	case Outdated:
		h.covers, h.owed = false, true
	case Sent:
		h.sent, h.covers = h.up, true
	case Accepted:
		if h.sent && h.covers {
			h.known, h.owed = true, e.More
		}
		h.sent, h.covers = false, false
	case Refused:
		h.sent, h.covers = false, false
	case Rejected:
		h.known, h.sent, h.covers, h.owed, h.copied = false, false, false, true, e.Certain
	case Expired:
		h.armed = 0
	}
	for _, a := range actions {
		switch a := a.(type) {
		case Arm:
			h.armed = a.After
		case Disarm:
			h.armed = 0
		case Release:
			h.released = true
		}
	}
	return h
}

// lived is a machine with its history.
type lived struct {
	machine Machine
	history history
}

// live calls fn for every event at every reachable machine with every history that leads there.
func live(fn func(before lived, ev Event, after lived, actions []Action)) {
	m, actions := New()
	first := lived{m, history{owed: true}.after(nil, actions)}
	seen := map[lived]bool{first: true}
	for queue := []lived{first}; len(queue) > 0; queue = queue[1:] {
		for _, ev := range events() {
			before := queue[0]
			if _, sent := ev.(Sent); sent && !before.machine.MustIntroduce() {
				continue // the reporter introduces the agent if the machine says so
			}
			m, actions := before.machine.Step(ev)
			after := lived{m, before.history.after(ev, actions)}
			fn(before, ev, after, actions)
			if !seen[after] {
				seen[after] = true
				queue = append(queue, after)
			}
		}
	}
}

// TestRulesOfStanding walks every state under every event and checks the rules against the history.
func TestRulesOfStanding(t *testing.T) {
	reached, steps := map[State]int{}, 0
	live(func(before lived, ev Event, after lived, actions []Action) {
		steps++
		m, h := after.machine, after.history
		reached[m.State]++
		wrong := func(rule string) { t.Errorf("%+v --%T--> %+v, %v: %s", before, ev, after, actions, rule) }
		if m.TakesOrders() && (!h.up || !h.known) {
			wrong("orders are taken from a server that has not accepted the agent over this link")
		}
		if !m.MustIntroduce() && (!h.known || h.owed) {
			wrong("a report leaves before the introduction that is due")
		}
		if h.up != (m.State != Offline) {
			wrong("the link is not what the state says")
		}
		if m.HoldsBack() == h.released {
			wrong("work is held back after it was released, or begins before")
		}
		if m.HoldsBack() != (h.armed > 0) && m.Hold != ForIdentity {
			wrong("no timer ends the wait, or a timer is left")
		}
		if m.Hold == ForIdentity && h.armed > 0 {
			wrong("a timer ends the wait of a copy")
		}
	})
	for _, s := range States() {
		if reached[s] == 0 {
			t.Errorf("state %s is never reached", s)
		}
	}
	t.Logf("%d steps walked", steps)
}

// TestReleaseIsOnce: work is released once in a life, by the server's word or by a timer, and never to a copy by a
// timer.
func TestReleaseIsOnce(t *testing.T) {
	live(func(before lived, ev Event, after lived, actions []Action) {
		n := 0
		for _, a := range actions {
			r, ok := a.(Release)
			if !ok {
				continue
			}
			n++
			switch ev.(type) {
			case Accepted:
				if r.Unconfirmed || ev == (Accepted{More: true}) {
					t.Errorf("%+v --%T--> %v: the server has spoken, and said all", before, ev, actions)
				}
			case Expired:
				if before.history.copied || !r.Unconfirmed {
					t.Errorf("%+v --%T--> %v: the timer decides for a copy, or passes for the server", before, ev,
						actions)
				}
			default:
				t.Errorf("%+v --%T--> %v: nothing has ended the wait", before, ev, actions)
			}
		}
		if before.history.released && n > 0 || n > 1 {
			t.Errorf("%+v --%T--> %v: released again", before, ev, actions)
		}
	})
}

// TestNoStateIsATrap: from everywhere a link, an introduction and its acceptance lead to confirmed, with nothing held
// back.
func TestNoStateIsATrap(t *testing.T) {
	walk(func(_ Machine, _ Event, m Machine, _ []Action) {
		before := m
		for _, ev := range []Event{Connected{}, Sent{}, Accepted{}} {
			m, _ = m.Step(ev)
		}
		if m.State != Confirmed || m.HoldsBack() {
			t.Errorf("%+v leads to %+v", before, m)
		}
	})
}

// TestIntroducedAtOnce: whatever makes another introduction due asks for it at once, unless there is nobody who would
// accept it.
func TestIntroducedAtOnce(t *testing.T) {
	walk(func(before Machine, ev Event, after Machine, actions []Action) {
		var due bool
		switch ev.(type) {
		case Connected:
			due = true
		case Outdated:
			due = after.State != Offline && after.State != Estranged
		case Accepted:
			due = after.State == Introduced && before.Sent
		}
		if due && !slices.Contains(actions, Action(Introduce{})) {
			t.Errorf("%+v --%T--> %+v: nobody is asked to introduce the agent", before, ev, after)
		}
	})
}

// TestTheServerTakesARejectionBack: an answer that is a plain refusal, and an acceptance, end it.
func TestTheServerTakesARejectionBack(t *testing.T) {
	for ev, want := range map[Event]State{Refused{}: Linked, Accepted{}: Confirmed, Accepted{More: true}: Introduced} {
		m := Machine{State: Estranged, Sent: true, Hold: Released}
		if m, _ = m.Step(ev); m.State != want {
			t.Errorf("%T leads to %+v, want %s", ev, m, want)
		}
	}
}

// TestAnswersOfBefore: an answer to an introduction that left over another link accepts nothing over the present one.
func TestAnswersOfBefore(t *testing.T) {
	m, _ := New()
	for _, ev := range []Event{Connected{}, Sent{}, Lost{}, Connected{}, Accepted{}} {
		m, _ = m.Step(ev)
	}
	if m.State != Linked || m.HoldsBack() {
		t.Errorf("%+v: want %s, and the server's word on the disk", m, Linked)
	}
}
