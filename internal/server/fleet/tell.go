package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"drover/internal/idle"
	"drover/internal/process"
	"drover/internal/server/store"
)

const (
	// steadyFor is how long an agent must be away, or connected again, before an event tells so. An agent that restarts
	// or is upgraded is back earlier, and a link that comes and goes makes two events in two minutes at most.
	steadyFor = time.Minute
	// tellEvery is the interval between two looks at all agents.
	tellEvery = 10 * time.Second
	// tellStream is the stream of the events about the presence of a host.
	tellStream = "presence"
	// tellPage is how many events one read of what was told returns.
	tellPage = 1000
)

// TellerStore stores the events about hosts.
type TellerStore interface {
	PutEvents(ctx context.Context, agent string, received time.Time, events []store.NewEvent) (int, error)
	EventsBefore(ctx context.Context, before store.EventMark, f store.EventFilter, limit int) (
		[]store.StoredEvent, store.EventMark, error)
}

// TellerConfig holds the parts of a teller.
type TellerConfig struct {
	Store     TellerStore
	Directory *Directory
	// Happened is called when there are new events.
	Happened func()
	// Now is the common time of all servers of the database, and Wall the time for people.
	Now, Wall func() time.Time
	Log       *slog.Logger
}

// Teller stores the events host-away and host-back. Only one teller should run at a time.
type Teller struct {
	TellerConfig
	// away has the agents that the last event tells to be away; nil until it is read. back is since when such an agent
	// has been connected again.
	away map[string]bool
	back map[string]time.Time
	// memberSince is since when this teller has seen an agent in the register.
	memberSince map[string]time.Time
}

// NewTeller returns a teller.
func NewTeller(c TellerConfig) *Teller { return &Teller{TellerConfig: c} }

// Run tells until ctx ends.
func (t *Teller) Run(ctx context.Context) error {
	t.away, t.back, t.memberSince = nil, map[string]time.Time{}, nil // another server may have told since
	for ctx.Err() == nil {
		if err := t.Look(ctx); err != nil && ctx.Err() == nil {
			t.Log.WarnContext(ctx, "cannot tell which hosts are away", "error", err)
		}
		idle.Sleep(ctx, tellEvery)
	}
	return nil
}

// Look looks at all agents once.
func (t *Teller) Look(ctx context.Context) error {
	if t.away == nil {
		if err := t.read(ctx); err != nil {
			return err
		}
	}
	now, known := t.Now(), map[string]time.Time{}
	for a := range t.Directory.After(Place{}) {
		p := t.Directory.Presence(a.Key, now)
		if known[a.Key] = t.memberSince[a.Key]; known[a.Key].IsZero() {
			known[a.Key] = now
		}
		if p.LastSeen.IsZero() { // it may have joined, or joined again, a moment ago
			p.Since = laterOf(p.Since, known[a.Key])
		}
		if err := t.tellPresence(ctx, a.Key, p, now); err != nil {
			return err
		}
	}
	t.memberSince = known
	gone := func(key string, away bool) bool { return away && known[key].IsZero() }
	for key, away := range t.away {
		if gone(key, away) { // it was removed, or another agent has got its events
			back := t.back
			err := t.read(ctx)
			t.back = back
			maps.DeleteFunc(t.away, gone)
			return err
		}
	}
	return nil
}

// read reads what was told last of each agent.
func (t *Teller) read(ctx context.Context) error {
	away, seen := map[string]bool{}, map[string]bool{}
	f := store.EventFilter{Kinds: []process.EventKind{
		process.EventHostAway, process.EventHostBack, process.EventHostRemoved,
	}}
	for mark := (store.EventMark{}); ; {
		events, next, err := t.Store.EventsBefore(ctx, mark, f, tellPage)
		if err != nil {
			return err
		}
		for i := range events {
			if e := &events[i]; !seen[e.Agent] {
				seen[e.Agent], away[e.Agent] = true, e.Event.Kind == process.EventHostAway
			}
		}
		if mark = next; mark == (store.EventMark{}) {
			t.away, t.back = away, map[string]time.Time{}
			return nil
		}
	}
}

// tellPresence tells of one agent what is different from what was told.
func (t *Teller) tellPresence(ctx context.Context, key string, p Presence, now time.Time) error {
	switch {
	case p.Settling || !p.Joined:
		return nil
	case p.Away:
		delete(t.back, key)
		if t.away[key] || now.Sub(p.Since) < steadyFor {
			return nil
		}
		since := t.Wall().Add(p.Since.Sub(now)).UTC().Format(time.RFC3339)
		return t.tell(ctx, key, process.EventHostAway,
			process.Cause{ID: process.CauseAgentAway, Text: "the agent of the host has been away since " + since})
	case !t.away[key]:
		return nil
	case t.back[key].IsZero():
		t.back[key] = now
		return nil
	case now.Sub(t.back[key]) < steadyFor:
		return nil
	}
	since := t.Wall().Add(t.back[key].Sub(now)).UTC().Format(time.RFC3339)
	return t.tell(ctx, key, process.EventHostBack,
		process.Cause{Text: "the agent of the host has been connected again since " + since})
}

// tell stores an event of a host.
func (t *Teller) tell(ctx context.Context, key string, kind process.EventKind, cause process.Cause) error {
	at := t.Wall()
	e := process.Event{
		Stream: tellStream, Seq: uint64(max(at.UnixMilli(), 1)), //nolint:gosec // it is positive
		At: at.UnixMilli(), Kind: kind, Actor: process.Actor{Kind: process.ActorPolicy}, Cause: cause,
	}
	body, err := json.Marshal(&e)
	if err != nil {
		return fmt.Errorf("cannot encode the event of a host: %w", err)
	}
	n, err := t.Store.PutEvents(ctx, key, at, []store.NewEvent{{Event: e, Body: string(body)}})
	if err != nil {
		return err
	}
	t.away[key] = kind == process.EventHostAway
	delete(t.back, key)
	if n > 0 {
		t.Happened()
	}
	return nil
}
