package task_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
	"drover/internal/server/task"
	"drover/internal/statemachine"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestWalk visits every item reachable by up to six events, each event early and at the deadline, and checks the
// promises that hold for all of them.
func TestWalk(t *testing.T) {
	type node struct {
		item task.Item
		now  time.Time
	}
	level := []node{{task.New(epoch, 0), epoch}}
	states := map[task.State]bool{}
	for range 6 {
		var next []node
		for _, n := range level {
			states[n.item.State] = true
			if end := task.Next(n.item, task.Overdue{}, n.item.Deadline); end.State != task.Done {
				t.Fatalf("%+v: its deadline does not end it", n.item)
			}
			for _, e := range task.Events() {
				for _, now := range []time.Time{n.now.Add(time.Second), n.item.Deadline} {
					after := task.Next(n.item, e, now)
					check(t, n.item, e, now, after)
					next = append(next, node{after, now})
				}
			}
		}
		level = distinct(next, func(n node) any {
			return [3]any{n.item.State, n.item.Attempts, n.item.Outcome == nil}
		})
	}
	for _, s := range task.States() {
		if !states[s] {
			t.Errorf("state %v was never reached", s)
		}
	}
}

func check(t *testing.T, before task.Item, e task.Event, now time.Time, after task.Item) {
	t.Helper()
	fail := func(why string) { t.Helper(); t.Errorf("%+v --%v--> %+v: %s", before, e, after, why) }
	switch {
	case after.State < before.State:
		fail("the state fell")
	case before.State == task.Done && after != before:
		fail("a final item changed")
	case (after.State == task.Done) != (after.Outcome != nil):
		fail("done and outcome disagree")
	case after.State != task.Done && after.Deadline.IsZero():
		fail("nothing can end it")
	case after.State <= task.Sent && after.Due.IsZero():
		fail("nothing will send it")
	case after.State > task.Sent && !after.Due.IsZero():
		fail("it would be sent again")
	case after.Outcome != nil && after.Outcome.Fault != process.None && after.Outcome.Text == "":
		fail("a failure without a text")
	}
	if _, ok := e.(task.Overdue); ok && now.Before(before.Deadline) && after != before {
		fail("it ended before its deadline")
	}
}

func distinct[T any](all []T, key func(T) any) []T {
	seen := map[any]bool{}
	var out []T
	for _, v := range all {
		if k := key(v); !seen[k] {
			seen[k] = true
			out = append(out, v)
		}
	}
	return out
}

func TestEventsHoldsEveryType(t *testing.T) {
	var got []string
	for _, e := range distinct(task.Events(), func(e task.Event) any { return reflect.TypeOf(e) }) {
		got = append(got, reflect.TypeOf(e).Name())
	}
	want := []string{"Unheard", "Absent", "Received", "Refused", "Unreachable", "Began", "Finished", "Cancelled", "Overdue"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestNext(t *testing.T) {
	success := process.Outcome{Text: process.Success}
	unavailable := func(more string) *process.Outcome {
		return &process.Outcome{Fault: process.AgentUnavailable, Text: "agent not found or offline" + more}
	}
	at := func(d time.Duration) time.Time { return epoch.Add(d) }
	wait := at(10 * time.Minute)
	tests := []struct {
		name  string
		state task.State
		event task.Event
		now   time.Time
		want  task.Item
	}{
		{
			"no receipt", task.Pending,
			task.Unheard{},
			at(5 * time.Second),
			task.Item{State: task.Sent, Attempts: 1, Due: at(6 * time.Second), Deadline: wait},
		},
		{
			"no receipt to a resend, receipt by report", task.Begun,
			task.Unheard{},
			at(5 * time.Second),
			task.Item{State: task.Begun, Deadline: wait},
		},
		{
			"nobody there yet", task.Pending,
			task.Absent{},
			at(5 * time.Second),
			task.Item{State: task.Pending, Due: at(5500 * time.Millisecond), Deadline: wait},
		},
		{
			"begun before the receipt", task.Sent,
			task.Began{Limit: time.Minute},
			at(time.Second),
			task.Item{State: task.Begun, Deadline: at(76 * time.Second)},
		},
		{
			"begun once more", task.Begun,
			task.Began{Limit: time.Hour},
			at(time.Second),
			task.Item{State: task.Begun, Deadline: wait},
		},
		{
			"begun with an absurd limit", task.Sent,
			task.Began{Limit: 1000 * time.Hour},
			epoch,
			task.Item{State: task.Begun, Deadline: at(24*time.Hour + 15*time.Second)},
		},
		{
			"begun with a negative limit", task.Sent,
			task.Began{Limit: -time.Hour},
			epoch,
			task.Item{State: task.Begun, Deadline: at(15 * time.Second)},
		},
		{
			"receipt after begun", task.Begun,
			task.Received{},
			at(time.Second),
			task.Item{State: task.Begun, Deadline: wait},
		},
		{
			"outcome at once", task.Pending,
			task.Finished{Outcome: success},
			at(time.Second),
			task.Item{State: task.Done, Deadline: wait, Outcome: &success},
		},
		{
			"refused", task.Sent,
			task.Refused{Reason: "needs root"},
			epoch,
			task.Item{State: task.Done, Deadline: wait, Outcome: &process.Outcome{
				Fault: process.Failed,
				Text:  "needs root",
			}},
		},
		{
			"receipt of what was to be taken soon", task.Sent,
			task.Received{Until: wait.Add(time.Minute)},
			at(time.Second),
			task.Item{State: task.Accepted, Deadline: wait.Add(time.Minute)},
		},
		{
			"receipt with an earlier end", task.Sent,
			task.Received{Until: at(time.Minute)},
			at(time.Second),
			task.Item{State: task.Accepted, Deadline: wait},
		},
		{
			"receipt once more", task.Accepted,
			task.Received{Until: wait.Add(time.Minute)},
			at(time.Second),
			task.Item{State: task.Accepted, Deadline: wait},
		},
		{
			"nobody there", task.Pending,
			task.Unreachable{},
			epoch,
			task.Item{State: task.Done, Deadline: wait, Outcome: unavailable("")},
		},
		{"nobody there any more", task.Sent, task.Unreachable{}, epoch, task.Item{
			State: task.Done, Deadline: wait,
			Outcome: unavailable(
				": it was sent the operation and has not answered; it may have begun, and never begins later"),
		}},
		{
			"nobody there, but accepted meanwhile", task.Accepted,
			task.Unreachable{},
			epoch,
			task.Item{State: task.Accepted, Deadline: wait},
		},
		{
			"overdue, away", task.Begun,
			task.Overdue{Away: true},
			wait,
			task.Item{State: task.Done, Deadline: wait, Outcome: unavailable(": it had begun")},
		},
		{
			"overdue, taken, away", task.Accepted,
			task.Overdue{Away: true},
			wait,
			task.Item{
				State: task.Done, Deadline: wait,
				Outcome: unavailable(": it has taken the operation, and may have begun"),
			},
		},
		{"overdue, never answered", task.Sent, task.Overdue{}, wait, task.Item{
			State: task.Done, Deadline: wait,
			Outcome: unavailable(
				": it was sent the operation and has not answered; it may have begun, and never begins later"),
		}},
		{
			"overdue, there", task.Begun,
			task.Overdue{},
			wait,
			task.Item{State: task.Done, Deadline: wait, Outcome: &process.Outcome{
				Fault: process.Failed,
				Text:  "no result by 2026-01-02T03:14:05Z",
			}},
		},
		{
			"looked at too early", task.Begun,
			task.Overdue{},
			at(time.Minute),
			task.Item{State: task.Begun, Deadline: wait},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			it := task.New(epoch, 0)
			it.State = tt.state
			if it.State > task.Sent {
				it.Due = time.Time{}
			}
			got := task.Next(it, tt.event, tt.now)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestResendBacksOff(t *testing.T) {
	it := task.New(epoch, 0)
	var waits []time.Duration
	for now := epoch; len(waits) < 6; now = it.Due {
		it = task.Next(it, task.Unheard{}, now)
		waits = append(waits, it.Due.Sub(now)/time.Second)
	}
	if d := cmp.Diff([]time.Duration{1, 2, 4, 8, 10, 10}, waits); d != "" {
		t.Error(d)
	}
	it.Attempts = 1 << 40
	if got := task.Next(it, task.Unheard{}, epoch).Due; !got.Equal(epoch.Add(10 * time.Second)) {
		t.Errorf("after very many attempts it is due at %v", got)
	}
}

func TestWords(t *testing.T) {
	var got []string
	for _, s := range append(task.States(), task.State(9)) {
		got = append(got, s.String())
	}
	if d := cmp.Diff([]string{"pending", "sent", "accepted", "begun", "done", "state 9"}, got); d != "" {
		t.Error(d)
	}
}

func TestTransitions(t *testing.T) {
	rows := task.Transitions()
	leaves := map[task.State]bool{}
	for _, r := range rows {
		leaves[r.From] = true
		if r.To < r.From {
			t.Errorf("%+v falls", r)
		}
	}
	for _, s := range task.States() {
		if want := s != task.Done; leaves[s] != want {
			t.Errorf("%v has rows: %v, want %v", s, leaves[s], want)
		}
	}
	want := statemachine.Transition[task.State]{
		From: task.Accepted, Event: "deadline, agent away", To: task.Done,
		Note: "outcome: agent-unavailable",
	}
	if !slices.Contains(rows, want) {
		t.Errorf("%+v is missing in %+v", want, rows)
	}
}
