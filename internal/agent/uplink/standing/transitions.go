package standing

import (
	"cmp"
	"slices"
	"strings"
)

// Transition is one change from a state to another, found by walking the machine.
type Transition struct {
	From, To State
	// Event names the event; Note gives the actions.
	Event string
	Note  string
}

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
	seen := map[Machine]bool{first: true}
	for queue := []Machine{first}; len(queue) > 0; queue = queue[1:] {
		for _, ev := range events() {
			after, actions := queue[0].Step(ev)
			fn(queue[0], ev, after, actions)
			if !seen[after] {
				seen[after] = true
				queue = append(queue, after)
			}
		}
	}
}

// Transitions returns every change of state that the machine can make, sorted; docs/states.md is generated from it.
func Transitions() []Transition {
	var list []Transition
	walk(func(before Machine, ev Event, after Machine, actions []Action) {
		t := Transition{From: before.State, To: after.State, Event: eventName(ev), Note: actionNames(actions)}
		if before.State != after.State && !slices.Contains(list, t) {
			list = append(list, t)
		}
	})
	order := States()
	slices.SortFunc(list, func(a, b Transition) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.From), slices.Index(order, b.From)),
			cmp.Compare(a.Event, b.Event),
			cmp.Compare(slices.Index(order, a.To), slices.Index(order, b.To)),
			cmp.Compare(a.Note, b.Note),
		)
	})
	return list
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
