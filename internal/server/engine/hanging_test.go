//nolint:thelper // what runs in a bubble is the test itself
package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/engine"
	"drover/internal/server/store"
	"drover/internal/server/task"
	"drover/internal/wire"
)

// some is a link to agents of which some hang.
func (r *rig) some(hanging ...string) {
	r.hang(true, hanging...)
	r.answer(func(ctx context.Context, agent string, m *wire.Manifest) (*wire.Receipt, error) {
		if slices.Contains(hanging, agent) {
			return silence(ctx, agent, m)
		}
		return accept(ctx, agent, m)
	})
}

// TestHostThatHangs: an agent that answers neither an order nor a ping is given up within 10 s, the next operation
// within 5 s; others are not held up, and it is away at once.
func TestHostThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.pass(time.Hour)
		r.report("agent-0", wire.Report{Hello: &wire.Hello{IP: "10.0.0.0"}})
		r.some("agent-0")
		r.submit("t", process.Restart, "agent-0", "agent-1")
		for _, m := range r.taken() {
			if m.Agent == "agent-1" {
				r.finish("agent-1", m.Orders[0].Item)
			}
		}
		r.shows("t", "", process.Success)
		r.pass(4500 * time.Millisecond)
		if !r.directory.Presence("agent-0", time.Now()).Away {
			t.Error("an agent that has missed an order is there")
		}
		r.shows("t", "", process.Success)
		r.pass(5500 * time.Millisecond)
		r.shows("t", unanswered, process.Success)
		if n := len(r.taken()); n != 0 {
			t.Errorf("it was sent %d times more without having answered a ping", n)
		}

		r.submit("next", process.Restart, "agent-0")
		r.pass(5 * time.Second)
		r.shows("next", unavailable)
		r.pass(time.Minute)
		r.submit("later", process.Restart, "agent-0")
		r.pass(time.Second)
		r.shows("later", unavailable)
		if n := len(r.taken()); n != 0 {
			t.Errorf("an agent that answers no ping was sent %d manifests", n)
		}
	})
}

// TestBehindAnOperationOfAHostThatHangs: an operation that waits for an older one fails within 10 s and never begins.
// The older one is cancelled, or under way. On a host that is there it waits.
func TestBehindAnOperationOfAHostThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.pass(time.Hour)
		for _, agent := range []string{"agent-0", "agent-1", "agent-2"} {
			r.report(agent, wire.Report{Hello: &wire.Hello{IP: "10.0.0." + agent[6:]}})
		}
		r.answer(takesCancels)
		r.submit("begun", process.Restart, "agent-0", "agent-1")
		for _, m := range r.taken() {
			r.progress(m.Agent, wire.Progress{Item: m.Orders[0].Item, Limit: 600})
		}
		r.some("agent-0", "agent-2")
		r.submit("cancelled", process.Restart, "agent-2")
		r.pass(time.Second)
		r.cancel("cancelled", store.CancelCounts{Asked: 1})
		r.submit("sure", process.Query, "agent-0") // shows that the agent hangs
		r.pass(14 * time.Second)
		r.submit("next", process.Restart, "agent-0", "agent-1", "agent-2")
		r.pass(10 * time.Second)
		r.shows("next", unavailable, "", unavailable)
		r.taken()
		r.hang(false, "agent-0", "agent-2")
		r.answer(takesCancels)
		r.pass(30 * time.Second)
		for _, m := range r.taken() {
			if len(m.Orders) > 0 {
				t.Errorf("%s was sent %+v", m.Agent, m.Orders)
			}
		}
	})
}

// TestHostThatComesBack: one that was still for less than that is sent the same again, and has lost nothing.
func TestHostThatComesBack(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.pass(time.Hour)
		r.report("agent-0", wire.Report{Hello: &wire.Hello{IP: "10.0.0.0"}})
		r.some("agent-0")
		r.submit("t", process.Restart, "agent-0")
		first := r.takenOne()
		r.pass(6 * time.Second)
		r.hang(false, "agent-0")
		r.answer(accept)
		r.pass(2 * time.Second)
		if again := r.takenOne(); again.Item != first.Item {
			t.Errorf("%s was sent, and before that %s", again.Item, first.Item)
		}
		r.finish("agent-0", first.Item)
		r.shows("t", process.Success)
	})
}

// TestSlowHost: one that gives no receipt and answers pings is waited for: its disk hangs, and what it will have taken
// it carries out.
func TestSlowHost(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.pass(time.Hour)
		r.report("agent-0", wire.Report{Hello: &wire.Hello{IP: "10.0.0.0"}})
		r.answer(silence)
		r.submit("t", process.Restart, "agent-0")
		for range 10 {
			r.pass(5 * time.Second)
			r.report("agent-0", wire.Report{})
		}
		r.shows("t", "")
		if n := len(r.taken()); n < 5 {
			t.Errorf("it was sent %d times in 50 s", n)
		}
		if r.directory.Presence("agent-0", time.Now()).Away {
			t.Error("it is away")
		}
	})
}

// TestServerThatHasJustStarted: it gives up nobody in its first seconds, however they hang.
func TestServerThatHasJustStarted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.some("agent-0")
		r.submit("t", process.Restart, "agent-0")
		r.pass(14 * time.Second)
		r.shows("t", "")
		r.pass(4 * time.Second)
		r.shows("t", unavailable)
	})
}

// TestNoOrderBeginsAfterItsEnd: whenever an item is given up, what was sent of it may begin unasked for no longer, by a
// second at least; and whoever asks is told that it is at its end. One that is not given up is noted as taken when the
// agent asks, and is given up no more.
func TestNoOrderBeginsAfterItsEnd(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Second, 2500 * time.Millisecond, 6 * time.Second} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.pass(time.Hour)
				for _, a := range []string{"agent-0", "agent-1"} {
					r.report(a, wire.Report{Hello: &wire.Hello{IP: "10.0.0." + a[6:]}})
				}
				r.some("agent-0", "agent-1")
				request := store.Request{
					Op: process.Start, Process: process.ID{Namespace: "ns", Name: "nginx"},
					Spec: &process.Spec{},
				}
				for _, a := range []string{"agent-0", "agent-1"} {
					request.Targets = append(request.Targets, store.Target{ItemKey: a, Spelling: a, Agent: a})
				}
				asked := time.Now()
				if err := r.Submit(t.Context(), &store.Task{
					ID: "t", Requests: []store.Request{request},
					HostTimeout: limit,
				}, store.AuditRow{At: asked}); err != nil {
					t.Fatal(err)
				}
				items, last := map[string]string{}, time.Time{}
				for _, m := range r.taken() {
					items[m.Agent] = m.Orders[0].Item
					if m.Unasked.After(last) {
						last = m.Unasked
					}
				}
				// One of them took it and was then cut off: it asks in time.
				if ack := r.report("agent-1", wire.Report{Open: []string{items["agent-1"]}}); len(ack.Ended) > 0 ||
					ack.At != time.Now().UnixMilli() {
					t.Errorf("what is wanted was answered with %+v", ack)
				}
				for r.open("t", "agent-0") {
					r.pass(100 * time.Millisecond)
				}
				if after := time.Since(last); after < time.Second {
					t.Errorf("it was given up %v after it might have begun", after)
				}
				want := 10 * time.Second
				if limit > 0 {
					want = limit + 100*time.Millisecond
				}
				if took := time.Since(asked); took > want {
					t.Errorf("it was given up after %v", took)
				}
				r.shows("t", unanswered, "")
				if ack := r.report("agent-0",
					wire.Report{Open: []string{items["agent-0"], items["agent-1"], "0-0"}}); !slices.Equal(ack.Ended,
					[]string{items["agent-0"], items["agent-1"], "0-0"}) {
					t.Errorf("what is ended, another's, or nobody's was answered with %+v", ack)
				}
				r.pass(task.WaitLimit / 2)
				r.shows("t", unanswered, "")
				r.finish("agent-1", items["agent-1"])
				r.shows("t", unanswered, process.Success)
			})
		})
	}
}

// TestHostTimeoutOfWhatWasTaken: it bounds the way to the host, not the work there.
func TestHostTimeoutOfWhatWasTaken(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.pass(time.Hour)
		request := store.Request{
			Op: process.Start, Process: process.ID{Namespace: "ns", Name: "nginx"}, Spec: &process.Spec{},
			Targets: []store.Target{{ItemKey: "agent-0", Spelling: "agent-0", Agent: "agent-0"}},
		}
		if err := r.Submit(t.Context(), &store.Task{
			ID: "t", Requests: []store.Request{request},
			HostTimeout: time.Second,
		}, store.AuditRow{}); err != nil {
			t.Fatal(err)
		}
		item := r.takenOne().Item
		r.pass(5 * time.Minute)
		r.shows("t", "")
		r.finish("agent-0", item)
		r.shows("t", process.Success)
	})
}

// open reports whether a key of a task has no outcome yet.
func (r *rig) open(id, key string) (open bool) {
	r.t.Helper()
	err := r.db.TaskItems(r.t.Context(), id, "", func(v store.ItemView) error {
		if v.ItemKey == key {
			open = !v.Done
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return open
}

var _ engine.Link = (*rig)(nil)
