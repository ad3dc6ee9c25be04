package linkstate

import (
	"strings"

	"drover/internal/statemachine"
)

// events are all events with all their values.
func events() []Event {
	return []Event{
		Connected{},
		Lost{},
		Outdated{},
		Sent{},
		Accepted{},
		Accepted{More: true},
		Refused{},
		Rejected{},
		Rejected{Certain: true},
		Expired{},
	}
}

// walk calls fn for every event at every machine that is reachable from a new machine.
func walk(fn func(before Machine, ev Event, after Machine, actions []Action)) {
	first, _ := New()
	statemachine.Explore([]Machine{first}, func(m Machine) (following []Machine) {
		for _, ev := range events() {
			after, actions := m.Step(ev)
			fn(m, ev, after, actions)
			following = append(following, after)
		}
		return following
	})
}

// Transitions returns every change of state that the machine can make, sorted; docs/states.md is generated from it.
func Transitions() []statemachine.Transition[State] {
	var list []statemachine.Transition[State]
	walk(func(before Machine, ev Event, after Machine, actions []Action) {
		if before.State != after.State {
			list = append(list, statemachine.Transition[State]{
				From: before.State, To: after.State, Event: eventName(ev), Note: actionNames(actions),
			})
		}
	})
	return statemachine.Table(list, States())
}

func eventName(ev Event) string {
	switch e := ev.(type) {
	case Connected:
		return "connected"
	case Lost:
		return "link lost"
	case Outdated:
		return "introduction outdated"
	case Sent:
		return "introduction sent"
	case Accepted:
		return map[bool]string{false: "introduction accepted", true: "introduction accepted, server has more"}[e.More]
	case Refused:
		return "report refused"
	case Rejected:
		return map[bool]string{false: "identity in doubt", true: "identity rejected"}[e.Certain]
	case Expired:
		return "timer expired"
	}
	return ""
}

func actionNames(actions []Action) string {
	var names []string
	for _, a := range actions {
		switch a := a.(type) {
		case Introduce:
			names = append(names, "introduce the agent at once")
		case Arm:
			names = append(names, "wait for "+a.After.String()+" at most")
		case Disarm:
			names = append(names, "stop the timer")
		case Release:
			names = append(names, "begin what was held back")
		}
	}
	return strings.Join(names, ", ")
}
