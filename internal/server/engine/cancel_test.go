//nolint:thelper // what runs in a bubble is the test itself
package engine_test

import (
	"context"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/wire"
)

const notBegun = "cancelled: the operation was not begun"

// takesCancels is a link to agents that take orders and cancellations.
func takesCancels(ctx context.Context, agent string, m *wire.Manifest) (*wire.Receipt, error) {
	receipt, err := accept(ctx, agent, m)
	for _, o := range m.Cancel {
		receipt.Accepted = append(receipt.Accepted, o.Item)
	}
	return receipt, err
}

func (r *rig) cancel(id string, want store.CancelCounts) {
	r.t.Helper()
	got, err := r.Cancel(r.t.Context(), id, "")
	if err != nil {
		r.t.Fatal(err)
	}
	if got != want {
		r.t.Errorf("cancelled are %+v, want %+v", got, want)
	}
}

// TestCancelOfWhatWaits: an operation behind an older one was never sent. It ends at once, and the next one goes on.
func TestCancelOfWhatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer(takesCancels)
		r.submit("first", process.Restart, "agent-0")
		first := r.takenOne()
		r.submit("second", process.Restart, "agent-0")
		r.submit("third", process.Restart, "agent-0")
		r.cancel("second", store.CancelCounts{Ended: 1})
		r.shows("second", notBegun)
		r.finish("agent-0", first.Item)
		third := r.takenOne()
		r.finish("agent-0", third.Item)
		r.shows("third", process.Success)
		r.shows("second", notBegun)
	})
}

// TestCancelIsTheAgentsWord: of sent operations the server knows nothing before the agents answer. Agents that do not
// answer are told again, also by the next server, and never get the orders again.
func TestCancelIsTheAgentsWord(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer(takesCancels)
		r.submit("t", process.Restart, "agent-0", "agent-1", "agent-2")
		items := map[string]string{}
		for _, m := range r.taken() {
			items[m.Agent] = m.Orders[0].Item
		}
		r.progress("agent-1", wire.Progress{Item: items["agent-1"], Limit: 60})
		r.answer(silence)
		r.cancel("t", store.CancelCounts{Asked: 2, Begun: 1})
		r.pass(time.Second)
		r.shows("t", "", "", "")
		r.stop()
		r.taken()
		r.start()
		r.answer(takesCancels)
		r.pass(20 * time.Second)
		told := map[string]int{}
		for _, m := range r.taken() {
			if len(m.Orders) > 0 {
				t.Errorf("%s was sent %d orders", m.Agent, len(m.Orders))
			}
			for _, o := range m.Cancel {
				told[m.Agent]++
				if o.Item != items[m.Agent] || o.Spec != nil {
					t.Errorf("%s was told about %+v", m.Agent, o)
				}
			}
		}
		if len(told) != 2 || told["agent-0"] != 1 || told["agent-2"] != 1 {
			t.Errorf("told are %v", told)
		}
		never := process.NotBegun()
		r.progress("agent-0", wire.Progress{Item: items["agent-0"], Outcome: &never})
		r.finish("agent-1", items["agent-1"])
		r.finish("agent-2", items["agent-2"]) // it had begun
		r.shows("t", notBegun, process.Success, process.Success)
	})
}

// TestCancelForAnAgentThatIsAway: the agent never gets the order, and the task ends by its deadline.
func TestCancelForAnAgentThatIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.pass(time.Hour)
		r.report("agent-0", wire.Report{Hello: &wire.Hello{IP: "10.0.0.0"}})
		r.submit("t", process.Restart, "agent-0")
		item := r.takenOne().Item
		r.leave("agent-0")
		r.cancel("t", store.CancelCounts{Asked: 1})
		r.pass(time.Minute)
		r.answer(takesCancels)
		ack := r.report("agent-0", wire.Report{Hello: &wire.Hello{IP: "10.0.0.0"}, Open: []string{item}})
		if len(ack.Ended) != 1 || ack.Ended[0] != item {
			t.Errorf("an agent that asks hears that %v have ended", ack.Ended)
		}
		r.pass(time.Minute)
		for _, m := range r.taken() {
			if len(m.Orders) > 0 {
				t.Errorf("the order was sent again: %+v", m.Orders)
			}
		}
		r.pass(15 * time.Minute)
		r.shows("t", unavailable+": it has taken the operation, and may have begun")
	})
}
