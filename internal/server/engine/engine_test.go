//nolint:thelper // what runs in a bubble is the test itself
package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/wire"
)

func TestOperation(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		created := time.Now()
		r.submit("t", process.Start, "agent-0", "agent-1")
		sent := r.taken()
		if len(sent) != 2 {
			t.Fatalf("%d manifests were sent, want 2", len(sent))
		}
		for _, m := range sent {
			if !m.Expires.Equal(created.Add(10*time.Minute)) || len(m.Orders) != 1 || m.Orders[0].Op != process.Start {
				t.Errorf("manifest is %+v", m)
			}
			if by := m.Orders[0].Actor; by != (process.Actor{User: "anna", Reason: "rollout ro-1", Operation: "t"}) {
				t.Errorf("the actor of an order is %+v", by)
			}
		}
		var waited error
		var waiting sync.WaitGroup
		waiting.Go(func() { waited = r.Wait(t.Context(), "t") })
		r.shows("t", "", "")
		if r.directory.Presence("agent-0", time.Now()).Away {
			t.Error("an agent that gave a receipt counts as away")
		}
		for _, m := range sent {
			r.progress(m.Agent, wire.Progress{Item: m.Orders[0].Item, Limit: 60})
		}
		r.pass(time.Minute)
		if extra := r.taken(); len(extra) != 0 {
			t.Errorf("%d manifests were sent after the receipts", len(extra))
		}
		for _, m := range sent {
			r.finish(m.Agent, m.Orders[0].Item)
		}
		waiting.Wait()
		if waited != nil {
			t.Error(waited)
		}
		r.shows("t", process.Success, process.Success)
	})
}

func TestWait(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		if err := r.Wait(t.Context(), "t"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("unknown task: %v", err)
		}
		r.submit("t", process.Start, "agent-0")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Wait(ctx, "t"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a task that is not done: %v", err)
		}
		r.finish("agent-0", r.takenOne().Item)
		if err := r.Wait(t.Context(), "t"); err != nil {
			t.Errorf("a task that is done: %v", err)
		}
	})
}

func TestProcessesRunOneOperationAfterAnother(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.submit("1", process.Start, "agent-0")
		r.submit("2", process.Reload, "agent-0", "agent-1")
		var start, reload string
		for _, m := range r.taken() {
			switch o := m.Orders[0]; {
			case m.Agent == "agent-0" && o.Op == process.Start && start == "":
				start = o.Item
			case m.Agent == "agent-1":
				r.finish(m.Agent, o.Item)
			default:
				t.Errorf("%s was sent to %s", o.Op, m.Agent)
			}
		}
		r.pass(time.Minute)
		if n := len(r.taken()); n != 0 {
			t.Errorf("%d manifests were sent while the first runs", n)
		}
		r.finish("agent-0", start)
		o := r.takenOne()
		if reload = o.Item; o.Op != process.Reload {
			t.Errorf("%s was sent", o.Op)
		}
		r.finish("agent-0", reload)
		r.shows("1", process.Success)
		r.shows("2", process.Success, process.Success)
	})
}

// TestStopIsSentBesideWhatTheAgentHas: the agent decides what a stop gets past; a kill is sent although the agent has
// not even taken the operation before it.
func TestStopIsSentBesideWhatTheAgentHas(t *testing.T) {
	for _, op := range []process.Op{process.Stop, process.Unhost, process.Query, process.Kill} {
		bubble(t, func(t *testing.T, r *rig) {
			r.submit("1", process.Start, "agent-0")
			start := r.takenOne()
			r.submit("2", op, "agent-0")
			r.pass(time.Second)
			o := r.takenOne()
			if o.Op != op {
				t.Errorf("%s was sent, want %s", o.Op, op)
			}
			r.finish("agent-0", o.Item)
			r.shows("1", "")
			r.finish("agent-0", start.Item)
			r.shows("1", process.Success)
		})
	}
}

func TestSlowAgentDelaysNobody(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer(func(ctx context.Context, agent string, m *wire.Manifest) (*wire.Receipt, error) {
			if agent == "agent-0" {
				return silence(ctx, agent, m)
			}
			return accept(ctx, agent, m)
		})
		before := time.Now()
		r.submit("t", process.Start, "agent-0", "agent-1", "agent-2")
		for _, m := range r.taken() {
			if m.Agent != "agent-0" {
				r.finish(m.Agent, m.Orders[0].Item)
			}
		}
		r.submit("u", process.Stop, "agent-1")
		r.finish("agent-1", r.takenOne().Item)
		r.shows("t", "", process.Success, process.Success)
		r.shows("u", process.Success)
		if d := time.Since(before); d != 0 {
			t.Errorf("it took %v", d)
		}
	})
}

func TestResendsUnderTheSameID(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer(silence)
		r.submit("t", process.Start, "agent-0")
		first := r.takenOne()
		r.pass(5*time.Second + time.Second) // the send times out, and the first wait is at most a second
		if again := r.takenOne(); again.Item != first.Item {
			t.Errorf("sent again as %s, first as %s", again.Item, first.Item)
		}
		r.answer(accept)
		r.pass(5*time.Second + 2*time.Second)
		if again := r.takenOne(); again.Item != first.Item {
			t.Errorf("sent again as %s, first as %s", again.Item, first.Item)
		}
		r.pass(9 * time.Minute)
		if n := len(r.taken()); n != 0 {
			t.Errorf("%d manifests were sent after the receipt", n)
		}
	})
}

func TestRefusals(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer(func(_ context.Context, agent string, m *wire.Manifest) (*wire.Receipt, error) {
			switch agent {
			case "agent-0":
				return &wire.Receipt{Error: "signed by a key that is not pinned"}, nil
			case "agent-1":
				return &wire.Receipt{
					Refused:  map[string]string{m.Orders[0].Item: "needs root"},
					Accepted: []string{"another"},
				}, nil
			case "agent-2":
				return &wire.Receipt{Version: wire.Version + 1, Error: "from the future"}, nil
			}
			return &wire.Receipt{}, nil // says nothing of the item
		})
		r.submit("t", process.Start, "agent-0", "agent-1", "agent-2", "agent-3")
		r.shows("t", "signed by a key that is not pinned", "needs root", "", "")
		r.taken()
		r.answer(accept)
		r.pass(5 * time.Second)
		if n := len(r.taken()); n != 2 {
			t.Errorf("%d were sent again, want the two that had no word on the item", n)
		}
	})
}

// TestRefusalOfWhatMayBeRunning: a refusal of a whole manifest ends only what is in it for the first time. The agent
// may have journalled the others when they came before, and its outcomes of those count.
func TestRefusalOfWhatMayBeRunning(t *testing.T) {
	full := func(context.Context, string, *wire.Manifest) (*wire.Receipt, error) {
		return &wire.Receipt{Error: "cannot journal operations: no space left on device"}, nil
	}
	bubble(t, func(t *testing.T, r *rig) {
		r.answer(accept)
		r.submit("accepted", process.Start, "agent-0")
		accepted := r.takenOne().Item
		r.answer(silence)
		r.submit("sent", process.Start, "agent-1")
		sent := r.takenOne().Item
		r.pass(5*time.Second - time.Millisecond)
		r.answer(full)
		r.report("agent-0", wire.Report{Hello: &wire.Hello{IP: "10.0.0.0"}}) // it is reminded
		r.submit("new", process.Start, "agent-2")
		r.pass(2 * time.Second)
		again := map[string]bool{}
		for _, m := range r.taken() {
			again[m.Orders[0].Item] = true
		}
		if !again[accepted] || !again[sent] {
			t.Fatalf("sent again were %v: nothing is tried", again)
		}
		r.shows("new", "cannot journal operations: no space left on device")
		r.shows("accepted", "")
		r.shows("sent", "")
		r.finish("agent-0", accepted)
		r.finish("agent-1", sent)
		r.shows("accepted", process.Success)
		r.shows("sent", process.Success)
	})
}

// TestRefusalOfWhatAnotherHasSent: of items that are sent for the first time as far as this server knows, those that
// the agent knows are not ended by a refusal of the others. A server that died after it had sent them has left them so.
func TestRefusalOfWhatAnotherHasSent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer(func(_ context.Context, agent string, m *wire.Manifest) (*wire.Receipt, error) {
			receipt := &wire.Receipt{Error: "cannot journal operations: no space left on device"}
			if agent == "agent-0" {
				receipt.Accepted = []string{m.Orders[0].Item}
			}
			return receipt, nil
		})
		r.submit("known", process.Start, "agent-0")
		known := r.takenOne().Item
		r.submit("new", process.Start, "agent-1")
		r.shows("new", "cannot journal operations: no space left on device")
		r.pass(time.Minute)
		r.shows("known", "")
		r.taken()
		r.finish("agent-0", known)
		r.shows("known", process.Success)
	})
}

func TestTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		labels := map[string]string{"large": strings.Repeat("x", wire.MaxMessage)}
		request := store.Request{
			Op: process.Start, Spec: &process.Spec{Labels: labels},
			Targets: []store.Target{{ItemKey: "large", Agent: "agent-0"}},
		}
		err := r.Submit(t.Context(), &store.Task{ID: "t", Created: time.Now(), Requests: []store.Request{request}},
			store.AuditRow{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Wait(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		if n := len(r.taken()); n != 0 {
			t.Errorf("%d manifests were sent", n)
		}
	})
}
