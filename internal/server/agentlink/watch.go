package agentlink

import (
	"context"
	"log/slog"
	"time"

	"drover/internal/fabric/broker"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// compareEvery is how often the server looks whether subscriptions at its broker have changed. A comparison takes half
// a millisecond for 1,000 agents, and is made only after a change.
const compareEvery = 250 * time.Millisecond

// Watch notices agents that have lost their links.
type Watch struct {
	// Broker is the embedded broker; nil with external brokers. Those tell nothing, so there the silence of agents
	// decides alone.
	Broker    *broker.Broker
	Directory *fleet.Directory
	// Changed is called when agents have come or gone.
	Changed func()
	// Now is the clock of the fleet.
	Now func() time.Time
	Log *slog.Logger
}

// Run watches until ctx ends: each agent listens for pings as long as it is connected to a broker of the fleet, or to a
// proxy.
func (w Watch) Run(ctx context.Context) error {
	if w.Broker == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(compareEvery)
	defer tick.Stop()
	for before := uint64(0); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		after, err := w.compare(before)
		if err != nil {
			w.Log.ErrorContext(ctx, "cannot find out which agents are connected", "error", err)
		}
		before = after
	}
}

// nobody is the key of no agent.
const nobody = "nobody"

// compare compares the links of agents with the subscriptions at the broker. before is its result of the last time.
func (w Watch) compare(before uint64) (after uint64, err error) {
	if after, err = w.Broker.Changes(); err != nil { // before the look: what changes meanwhile counts the next time
		return before, err
	}
	listens, err := w.Broker.Listeners()
	if err != nil {
		return before, err
	}
	if w.Directory.Compare(after != before, w.Now(), func(a store.Agent) bool {
		return listens(wire.PingSubject(a.Cloud, a.Key), wire.PingSubject(a.Cloud, nobody))
	}) > 0 {
		w.Changed()
	}
	return after, nil
}
