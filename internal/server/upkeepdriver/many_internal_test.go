package upkeepdriver

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
)

// large is a fleet of hosts that have everything that they should have: many processes each.
type large struct {
	Store
	hosts []string
	// looked are the hosts of which the driver has read the processes.
	looked map[string]bool
}

func (l *large) ListSelections(context.Context, string) ([]store.Selection, error) { return nil, nil }

func (l *large) ListRollouts(context.Context, store.RolloutFilter, int64, int) ([]store.Rollout, error) {
	return nil, nil
}

func (l *large) PlacedOn(_ context.Context, agents []string) (list []store.Placement, err error) {
	for _, agent := range agents {
		for i := range store.MostProcesses {
			list = append(list, store.Placement{
				Process: process.ID{Namespace: "shop", Name: fmt.Sprint("p", i)}, Agent: agent, Revision: 1,
				Spec: &process.Spec{Revision: 1}, Filed: true,
			})
		}
	}
	return list, nil
}

func (l *large) LeftOn(context.Context, []string) ([]store.Placement, error) { return nil, nil }

func (l *large) UpkeepOn(context.Context, []string) ([]store.Upkeep, error) { return nil, nil }

func (l *large) PutUpkeep(context.Context, []store.Upkeep) error { return nil }

func (l *large) LatestRevision(context.Context, string) (int64, error) { return 1, nil }

func (l *large) BusyOn(context.Context, []string) ([]store.ObservedKey, error) { return nil, nil }

func (l *large) GetObserved(_ context.Context, id process.ID, agents []string, fn func(store.Observed) error) error {
	for _, agent := range agents {
		l.looked[agent] = true
		err := fn(store.Observed{
			Agent: agent, Process: id, Spec: &process.Spec{Revision: 1},
			Status: process.Status{Known: true, Hosted: true, State: process.StateRunning},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *large) After(p fleet.Place) iter.Seq[store.Agent] {
	return func(yield func(store.Agent) bool) {
		for _, key := range l.hosts {
			a := store.Agent{Key: key, IP: key}
			if fleet.PlaceOf(a).Compare(p) > 0 && !yield(a) {
				return
			}
		}
	}
}

func (l *large) ByKey(key string) (store.Agent, bool) {
	return store.Agent{Key: key, IP: key}, slices.Contains(l.hosts, key)
}

func (l *large) Presence(string, time.Time) fleet.Presence { return fleet.Presence{Joined: true} }

// TestEachHostOfManyProcessesHasItsTurn: a round looks at no more than mostPlaces processes. A host that does not fit
// into a round is looked at in the next one.
func TestEachHostOfManyProcessesHasItsTurn(t *testing.T) {
	t.Parallel()
	l := &large{hosts: []string{"A", "B", "C"}}
	now := time.Unix(1_800_000_000, 0)
	k := New(Config{
		Store: l, Directory: l, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	})
	for round, want := range [][]string{{"A", "B"}, {"A", "C"}} {
		l.looked = map[string]bool{}
		left, err := k.Round(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range l.hosts {
			if l.looked[host] != slices.Contains(want, host) {
				t.Errorf("round %d looks at %v, want %v", round, l.looked, want)
				break
			}
		}
		if !left {
			t.Errorf("after round %d nothing is left", round)
		}
	}
}
