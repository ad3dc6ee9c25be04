package caretaker

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"drover/internal/process"
	"drover/internal/wire"
)

const (
	// askEvery is the time between two questions to a host about its running processes, for processes whose drift is
	// mended.
	askEvery = 5 * time.Minute
	// mostAsked is how many hosts a round asks, askAbreast how many at the same time, and askTime how long the round
	// waits for them.
	mostAsked  = 64
	askAbreast = 16
	askTime    = 15 * time.Second
)

// findDrift asks hosts about running processes whose drift is mended.
func (r *round) findDrift(ctx context.Context) {
	asks := map[string][]*place{}
	for _, p := range r.places {
		last, asked := r.k.asked[p.key.Agent]
		switch {
		case p.placed == nil || p.placed.Spec.Drift != process.DriftMend || p.busy || !r.present(p.key.Agent),
			p.have == nil || !p.have.Status.Running() || p.has() != p.placed.Revision,
			asked && r.now.Sub(last) < askEvery,
			len(asks) == mostAsked && asks[p.key.Agent] == nil, len(asks[p.key.Agent]) == wire.MaxLive:
			continue
		}
		asks[p.key.Agent] = append(asks[p.key.Agent], p)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var askers sync.WaitGroup
	free := make(chan struct{}, askAbreast)
	for agent, list := range asks {
		r.k.asked[agent] = r.now
		free <- struct{}{}
		askers.Go(func() {
			defer func() { <-free }()
			r.ask(ctx, agent, list)
		})
	}
	askers.Wait()
}

// ask asks one host. A host that does not answer is asked again later.
func (r *round) ask(ctx context.Context, agent string, list []*place) {
	var q wire.LiveQuestion
	for _, p := range list {
		q.Processes = append(q.Processes, p.key.Process)
	}
	a, err := r.k.Live.Live(ctx, agent, q)
	if err != nil {
		return
	}
	for _, found := range a.Processes {
		i := slices.Index(q.Processes, found.Process)
		if i >= 0 && slices.ContainsFunc(found.Fields, mendable) {
			list[i].drifted = process.Restart
		}
	}
}

// mendable reports whether a restart removes a difference. A program may write over its command line, and would do so
// again. A limit without a wanted value is one that the host cannot set.
func mendable(f process.LiveField) bool {
	if strings.HasPrefix(f.Path, "limits.") && f.Want == "" {
		return false
	}
	return f.Path == "executable" || f.Path == "user" || strings.HasPrefix(f.Path, "limits.") ||
		strings.HasPrefix(f.Path, "environment.")
}
