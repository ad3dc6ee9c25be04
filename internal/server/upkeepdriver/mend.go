package upkeepdriver

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
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

// mend is the restart that mended a process last.
type mend struct {
	agent string
	at    time.Time
}

// findDrift asks hosts about running processes whose drift is mended. It finds one host for each process, and none
// until the process runs again where it was mended last: all hosts may have drifted at once, and a restart may fail.
func (r *round) findDrift(ctx context.Context) error {
	asks := map[string][]*place{}
	held := map[process.ID]bool{}
	for _, p := range r.places {
		if p.placed == nil || p.placed.Spec.Drift != process.DriftMend {
			continue
		}
		if _, known := held[p.key.Process]; !known {
			var err error
			if held[p.key.Process], err = r.mending(ctx, p.key.Process); err != nil {
				return err
			}
		}
		last, asked := r.k.asked[p.key.Agent]
		switch {
		case held[p.key.Process] && r.k.mended[p.key.Process].agent != p.key.Agent:
			continue
		case p.busy || !r.present(p.key.Agent),
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
	found := map[process.ID]bool{}
	for _, p := range r.places {
		switch {
		case p.drifted == "":
		case found[p.key.Process]:
			p.drifted = ""
			delete(r.k.asked, p.key.Agent) // its turn comes
		default:
			found[p.key.Process] = true
		}
	}
	return nil
}

// mending reports whether the last restart that mended a process has yet to bring the process up again.
func (r *round) mending(ctx context.Context, id process.ID) (bool, error) {
	last, mended := r.k.mended[id]
	if !mended {
		return false, nil
	}
	agents := []string{last.agent}
	busy, err := r.k.Store.BusyOn(ctx, agents)
	if err != nil {
		return false, err
	}
	open := slices.Contains(busy, store.ObservedKey{Agent: last.agent, Process: id})
	err = r.k.Store.GetObserved(ctx, id, agents, func(o store.Observed) error {
		open = open || o.Status.Hosted && !o.Status.Running()
		return nil
	})
	if err != nil {
		return false, err
	}
	if gone := !r.present(last.agent) && r.now.Sub(last.at) > askEvery; gone || !open {
		delete(r.k.mended, id)
		return false, nil
	}
	return true, nil
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
// again. A limit without a wanted value is one that the host cannot set. An executable with a problem is not there. A
// variable with another value may be one that the program has written over.
func mendable(f process.LiveField) bool {
	if strings.HasPrefix(f.Path, "limits.") && f.Want == "" {
		return false
	}
	return f.Path == "executable" && f.Problem == "" || f.Path == "user" || strings.HasPrefix(f.Path, "limits.") ||
		strings.HasPrefix(f.Path, "environment.") && f.Problem == ""
}
