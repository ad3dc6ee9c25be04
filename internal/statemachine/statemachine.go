// Package statemachine walks pure state machines, for their tests and for docs/states.md.
package statemachine

import (
	"cmp"
	"slices"
)

// Transition is one change from a state to another, found by walking a machine.
type Transition[S comparable] struct {
	From, To S
	// Event names the event; Note gives the condition and the actions, or is empty.
	Event, Note string
}

// Explore calls visit once for each value that is reachable from first. visit returns the values that follow its own.
// Explore returns when nothing new follows: the values must be finitely many.
func Explore[V comparable](first []V, visit func(V) (following []V)) {
	seen := map[V]bool{}
	for queue := first; len(queue) > 0; queue = queue[1:] {
		if !seen[queue[0]] {
			seen[queue[0]] = true
			queue = append(queue, visit(queue[0])...)
		}
	}
}

// Table sorts transitions by state, in the order of states, and then by event. It drops repeated ones.
func Table[S comparable](list []Transition[S], states []S) []Transition[S] {
	slices.SortFunc(list, func(a, b Transition[S]) int {
		return cmp.Or(
			cmp.Compare(slices.Index(states, a.From), slices.Index(states, b.From)),
			cmp.Compare(a.Event, b.Event),
			cmp.Compare(slices.Index(states, a.To), slices.Index(states, b.To)),
			cmp.Compare(a.Note, b.Note),
		)
	})
	return slices.Compact(list)
}
