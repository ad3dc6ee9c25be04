package task

import (
	"fmt"
	"strings"
	"time"

	"drover/internal/statemachine"
)

// Transitions walks the state machine from a new item over every event, and returns the changes, ordered by state and
// then as Events. A deadline event comes at the item's deadline. It leaves out pairs that change nothing.
func Transitions() []statemachine.Transition[State] {
	type moment struct {
		item Item
		now  time.Time
	}
	var rows []statemachine.Transition[State]
	start := time.Unix(0, 0).UTC()
	seen := map[State]bool{Pending: true}
	for queue := []moment{{New(start, 0), start}}; len(queue) > 0; {
		at := queue[0]
		queue = queue[1:]
		for _, e := range Events() {
			now := at.now.Add(time.Second)
			if _, ok := e.(Overdue); ok {
				now = at.item.Deadline
			}
			next := Next(at.item, e, now)
			if next == at.item {
				continue
			}
			rows = append(rows, statemachine.Transition[State]{
				From: at.item.State, Event: e.String(), To: next.State,
				Note: describeChange(at.item, next, now),
			})
			if !seen[next.State] {
				seen[next.State] = true
				queue = append(queue, moment{next, now})
			}
		}
	}
	return rows
}

// describeChange describes the difference between two items.
func describeChange(before, after Item, now time.Time) string {
	var notes []string
	if !after.Due.IsZero() && !after.Due.Equal(before.Due) {
		notes = append(notes, fmt.Sprintf("resent after %s", after.Due.Sub(now)))
	}
	if !after.Deadline.Equal(before.Deadline) {
		notes = append(notes, fmt.Sprintf("deadline: the agent's limit + %s", grace))
	}
	if after.Outcome != nil {
		outcome := string(after.Outcome.Fault)
		if outcome == "" {
			outcome = "as the agent says"
		}
		notes = append(notes, "outcome: "+outcome)
	}
	return strings.Join(notes, "; ")
}
