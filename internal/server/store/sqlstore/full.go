package sqlstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"drover/internal/server/store"
)

// ErrFull is the error of a Backend, wrapped or not, for a write that finds no room on the disk.
var ErrFull = errors.New("no space left on device")

type urgentKey struct{}

// urgently marks writes for which a Backend gives up room that it has kept.
func urgently(ctx context.Context) context.Context { return context.WithValue(ctx, urgentKey{}, true) }

// Urgent reports whether a write is marked as urgent.
func Urgent(ctx context.Context) bool { return ctx.Value(urgentKey{}) != nil }

// hurried marks the writes about a task, if it only ends processes or leaves them to themselves.
func hurried(ctx context.Context, t *store.Task) context.Context {
	for _, r := range t.Requests {
		if !r.Op.Info().Ends {
			return ctx
		}
	}
	return urgently(ctx)
}

// fullness remembers since when writes find no room.
type fullness struct {
	mu    sync.Mutex
	since time.Time
}

// judge looks at what came of a write. One that is urgent and succeeds proves no room for others.
func (f *fullness) judge(ctx context.Context, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case errors.Is(err, ErrFull):
		if f.since.IsZero() {
			f.since = time.Now()
		}
		return &store.FullError{Since: f.since, Err: err}
	case err == nil && !Urgent(ctx):
		f.since = time.Time{}
	}
	return err
}

// FullSince returns the time since which writes find no room; the zero time means that there is room.
func (db *Store) FullSince() time.Time {
	db.full.mu.Lock()
	defer db.full.mu.Unlock()
	return db.full.since
}
