//nolint:thelper // what runs in a bubble is the test itself
package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/engine"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// faultyAgent is an agent as the protocol asks for one, behind a link that loses, doubles and delays in both
// directions. It runs an item once, however often it is sent, and repeats its report until that is acknowledged.
type faultyAgent struct {
	t    *testing.T
	name string
	// server is where reports go; nil while it is down.
	server *atomic.Pointer[engine.Engine]

	mu      sync.Mutex
	random  *rand.Rand
	journal map[string]bool
	ran     []process.Op // in order
	running int
	work    sync.WaitGroup
}

var errLost = errors.New("lost")

// chance is true once in n.
func (a *faultyAgent) chance(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.random.IntN(n) == 0
}

func (a *faultyAgent) delay(most time.Duration) {
	a.mu.Lock()
	d := time.Duration(a.random.Int64N(int64(most)))
	a.mu.Unlock()
	time.Sleep(d) // the bubble's time
}

// receive is the link's way to the agent and back.
func (a *faultyAgent) receive(ctx context.Context, m *wire.Manifest) (*wire.Receipt, error) {
	if a.chance(5) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	a.delay(2 * time.Second)
	receipt := a.accept(m)
	if a.chance(5) {
		a.accept(m) // a copy comes later
	}
	if a.chance(5) {
		return nil, errLost
	}
	return receipt, nil
}

func (a *faultyAgent) accept(m *wire.Manifest) *wire.Receipt {
	receipt := &wire.Receipt{Version: wire.Version}
	for _, o := range m.Orders {
		receipt.Accepted = append(receipt.Accepted, o.Item)
		a.mu.Lock()
		known := a.journal[o.Item]
		a.journal[o.Item] = true
		a.mu.Unlock()
		if !known {
			a.work.Go(func() { a.run(o) })
		}
	}
	return receipt
}

// run carries out an order.
func (a *faultyAgent) run(o wire.Order) {
	a.mu.Lock()
	a.running++
	if a.running > 1 {
		a.t.Errorf("%s has two operations on one process at a time", a.name)
	}
	a.ran = append(a.ran, o.Op)
	a.mu.Unlock()
	a.tell(wire.Progress{Item: o.Item, Limit: 3600})
	a.delay(3 * time.Second)
	a.mu.Lock()
	a.running-- // before the report: its receipt may be what is lost
	a.mu.Unlock()
	a.tell(wire.Progress{Item: o.Item, Outcome: &process.Outcome{Text: string(o.Op)}})
}

func (a *faultyAgent) tell(p wire.Progress) {
	for {
		a.delay(time.Second)
		if a.chance(4) {
			continue // lost on the way
		}
		server := a.server.Load()
		if server == nil {
			continue
		}
		data, err := json.Marshal(wire.Report{Version: wire.Version, Progress: []wire.Progress{p}})
		if err != nil {
			a.t.Error(err)
			return
		}
		var ack wire.ReportAck
		if err := json.Unmarshal(server.HandleReport(a.t.Context(), a.name, data, time.Now()), &ack); err != nil {
			a.t.Error(err)
			return
		}
		if ack.Error == "" && !a.chance(4) { // else the acknowledgement was lost
			return
		}
	}
}

// TestFaultyLink has tasks overlap on the same processes while messages are lost, doubled and delayed and the server is
// restarted: every operation runs once, in the order in which it was asked for, and every key gets the outcome of its
// own operation.
func TestFaultyLink(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) { faultyRun(t, r, seed) })
		})
	}
}

func faultyRun(t *testing.T, r *rig, seed uint64) {
	const rounds = 6
	var server atomic.Pointer[engine.Engine]
	server.Store(r.Engine)
	agents := map[string]*faultyAgent{}
	for i := range 4 {
		name := fmt.Sprintf("agent-%d", i)
		agents[name] = &faultyAgent{
			t: t, name: name, server: &server, random: rand.New(rand.NewPCG(seed, uint64(i))),
			journal: map[string]bool{},
		}
	}
	r.answer(func(ctx context.Context, agent string, m *wire.Manifest) (*wire.Receipt, error) {
		return agents[agent].receive(ctx, m)
	})
	var want []process.Op
	for n := range rounds {
		op := process.Op(fmt.Sprint("op-", n))
		want = append(want, op)
		r.submit(string(op), op, "agent-0", "agent-1", "agent-2", "agent-3")
	}
	for range 3 {
		r.pass(4 * time.Second)
		server.Store(nil)
		r.stop()
		r.pass(2 * time.Second)
		r.start()
		server.Store(r.Engine)
	}
	for _, op := range want {
		if err := r.Wait(t.Context(), string(op)); err != nil {
			t.Fatal(err)
		}
		err := r.db.TaskItems(t.Context(), string(op), "", func(v store.ItemView) error {
			if v.Outcome.Text != string(op) {
				t.Errorf("%s of %s ended with %q", op, v.ItemKey, v.Outcome.Text)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	for name, a := range agents {
		a.work.Wait()
		if fmt.Sprint(a.ran) != fmt.Sprint(want) {
			t.Errorf("%s ran %v, want %v", name, a.ran, want)
		}
	}
}
