package server

import (
	"context"
	"time"

	"drover/internal/idle"
	"drover/internal/process"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// work wakes the parts that drive what people have begun, so that they need not ask the database all the time. Each part
// runs on the server that has its lease, so the other servers hear of a change, too.
type work struct{ rollouts, schedules, breakers chan struct{} }

func newWork() work {
	return work{make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)}
}

// wake wakes the parts of this server.
func (w *work) wake() {
	for _, part := range []chan struct{}{w.rollouts, w.schedules, w.breakers} {
		idle.Wake(part)
	}
}

// tellingStore is a store for the API. It wakes the parts that drive what the API has stored.
type tellingStore struct {
	store.Store
	changed func()
}

// telling returns the store of the API.
func (s *Server) telling() tellingStore {
	return tellingStore{s.store, func() {
		s.work.wake()
		s.cluster.workChanged()
	}}
}

// told calls changed if a change was stored.
func (t tellingStore) told(err error) error {
	if err == nil {
		t.changed()
	}
	return err
}

// CreateRollouts implements store.Rollouts.
func (t tellingStore) CreateRollouts(ctx context.Context, list []*store.Rollout, row store.AuditRow) error {
	return t.told(t.Store.CreateRollouts(ctx, list, row))
}

// ChangeRollout implements store.Rollouts.
func (t tellingStore) ChangeRollout(ctx context.Context, id, app string, change func(*rollout.Rollout) error) (
	*store.Rollout, error,
) {
	r, err := t.Store.ChangeRollout(ctx, id, app, change)
	return r, t.told(err)
}

// CreateSchedule implements store.Schedules.
func (t tellingStore) CreateSchedule(ctx context.Context, s store.Schedule) error {
	return t.told(t.Store.CreateSchedule(ctx, s))
}

// PauseSchedule implements store.Schedules.
func (t tellingStore) PauseSchedule(ctx context.Context, name, app string, paused bool, now time.Time) (
	store.Schedule, error,
) {
	s, err := t.Store.PauseSchedule(ctx, name, app, paused, now)
	return s, t.told(err)
}

// CloseBreaker implements store.Breakers.
func (t tellingStore) CloseBreaker(ctx context.Context, id process.ID, at time.Time, by string) (store.Breaker, error) {
	b, err := t.Store.CloseBreaker(ctx, id, at, by)
	return b, t.told(err)
}
