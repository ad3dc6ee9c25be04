package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"drover/internal/process"
	"drover/internal/statemachine"
)

// visit is a machine at one step of the walk, with its policy and the time.
type visit struct {
	machine Machine
	policy  Policy
	now     time.Duration
}

// interval is the time between relaunches in the walk.
const interval = 10 * time.Second

// policies are the policies that the machine distinguishes.
func policies() []Policy {
	base := Policy{Retries: 2, Interval: interval, HealthyAfter: time.Minute}
	hosted, periodic, single := base, base, base
	hosted.Hosted, hosted.Kind = true, process.Resident
	periodic.Hosted, periodic.Kind = true, process.Periodic
	waiting, replacing, givenUp := periodic, periodic, periodic
	waiting.Overlap, replacing.Overlap, givenUp.GivenUp = process.OverlapWait, process.OverlapReplace, true
	single.Hosted, single.Kind = true, process.SingleRun
	unconfirmed, failing, never, finished, rested := hosted, hosted, hosted, hosted, hosted
	unconfirmed.Unconfirmed = true
	failing.When, failing.Factor, failing.MaxInterval = process.OnFailure, 2, time.Hour
	never.When, finished.When, finished.Finished = process.Never, process.OnFailure, true
	rested.GivenUp = true
	unready := hosted
	unready.Unready = true
	base.Kind = process.Resident
	return []Policy{
		base, hosted, periodic, waiting, replacing, givenUp, single, unconfirmed, failing, never, finished,
		rested, unready,
	}
}

// events are all events. eventName has their names in the documents.
func events() []Event {
	return []Event{
		Began{},
		Ended{},
		Ended{Alive: true},
		Ended{Restore: true},
		Ended{Alive: true, Restore: true},
		Ended{Restore: true, Now: true},
		Ended{Restore: true, Forbidden: true},
		Found{},
		NotFound{},
		Missed{},
		Seen{},
		CommandEnded{},
		Exited{},
		Exited{Success: true},
		Exited{Forbidden: true},
		Confirmed{},
		Checking{},
		Sweeping{},
		Swept{},
		Launched{},
		Readied{},
		LaunchFailed{},
		LaunchFailed{Forbidden: true},
		HeldBack{Until: 4 * interval},
		Held{},
		Freed{},
		PutOff{Until: 4 * interval},
		Due{},
		Condemned{},
		Condemned{Final: true},
		Condemned{Placed: true},
		TakenDown{},
		TakenDown{Alive: true},
		Fired{Timer: Retry},
		Fired{Timer: Healthy},
		Fired{},
	}
}

// walk calls fn for every event at every machine that is reachable from a new machine, under every policy.
func walk(fn func(before visit, ev Event, after Machine, actions []Action)) {
	var first []visit
	for _, p := range policies() {
		for attempts := range p.Retries + 1 {
			for _, retryAt := range []time.Duration{0, 2 * interval} {
				m, _ := New(attempts, 0, retryAt)
				first = append(first, visit{machine: m, policy: p, now: interval})
			}
		}
	}
	statemachine.Explore(first, func(v visit) (following []visit) {
		for _, ev := range events() {
			after, actions := v.machine.Step(v.policy, ev, v.now)
			fn(v, ev, after, actions)
			// Two moments are enough: within the interval after the last launch, and after it. The policy may change
			// with the end of an operation.
			for _, now := range []time.Duration{interval, 2 * interval, 3 * interval} {
				if now >= v.now {
					following = append(following, visit{machine: after, policy: v.policy, now: now})
				}
			}
		}
		return following
	})
}

// Transitions returns every change of state that the machine can make, sorted; docs/states.md is generated from it.
func Transitions() []statemachine.Transition[State] {
	var list []statemachine.Transition[State]
	walk(func(before visit, ev Event, after Machine, actions []Action) {
		if before.machine.State != after.State {
			list = append(list, statemachine.Transition[State]{
				From: before.machine.State, To: after.State, Event: eventName(ev), Note: actionNames(actions),
			})
		}
	})
	return statemachine.Table(list, States())
}

func eventName(ev Event) string {
	switch e := ev.(type) {
	case Ended:
		return fmt.Sprintf("operation ended, process %s", map[bool]string{true: "alive", false: "gone"}[e.Alive])
	case Fired:
		return string(e.Timer) + " timer fired"
	case Began:
		return "operation began"
	case Found:
		return "found alive"
	case NotFound:
		return "not found"
	case Missed:
		return "missed by a look"
	case Seen:
		return "seen"
	case CommandEnded:
		return "command of the run ended"
	case Exited:
		return "exited"
	case Confirmed:
		return "confirmed by the server"
	case Checking:
		return "command of the operation ended"
	case Sweeping:
		return "leftovers are being ended"
	case Swept:
		return "leftovers ended"
	case Launched:
		return "relaunch succeeded"
	case Readied:
		return "ready"
	case LaunchFailed:
		return "relaunch failed"
	case HeldBack:
		return "held back by the budget of the host"
	case Held:
		return "held by the order of processes"
	case Freed:
		return "what it is after is up"
	case PutOff:
		return "put off"
	case Due:
		return "run due"
	case Condemned:
		return map[bool]string{false: "condemned", true: "condemned for good"}[e.Final]
	case TakenDown:
		return fmt.Sprintf("taken down, process %s", map[bool]string{true: "alive", false: "gone"}[e.Alive])
	}
	return fmt.Sprintf("%T", ev)
}

func actionNames(actions []Action) string {
	var names []string
	for _, a := range actions {
		switch a := a.(type) {
		case Look:
			names = append(names, "look")
		case Watch:
			names = append(names, "watch")
		case Relaunch:
			names = append(names, "run the start command")
		case Arm:
			names = append(names, "arm the "+string(a.Timer)+" timer")
		case Disarm:
			names = append(names, "disarm the timer")
		case GiveUp:
			names = append(names, "remember that it was given up")
		case Finish:
			names = append(names, "remember that it has finished")
		case TakeDown:
			names = append(names, "end the process and its tree")
		case Skip:
			names = append(names, "leave the run out")
		}
	}
	return strings.Join(names, ", ")
}
